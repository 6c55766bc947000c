"""Name lists and columns after the statements that print them, in a session or a notebook.

``print(history['loss'])`` and ``print(history['val_loss'])`` are above two lists without names, and
``df['reward']`` or only its name may be above the rows of a series of pandas.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern

# print(h.history['loss']), >>> losses, In [3]: df.loss, and the name at its end.
_SESSION_PROMPT: Final = rb"[ \t]{0,8}(?:>>> ?|In ?\[\d{0,4}\]: ?)"
_PRINTED_ITEM: Final = rb"[A-Za-z_][\w.]{0,60}\[[\"'][\w/ -]{1,40}[\"']\]"
_PRINTED_VALUE: Final = rb"(?:%b|[A-Za-z_][\w.]{0,60})" % _PRINTED_ITEM
_PRINT_STATEMENT: Final = rb"(?:(?:%b)?[ \t]{0,8}print ?\(? ?%b ?\)?|%b%b|%b)[ \t;\r]{0,8}\n" % (
    _SESSION_PROMPT,
    _PRINTED_VALUE,
    _SESSION_PROMPT,
    _PRINTED_VALUE,
    _PRINTED_ITEM,
)
_LAST_NAME: Final = lazy_pattern(rb"([A-Za-z_][\w/ -]{0,39})(?:[\"']\])?[ \t;)\r]{0,9}\n")
_LIST_BELOW: Final = rb"(?:Out ?\[\d{0,4}\]:\s{0,4})?\[[^\[\]]{3,100000}\][ \t\r]{0,8}(?:\n|\Z)"
_PRINTED_LISTS: Final = lazy_pattern(
    rb"(?m)^((?:%b){1,8})[ \t\r\n]{0,8}((?:%b[ \t\r]{0,8}\n?){1,8})"
    % (_PRINT_STATEMENT, _LIST_BELOW)
)
_LAST_STATEMENT: Final = lazy_pattern(
    rb"(?:\A|\n)(?:%b|[ \t]{0,80}[A-Za-z_][\w -]{0,40}\n)(?:Out ?\[\d{0,4}\]:)?\s{0,80}\Z"
    % _PRINT_STATEMENT
)
_STATEMENT_BYTES: Final = 200
_BEGIN_OF_LIST: Final = lazy_pattern(rb"(?m)^(?:Out ?\[\d{0,4}\]:\s{0,4})?(?=\[)")


def name_printed_lists(data: bytes) -> bytes:
    """Return a text with the names of statements in front of the lists below that they print.

    The lists have to be as many as the statements.
    """
    return _PRINTED_LISTS.sub(_named, data) if b"[" in data else data


def name_of_column(data: bytes, first: bytes) -> bytes:
    """Return the name above a column without a heading whose first row this is, or nothing."""
    above = data[: data.find(first)][-_STATEMENT_BYTES:]
    statement = _LAST_STATEMENT.search(above)
    return b"" if statement is None else _names(statement[0])[-1]


def _names(statements: bytes) -> list[bytes]:
    """Return the name that each statement prints: its last key, or its last attribute."""
    names: list[bytes] = _LAST_NAME.findall(statements)
    return [name.strip() for name in names]


def _named(match: re.Match[bytes]) -> bytes:
    names = _names(match[1])
    lists = _BEGIN_OF_LIST.split(match[2])[1:]
    if len(names) != len(lists):
        return match[0]
    pairs = zip(names, lists, strict=True)
    return b"\n" + b"".join(b"%b: %b" % pair for pair in pairs)
