"""The shape that most lines of a log share: the same names and punctuation, other numbers.

A pattern made of one line finds the values of all lines like it in one go, which is several times
faster than to look for names and values one by one. What it does not match is read the slow way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Below so many lines a pattern of their own is not worth its making.
_FEWEST: Final = 32

_LONGEST: Final = 1000

# A number that is not a value, such as a time or a percentage, and the blanks that align values.
_LOOSE: Final = re.compile(rb"(\d[\d.,:]*)|( +)")

# A value; whether it is a number in the end is seen when it is read.
_VALUE: Final = rb"([-+]?[\d.,]{1,40}(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|inf))"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Names, and the pattern whose groups are their values."""

    names: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def usual_line(lines: Sequence[bytes | None]) -> bytes | None:
    """Return the line in the middle, for want of a better guess; None for few or long lines."""
    line = lines[len(lines) // 2] if len(lines) >= _FEWEST else None
    return line if line is not None and len(line) <= _LONGEST else None


def usual_shape(lines: Sequence[bytes | None], pairs: re.Pattern[bytes]) -> Shape | None:
    """Return the shape that most lines are likely to have; ``pairs`` finds name and value."""
    line = usual_line(lines)
    found = list(pairs.finditer(line)) if line else []
    if line is None or not found:
        return None
    pattern = pattern_of(line, [match.span(2) for match in found])
    return Shape(names=tuple(match[1] for match in found), pattern=pattern)


def pattern_of(line: bytes, values: Sequence[tuple[int, int]]) -> re.Pattern[bytes]:
    """Return a pattern for all lines like this one; ``values`` are the spans of its groups."""
    source = []
    end = 0
    for begin, after in values:
        source += [_loosely(line[end:begin]), _VALUE]
        end = after
    return re.compile(b"".join([*source, _loosely(line[end:])]))


def _loosely(between: bytes) -> bytes:
    """Return a pattern for what stands between values: other numbers, other blanks."""
    made = []
    end = 0
    for match in _LOOSE.finditer(between):
        made.append(re.escape(between[end : match.start()]))
        made.append(rb"\d[\d.,:]{0,40}" if match[1] else b" {1,40}")
        end = match.end()
    return b"".join([*made, re.escape(between[end:])])
