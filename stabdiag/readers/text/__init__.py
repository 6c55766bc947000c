"""Text logs: one small grammar for each framework, and one engine that they share.

A grammar (``lines/grammar.py``) describes the lines that carry numbers. The engine (``log.py``)
cuts the log into blocks, cleans them, lets the grammar find its lines, and puts the records
together. ``messages/search.py`` finds what a line says in words: out of memory, a timeout, a
traceback. In a text of no known framework, ``evidence/loss_evidence.py`` looks for a loss and its
steps, and each name with a value on its lines is a field (``lines/tokens.py``).

All of this works on bytes and on many lines at once: a line that means nothing costs no more than a
search for the texts that it does not hold.
"""
