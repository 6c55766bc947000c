"""Write the pairs, columns and rows of numbers of a text as lists in brackets.

Flower prints each value with its round: losses_centralized [(0, 2.30), (1, 2.28), (2, 2.24)].
A row of a table may have all values of a name: train loss, 2.302, 2.295, 2.281, 2.279. In a file
named after a loss or a score, a row may be named after its split or have any name if it is the only
one, and a few rows of the same length need no names. Neither do they in a history if all of them
fall alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, NUMBER_TOKEN, as_float, is_a_loss
from stabdiag.readers.text.lines.measure_words import SPLIT
from stabdiag.readers.unnamed import (
    find_loss,
    is_course,
    is_named_history,
    is_named_loss,
    is_named_score,
    may_be_evaluated,
    may_be_scores,
    may_be_steps,
    name_of_course,
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
# A table of more rows, or of rows that are shorter relative to their number, has a row for each
# record.
_MAX_ROWS_ACROSS: Final = 12
_MIN_LENGTH_PER_ROW: Final = 2
# pandas writes the numbers of the columns above the rows, and the number of each row before it.
_NUMBERS_OF_COLUMNS: Final = lazy_pattern(rb"\s*[,;\t]0(?:[,;\t]\d{1,6})+[ \t\r]*\n")
_QUOTED_CELL: Final = lazy_pattern(rb"(?m)\"([^\"\n]{1,60})\"(?=[ \t]{0,8}[,;\t\r\n]|\Z)")
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
    rb"\d\"?[ \t]{0,8}[,;\t ][ \t]{0,8}\"?[-+]?\d[\d.eE+-]{0,30}\"?"
    rb"[ \t]{0,8}[,;\t ][ \t]{0,8}\"?[-+]?\d"
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


def without_quotes(data: bytes) -> bytes:
    """Return a table without the quotes around its cells if it begins with one, and has no list."""
    is_quoted = data[:80].lstrip()[:1] == b'"' and b"[" not in data
    return _QUOTED_CELL.sub(rb"\1", data) if is_quoted else data


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
        measure = "loss" if is_named_loss(source) else name_of_values(source)
    if measure or is_named_history(source):
        rows = _unnamed_rows(data, _MAX_LISTED_ROWS)
        if rows:
            return _with_names(rows, source) or data
    is_only = bool(measure) and len(_NAMED_ROW.findall(data)) == 1

    def bracketed(row: re.Match[bytes]) -> bytes:
        name = row[1].decode("ascii")
        if measure and SPLIT.fullmatch(name):
            name = f"{name}_{measure}"
        elif measure and is_only and not _is_measure(name):
            name = measure
        return b"%b: [%b]" % (name.encode(), row[2].replace(b";", b","))

    return _NAMED_ROW.sub(bracketed, data)


def runs_across(data: bytes) -> bool:
    """Return True if a text consists of a few long rows of numbers without names."""
    rows = _unnamed_rows(without_quotes(data), _MAX_ROWS_ACROSS)
    return bool(rows) and len(rows[0]) >= max(MIN_LONG_LIST, _MIN_LENGTH_PER_ROW * len(rows))


def _unnamed_rows(data: bytes, most: int) -> list[list[bytes]]:
    """Return the numbers of a text that consists of a few rows of the same length, or nothing.

    The numbers that pandas gives the columns and the rows are left out.
    """
    numbered = _NUMBERS_OF_COLUMNS.match(data)
    lines = data[numbered.end() if numbered else 0 :].strip().split(b"\n", most)
    matches = [_ONE_ROW.match(_with_decimal_points(line)) for line in lines]
    rows = [list_values(match[1].replace(b";", b",")) for match in matches if match is not None]
    if not len(rows) == len(matches) <= most or len({*map(len, rows)}) > 1:
        return []
    is_numbered = [row[0] for row in rows] == [b"%d" % number for number in range(len(rows))]
    if is_numbered and (numbered or all(_begins_whole(row) for row in rows)):
        rows = [row[1:] for row in rows]
    return rows


def _with_decimal_points(line: bytes) -> bytes:
    return line if b"." in line or b";" not in line else line.replace(b",", b".")


def _begins_whole(row: Sequence[bytes]) -> bool:
    """Return True if a whole number begins a row of other decimal numbers."""
    return row[0].isdigit() and all(b"." in number for number in row[1:])


def _with_names(rows: Sequence[Sequence[bytes]], source: str) -> bytes:
    """Return rows as lists with names, or nothing if they may be anything.

    Counts may be above the values. A second row that may be of an evaluation is named after it.
    """
    numbers = [[*map(as_float, row)] for row in rows]
    counters = ["step"] if len(rows) > 1 and _count_evenly(numbers[0]) else []
    first, *others = numbers[len(counters) :]
    if len(rows) > 1 and len(first) < MIN_LONG_LIST:
        return b""
    if _may_be_record(rows[len(counters)], first) or _may_be_other_rows(first, others, source):
        return b""
    measure = name_of_course(source, first)
    if len(rows) == 1:
        return b"[%b]" % b", ".join(rows[0])
    if others and is_a_loss(measure) and not is_evaluation(measure):
        measure = "loss"
    names = [*counters, measure, *(f"{measure}_{n}" for n in range(2, len(others) + 2))]
    if measure == "loss" and len(others) == 1 and may_be_evaluated(others[0], first):
        names[-1] = f"val_{measure}"
    named = zip(names, rows, strict=True)
    return b"\n".join(b"%b: [%b]" % (name.encode(), b", ".join(row)) for name, row in named)


def _count_evenly(numbers: Sequence[float]) -> bool:
    """Return True if numbers rise by the same count each."""
    return (
        may_be_steps(numbers) and len({after - before for before, after in pairwise(numbers)}) == 1
    )


def _may_be_record(row: Sequence[bytes], numbers: Sequence[float]) -> bool:
    """Return True if a row may be a record of several measures, with a count in front."""
    return _begins_whole(row) and not is_course(numbers)


def _may_be_other_rows(
    first: Sequence[float], others: Sequence[Sequence[float]], source: str
) -> bool:
    """Return True if rows need not be losses or scores: they do not change as these do.

    Losses may be below accuracies. All rows of a history are its losses if they fall alike.
    """
    if is_named_score(source):
        return False
    if may_be_scores(first) and find_loss(others) is not None:
        return True
    is_history = not is_named_loss(source)
    fall = all(find_loss([row]) is not None for row in (first, *others))
    alike = all(may_be_evaluated(row, first) for row in others)
    return is_history and not (len(first) >= MIN_LONG_LIST and fall and alike)


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
