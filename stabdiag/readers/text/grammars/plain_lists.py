"""Write the pairs, columns and rows of numbers of a text as lists in brackets.

Flower prints each value with its round: losses_centralized [(0, 2.30), (1, 2.28), (2, 2.24)].
A row of a table may have all values of a name: train loss, 2.302, 2.295, 2.281, 2.279. In a file
named after a loss or a score, a row may be named after its split or have any name if it is the only
one, and a few rows of the same length need no names.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, NUMBER_TOKEN, as_float, is_a_loss
from stabdiag.readers.text.lines.measure_words import SPLIT
from stabdiag.readers.unnamed import (
    is_named_loss,
    is_named_score,
    may_be_evaluated,
    name_of_values,
)

_MIN_LIST: Final = 4
# The fewest rewards or scores: shorter lists may be settings.
MIN_LONG_LIST: Final = 10

_OF_THRESHOLDS: Final = frozenset({"precision", "precisions", "recall", "recalls"})
_WRAPPED_LIST: Final = lazy_pattern(
    rb"(?:\w{1,10}\.)?(?:[Aa]rray|tensor|b?float\d\d)\((%b)(?:,[^()]{0,80}(?:\(\)[^()]{0,40})?)?\)"
    % NUMBER_PATTERN
)
# A list of pairs of a count and a value, and the fewest of them.
_LIST_OF_PAIRS: Final = lazy_pattern(
    rb"(?:(?<=[A-Za-z]) |[\"']?: ?|= ?)\[((?:\(\d{1,9}, %b\),? ?){2,1000})\]" % NUMBER_PATTERN
)
_PAIR: Final = lazy_pattern(rb"\(\d{1,9}, (%b)\)" % NUMBER_PATTERN)
_MIN_PAIRS: Final = 2
# A row of numbers, and a name in front of it.
_ROW: Final = rb"((?:%b[ \t]{0,8}[,;\t ][ \t]{0,8}){3,100000}%b)[,;]?[ \t\r]{0,8}$" % (
    NUMBER_PATTERN,
    NUMBER_PATTERN,
)
# Only a blank follows a name in front of a long row.
_NAMED_ROW: Final = lazy_pattern(
    rb"(?m)^[ \t]{0,8}([A-Za-z][\w./-]{0,40}(?: [A-Za-z]\w{0,20}){0,2})"
    rb"(?:[ \t]{0,8}[:=,;\t]|(?=(?: {1,8}%b){8}))[ \t]{0,8}" % NUMBER_PATTERN + _ROW
)
_MAX_LISTED_ROWS: Final = 4
# pandas writes the numbers of the columns above the rows, and the number of each row before it.
_NUMBERS_OF_COLUMNS: Final = lazy_pattern(rb"\s*[,;\t]0(?:[,;\t]\d{1,6})+[ \t\r]*\n")
_NUMBER_OF_ROW: Final = lazy_pattern(rb"(?m)^\d{1,2}[,;\t]")
# A column of numbers below its name, maybe with a rule between them, and a quick test for it.
_NAMED_COLUMN: Final = lazy_pattern(
    rb"(?m)^[ \t#*>|-]{0,8}([A-Za-z][\w./-]{0,40}(?: [A-Za-z]\w{0,20}){0,3})"
    rb"[ \t]{0,8}[:=|]?[ \t\r]{0,200}\n"
    rb"(?:[ \t|:=-]{0,200}\r?\n){0,2}"
    rb"((?:[ \t|]{0,20}%b[ \t]{0,8}[,;|]?[ \t\r]{0,200}(?:\n|\Z)){4,100000})" % NUMBER_PATTERN
)
_MAY_BE_COLUMN: Final = lazy_pattern(
    rb"(?:\n[ \t|]{0,20}[-+]?\d[\d.eE+-]{0,30}[ \t]{0,8}[,;|]?[ \t\r]{0,200}){3}\n"
)
# A list begins with one of these; the second is the full-width one of Chinese and Japanese texts.
_OPENING_BRACKETS: Final = (b"[", b"\xef\xbc\xbb")

# A quick test for a text without brackets: three numbers follow each other.
_MAY_BE_ROW: Final = lazy_pattern(
    rb"\d[ \t]{0,8}[,;\t ][ \t]{0,8}[-+]?\d[\d.eE+-]{0,30}[ \t]{0,8}[,;\t ][ \t]{0,8}[-+]?\d"
)
_ONE_ROW: Final = lazy_pattern(rb"\s{0,80}" + _ROW + rb"\s{0,80}\Z")
_ELLIPSIS: Final = b"..."


def may_have_lists(data: bytes) -> bool:
    """Return True if a text has brackets, or numbers that follow each other or are on lines."""
    return (
        any(bracket in data for bracket in _OPENING_BRACKETS)
        or _MAY_BE_ROW.search(data) is not None
        or _MAY_BE_COLUMN.search(data) is not None
    )


def has_column(data: bytes) -> bool:
    """Return True if a text has a name alone on a line above a column of numbers."""
    return _MAY_BE_COLUMN.search(data) is not None and _NAMED_COLUMN.search(data) is not None


def with_plain_lists(data: bytes, source: str) -> tuple[bytes, int]:
    """Return a text with its pairs, columns and rows as lists, and the length of a long one."""
    has_pairs = b" [(" in data and _LIST_OF_PAIRS.search(data) is not None
    if has_pairs:
        data = _LIST_OF_PAIRS.sub(lambda pairs: b": [%b]" % _PAIR.sub(rb"\1", pairs[1]), data)
    if has_column(data):
        data = _NAMED_COLUMN.sub(
            lambda column: b"%b: [%b]\n" % (column[1], _without_bars(column[2])), data
        )
    if b"[" not in data:
        data = _with_brackets(data, source)
    return data, _MIN_PAIRS if has_pairs else _MIN_LIST


def _with_brackets(data: bytes, source: str) -> bytes:
    """Return a text with brackets around the numbers of each row that has a name, or needs none."""
    measure = ""
    if is_named_loss(source) or is_named_score(source):
        row = _ONE_ROW.match(data)
        if row is not None:
            return b"[%b]" % row[1].replace(b";", b",")
        measure = "loss" if is_named_loss(source) else name_of_values(source)
        data = _with_names(data, measure)
    is_only = bool(measure) and len(_NAMED_ROW.findall(data)) == 1

    def bracketed(row: re.Match[bytes]) -> bytes:
        name = row[1].decode("ascii")
        if measure and SPLIT.fullmatch(name):
            name = f"{name}_{measure}"
        elif measure and is_only and not _is_measure(name):
            name = measure
        return b"%b: [%b]" % (name.encode(), row[2].replace(b";", b","))

    return _NAMED_ROW.sub(bracketed, data)


def _with_names(data: bytes, measure: str) -> bytes:
    """Return a text that consists of a few rows of the same length, with names for the rows.

    A second row that may be of an evaluation is named after it.
    """
    numbered = _NUMBERS_OF_COLUMNS.match(data)
    rows = _NUMBER_OF_ROW.sub(b"", data[numbered.end() :]) if numbered else data
    matches = [_ONE_ROW.match(row) for row in rows.strip().split(b"\n", _MAX_LISTED_ROWS)]
    values = [list_values(match[1].replace(b";", b",")) for match in matches if match is not None]
    lengths = {*map(len, values)}
    if not 1 < len(values) == len(matches) <= _MAX_LISTED_ROWS or len(lengths) > 1:
        return data
    if min(lengths) < MIN_LONG_LIST:
        return data
    first, second = ([*map(as_float, row)] for row in values[:2])
    names = [measure, *(f"{measure}_{n}" for n in range(2, len(values) + 1))]
    if measure == "loss" and len(values) == 2 and may_be_evaluated(second, first):
        names[1] = f"val_{measure}"
    named = zip(names, values, strict=True)
    return b"\n".join(b"%b: %b" % (name.encode(), b", ".join(row)) for name, row in named)


def _is_measure(name: str) -> bool:
    return is_a_loss(name) or is_evaluation(name) or is_list_of_scores(name) or is_setting(name)


def _without_bars(column: bytes) -> bytes:
    """Return the numbers of a column without the signs around them."""
    return column.translate(None, b"|;").replace(b"\n", b" ")


def list_values(text: bytes) -> list[bytes]:
    """Return the numbers of a list; none if it has anything else."""
    text = _WRAPPED_LIST.sub(rb"\1", text) if b"(" in text else text
    if b":" in text:  # the time on a progress bar
        return []
    tokens = text.replace(b",", b" ").split()
    values = [token for token in tokens if token != _ELLIPSIS]
    return values if all(map(NUMBER_TOKEN.fullmatch, values)) else []


def is_list_of_scores(name: str) -> bool:
    """Return True for the name of a score, but not for the points of a curve of thresholds."""
    is_known = score_direction(name) is not None and _OF_THRESHOLDS.isdisjoint(name_words(name))
    return is_known or is_a_reward(name) or assign([name]).has("accuracy", "eval_accuracy")
