"""Text logs: one small grammar a framework, over one shared engine.

A grammar (``grammar.py``) names the lines that carry numbers; the engine (``log.py``) cuts the log
into blocks, cleans them, lets the grammar find its lines, and puts the records together. What a
line says in words (out of memory, a timeout, a traceback) is found by ``messages.py``.

All of it works on bytes and on many lines at once: a line that means nothing costs no more than
the search for the texts that it does not hold.
"""
