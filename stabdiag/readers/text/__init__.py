"""Text logs: one small grammar for each framework, and one engine that they share.

A grammar (``grammar.py``) describes the lines that carry numbers. The engine (``log.py``) cuts the
log into blocks, cleans them, lets the grammar find its lines, and puts the records together. What a
line says in words (out of memory, a timeout, a traceback) is found by ``messages.py``. A text of no
known framework is searched for evidence of a loss and its steps (``evidence.py``), and each name
with a value on its lines is a field (``tokens.py``).

All of this works on bytes and on many lines at once: a line that means nothing costs no more than a
search for the texts that it does not hold.
"""
