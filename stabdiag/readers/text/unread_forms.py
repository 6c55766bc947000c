"""The forms of lines that were not read: rows, records without a loss, or other lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.later_forms.left_out import is_row, may_hold_loss
from stabdiag.readers.text.lines.counters import DIGIT, POSITION
from stabdiag.readers.text.lines.fixed_texts import find_positions, line_end
from stabdiag.readers.text.lines.line_forms import SAME_DIGITS
from stabdiag.readers.text.lines.tokens import has_number

# Lines are compared up to this length.
MAX_UNREAD_LINE: Final = 2000

# The first few lines with the length of a bar show its shape.
_MAX_UNREAD_BARS: Final = 5

# The text before the value of a loss: up to its name, and the separator.
_BEFORE_VALUE: Final = lazy_pattern(
    rb"(?i)^.{0,400}?(?<![a-z])loss(?:es)?(?! ?_?scale)[\"']?[\s:=|(\[]{0,24}"
)
_FORM_NUMBER: Final = lazy_pattern(rb"[-+]?(?:\d[\d.,:]*(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
# A number before a delimiter, as in a row of a table: 201,2.31,0.001 or 201:2.31:0.001
_DELIMITERS: Final = (b",", b";", b"|", b"\t", "│".encode(), "┃".encode(), "║".encode())
_DELIMITED: Final = lazy_pattern(
    rb"\d[\"']?[ \t]{0,8}(?:[,;|\t]|%b|:(?=[-+]?(?:\d{1,9}\.\d|nan|inf)))" % "│|┃|║".encode()
)
# A count before a number: a row of a printed table, 201 2.31 0.001.
_ALIGNED: Final = lazy_pattern(rb"[ \t]{0,40}\d+[ \t]{1,40}[-+]?(?:[\d.]|nan|inf)", re.IGNORECASE)

# The words of a record, without its loss.
_MIN_WORDS: Final = 2
_UNREAD_WORD: Final = lazy_pattern(rb"(?<![\w.])[A-Za-z][\w/]{0,40}")
_LOSS_WITH_VALUE: Final = lazy_pattern(
    rb"(?:(?:train(?:ing)?|avg|average|mean|total|batch|current)[ _/-])?[\w./-]{0,40}loss[\w]{0,20}"
    rb"[\"']?[ \t]{0,8}[:= ][ \t]{0,8}[-+]?(?:[\d.]{1,40}(?:e[-+]?\d{1,3})?|nan|inf)?",
    re.IGNORECASE,
)

# The longest text in place of a number: it may be a tensor.
_LONGEST_OTHER_VALUE: Final = 100

# A loss with this many characters is recognized by its value.
_MIN_LOSS_DIGITS: Final = 4


class LineForm(Enum):
    """The possible kinds of a line."""

    NO_NUMBER = auto()
    OTHER = auto()
    MAY_BE_RECORD = auto()


# The words of a line.
Words: TypeAlias = tuple[bytes, ...]


def row_form(line: bytes) -> bytes:
    """Return a row with equal numbers and blanks."""
    return b" ".join(_FORM_NUMBER.sub(b"0", line.strip()).split())


def differs_in_value(form: bytes, of_record: bytes, *, is_read: bool) -> bool:
    """Return True if a line has the form of a record, with other text in place of one number.

    The text may also be attached to the number, unless other values of the line were read.
    """
    before = _count_equal(form, of_record)
    after = _count_equal(form[before:][::-1], of_record[before:][::-1])
    value = form[before : len(form) - after]
    if not 0 < len(value) <= _LONGEST_OTHER_VALUE:
        return False
    kept = of_record[before : len(of_record) - after]
    if is_read:
        return kept == b"0" and b"0" not in value
    return kept == b"0" or (not kept and b"0" in of_record[max(before - 1, 0) : before + 1])


def _count_equal(text: bytes, other: bytes) -> int:
    """Return the number of equal bytes at the start of two texts."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(text), len(other)))


# A sentence about the course of the loss has no value: Epoch 3 loss improved
_COURSE: Final = lazy_pattern(
    rb"(?i)loss[\"']? (?:has |is |was )?(?:improved|improves|decreased|decreases|unchanged"
    rb"|converged|plateaued|stable)[.!\s]{0,8}$"
)


def states_course(line: bytes) -> bool:
    """Return True if a line says in words how the loss changed, and has no value of it."""
    return _COURSE.search(line) is not None


