"""The end of a text log that was cut within a line, or within a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stabdiag.model.patterns import lazy_pattern

_ANY_NUMBER: Final = lazy_pattern(rb"\d+(?:\.\d*)?(?:[eE][-+]?\d*)?")
_NUMBER_AT_END: Final = lazy_pattern(rb"(?<!\d)\d+(?:\.\d*)?(?:[eE][-+]?\d*)?\Z")
_BLANK_RUN: Final = lazy_pattern(rb"[ \t]+")

# Lines above the last one whose form may continue where the last one ends.
_LINES: Final = 64
_LONGEST_CUT_LINE: Final = 1 << 12


def without_cut_number(block: bytes) -> bytes:
    """Return the end of a log without a last number that is probably cut.

    A program ends each line with a newline. If the last line has none, and lines of its form above
    go on after its last number, the log ends within the line, perhaps within the number: of 0.6931
    only a 0 may be left.
    """
    if block.endswith(b"\n"):
        return block
    above, _, last = block.rpartition(b"\n")
    number = _NUMBER_AT_END.search(last) if len(last) <= _LONGEST_CUT_LINE else None
    if number is None:
        return block
    form = _form(last)
    lines = above[-_LINES * _LONGEST_CUT_LINE :].rsplit(b"\n", _LINES)[-_LINES:]
    forms = {_form(line) for line in lines if len(line) <= _LONGEST_CUT_LINE}
    if form in forms or not any(other.startswith(form) for other in forms):
        return block
    return block[: len(block) - len(number.group())]


def begins_like(line: bytes, others: Iterable[bytes]) -> bool:
    """Return True if another line has the form of a line and goes on behind it."""
    form = _form(line.rstrip())
    return bool(form) and any(_form(other).startswith(form) for other in others)


def _form(line: bytes) -> bytes:
    """Return a line with each number as 0 and each run of blanks as one blank."""
    return _BLANK_RUN.sub(b" ", _ANY_NUMBER.sub(b"0", line))
