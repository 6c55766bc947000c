"""The end of a text log that was cut within a line, or within a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import as_float

_ANY_NUMBER: Final = lazy_pattern(rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d*)?")
_NUMBER_AT_END: Final = lazy_pattern(rb"[-+]?(?<![\d.])\d+(?:\.\d*)?(?:[eE][-+]?\d*)?\Z")
_VALUE_AHEAD: Final = lazy_pattern(rb"[ :=\t]{0,4}[ :=\t]0")
_BLANK_RUN: Final = lazy_pattern(rb"[ \t]+")

# Lines above the last one whose form may continue where the last one ends.
_LINES: Final = 64
_LONGEST_CUT_LINE: Final = 1 << 12

# The decimals that a round number may lack.
_ROUND: Final = 2

# A number that is cut is at most this many times the others: it may lack its last digits.
_LARGER: Final = 10

# A paste has few blanks or fences below its last line.
_PASTE_END: Final = lazy_pattern(rb"[\s`]{1,64}\Z")


def without_cut_number(block: bytes) -> bytes:
    """Return the end of a log without a last number that is probably cut.

    A program ends each line with a newline. If the last line has no newline, and lines of its form
    have more text after the same number, the log ends within the line, perhaps within the number: 0
    may be left of 0.6931. In a paste, the last line has a newline as well: there, a number counts
    as cut if it has fewer decimals than the numbers above it. So does a number at the end of a
    whole line if all others have equally many decimals.
    """
    ending = _PASTE_END.search(block[-64:]) if block.endswith(b"\n") else None
    end = len(block) - (0 if ending is None else len(ending.group()))
    above, _, last = block[:end].rpartition(b"\n")
    number = _NUMBER_AT_END.search(last) if len(last) <= _LONGEST_CUT_LINE else None
    if number is None:
        return block
    form = _form(last)
    lines = above[-_LINES * _LONGEST_CUT_LINE :].rsplit(b"\n", _LINES)[-_LINES:]
    forms = {_form(line): line for line in lines if len(line) <= _LONGEST_CUT_LINE}
    longer = [line for other, line in forms.items() if other.startswith(form)]
    if form in forms:
        others = [_last_number(line) for line in lines if _form(line) == form]
        is_cut = _is_shorter(number.group(), others)
        return block[: end - len(number.group())] + block[end:] if is_cut else block
    if not longer:
        return block
    if ending is not None and (
        b"e" in number.group().lower()
        or _decimals(last) >= min(_decimals(line, form) for line in longer)
    ):
        return block
    return block[: end - len(number.group())] + block[end:]


def _is_shorter(number: bytes, others: Sequence[bytes]) -> bool:
    """Return True if a number has fewer decimals than others, and not because it is round or large.

    A program that leaves out the last zeros drops one of them occasionally, two hardly ever.
    """
    decimals = [len(other.partition(b".")[2]) for other in others]
    largest = max(abs(as_float(other)) for other in others)
    if b"e" in number.lower() or not abs(as_float(number)) <= _LARGER * largest:
        return False
    if number.endswith(b"."):
        return min(decimals) > 0
    own = len(number.partition(b".")[2])
    is_even = len(others) > _ROUND and len({*decimals}) == 1
    is_whole = b"." not in number and len(others) > 1
    return (is_whole or (is_even and own + _ROUND <= decimals[0])) and min(decimals) > _ROUND


def _decimals(line: bytes, form: bytes = b"") -> int:
    """Return the decimals of the last number of a line, or of its beginning with this form."""
    return len(_last_number(line, form).partition(b".")[2])


def _last_number(line: bytes, form: bytes = b"") -> bytes:
    """Return the last number of a line, or of its beginning with this form."""
    numbers: list[bytes] = _ANY_NUMBER.findall(line)
    return numbers[(form or _form(line)).count(b"0") - 1]


def begins_like(line: bytes, others: Iterable[bytes]) -> bool:
    """Return True if another line begins with the form of a line."""
    form = _form(line.rstrip())
    return bool(form) and any(_form(other).startswith(form) for other in others)


def ends_before_value(line: bytes, others: Iterable[bytes]) -> bool:
    """Return True if a line breaks off where another line of its form has a value."""
    form = _form(line.rstrip())
    rests = (other.removeprefix(form) for other in map(_form, others) if other.startswith(form))
    return bool(form) and any(_VALUE_AHEAD.match(rest) for rest in rests)


def _form(line: bytes) -> bytes:
    """Return a line with each number as 0 and each run of blanks as one blank."""
    return _BLANK_RUN.sub(b" ", _ANY_NUMBER.sub(b"0", line))