def names_loss(data: bytes) -> bool:
    """Return True if a text may name a loss, or the cost of Marian."""
    return b"oss" in data.lower() or b" : Cost " in data


def has_delimiter(data: bytes) -> bool:
    """Return True if a text may have rows of a table."""
    return any(sign in data for sign in _DELIMITERS)


# A log repeats its lines with other numbers.
@lru_cache(maxsize=4096)
def classify_line(line: bytes) -> LineForm:
    """Return the kind of a line: without a number, possibly a record, or another."""
    if not has_number(line):
        return LineForm.NO_NUMBER
    is_row = _DELIMITED.search(line) is not None or _ALIGNED.match(line) is not None
    is_row_or_loss = names_loss(line) or is_row
    return LineForm.MAY_BE_RECORD if is_row_or_loss else LineForm.OTHER


@lru_cache(maxsize=4096)
def has_loss_value(line: bytes) -> bool:
    """Return True if a line may have the value of a loss."""
    return DIGIT.search(line) is not None and may_hold_loss(line.decode("utf-8", "replace"))


@lru_cache(maxsize=4096)
def is_unread_row(line: bytes) -> bool:
    """Return True if a line may be a row of a table."""
    return is_row(line.decode("utf-8", "replace"))


def other_words(line: bytes) -> Words:
    """Return the words of a line without its loss, if there are several: the form of a record."""
    return _words_of_form(line.translate(SAME_DIGITS))


@lru_cache(maxsize=4096)
def _words_of_form(line: bytes) -> Words:
    # The search for the name in front of the word takes far longer than that for the word.
    others = _LOSS_WITH_VALUE.sub(b"", line) if b"loss" in line.lower() else line
    words = _UNREAD_WORD.findall(others)
    return (*words,) if len(words) >= _MIN_WORDS else ()


def loss_shape(line: bytes) -> bytes:
    """Return a line up to the value of its loss, without its numbers; empty if it has no loss."""
    head = _BEFORE_VALUE.match(line)
    if head is None:
        return b""
    return b" ".join(_FORM_NUMBER.sub(b"#", head[0].lower()).split())


def ends_on_loss(line: bytes) -> bool:
    """Return True if no word follows the loss of a line."""
    loss = _LOSS_WITH_VALUE.search(line)
    return loss is not None and not _UNREAD_WORD.search(line, loss.end())


def repeats_loss(line: bytes, last: bytes) -> bool:
    """Return True if the last line has the same loss, as in the last redraw of a bar."""
    head = _BEFORE_VALUE.match(line)
    value = _FORM_NUMBER.match(line, head.end()) if head else None
    # A shorter number may be another value of the record by chance.
    if value is None or len(value[0]) < _MIN_LOSS_DIGITS:
        return False
    return value[0] in _FORM_NUMBER.findall(last)


def record_form(line: bytes) -> bytes:
    """Return the form of a record: the text up to its loss, or the whole line without numbers."""
    return loss_shape(line) or row_form(line)


def is_other_bar(line: bytes, last: bytes, above: bytes) -> bool:
    """Return True if a line is in a bar of another length, whose earlier lines are not read.

    It is the bar of an evaluation next to the bars of the training. ``last`` is the line of the
    last loss, and ``above`` the text above it.
    """
    totals, own_totals = _totals(line), _totals(last)
    if not (totals and own_totals) or totals & own_totals:
        return False
    others = (
        whole_line(above, place)
        for total in totals
        for place in islice(find_positions(above, b"/" + total), _MAX_UNREAD_BARS)
    )
    return any(
        _totals(other) == totals and loss_shape(other) == loss_shape(line) for other in others
    )


def _totals(line: bytes) -> set[bytes]:
    """Return the lengths of the bars on a line: 600 for 10/600."""
    return {match[2] for match in POSITION.finditer(line[:MAX_UNREAD_LINE])}


def whole_line(data: bytes, place: int) -> bytes:
    """Return the line at a position."""
    begin = data.rfind(b"\n", 0, place + 1) + 1
    return data[begin : line_end(data, begin, MAX_UNREAD_LINE)]


def line_numbers(data: bytes, starts: Iterable[int]) -> set[int]:
    """Return the numbers of the lines of a block that have some positions."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return {*np.searchsorted(ends, sorted(starts), side="right").tolist()}
