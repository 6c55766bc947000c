"""The shape that most lines of a log share: the same names and punctuation, other numbers.

A pattern made of one line finds the values of all lines like it at once, which is several times
faster than to find names and values line by line. What it does not match is read the slow way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, islice
from typing import Final, TypeAlias, TypeVar

import numpy as np

Span: TypeAlias = tuple[int, int]
Cells: TypeAlias = Sequence[bytes | None]
Columns: TypeAlias = list[Cells]

Names = TypeVar("Names", tuple[bytes, ...], tuple[str, ...])

# For fewer lines it does not pay to make a pattern.
_FEWEST: Final = 32

_LONGEST: Final = 1000

# A number that is not a value, such as a time or a percentage, and the blanks that align values.
_LOOSE: Final = re.compile(rb"(\d[\d.,:]*)|( +)")

# A value: any characters of which numbers are made, nan and inf included, which takes half the time
# of a pattern for numbers. Whether it is one is seen when it is read.
_VALUE: Final = rb"([-+.,\deEnNaAiIfF]{1,40})"


def whole(pattern: bytes) -> re.Pattern[bytes]:
    """Return a pattern with one more group around it, the first, as ``found_by`` needs it."""
    return re.compile(b"(%b)" % pattern)


def found_by(pattern: re.Pattern[bytes], data: bytes) -> tuple[list[int], Columns]:
    """Return where a pattern (see ``whole``) matches, and its other groups as columns.

    Splitting makes no object for a match, and so takes half the time that ``finditer`` does.
    """
    pieces = pattern.split(data)
    every = pattern.groups + 1
    between, found = pieces[:-1:every], pieces[1::every]
    ends = accumulate(map(len, chain.from_iterable(zip(between, found, strict=True))))
    return list(islice(ends, 0, None, 2)), [pieces[at::every] for at in range(2, every)]


def by_names(
    lines: Sequence[bytes],
    names: Names,
    pattern: re.Pattern[bytes] | None,
    apart: Callable[[bytes], tuple[Names, Cells] | None],
) -> list[tuple[Names, Sequence[int], Columns]]:
    """Group lines by the names on them; return the names, which lines, and the values by column.

    ``names`` and ``pattern`` are those of most lines; ``apart`` finds those of any other line.
    """
    alike, columns, others = _alike(lines, pattern)
    shapes: dict[Names, tuple[list[int], list[Cells]]] = defaultdict(lambda: ([], []))
    for row in others:
        if found := apart(lines[row]):
            rows, cells = shapes[found[0]]
            rows.append(row)
            cells.append(found[1])
    if names in shapes:
        alike, columns = _in_order(alike, columns, *shapes.pop(names))
    parts = [(names, alike, columns)] if alike else []
    for written, (rows, cells) in shapes.items():
        parts.append((written, rows, list(zip(*cells, strict=True))))
    return parts


def _in_order(
    alike: Sequence[int], columns: Columns, rows: Sequence[int], cells: Sequence[Cells]
) -> tuple[Sequence[int], Columns]:
    """Merge lines with the same names in their order: in a record the later one counts."""
    every = [*alike, *rows]
    values = [*zip(*columns, strict=True), *cells]
    order = sorted(range(len(every)), key=every.__getitem__)
    return [every[at] for at in order], list(zip(*[values[at] for at in order], strict=True))


def _alike(
    lines: Sequence[bytes], pattern: re.Pattern[bytes] | None
) -> tuple[Sequence[int], Columns, Sequence[int]]:
    """Return which lines a pattern matches wholly, its groups as columns, and the other lines."""
    every = range(len(lines))
    if pattern is None:
        return [], [], every
    alone = re.compile(rb"^(%b)$" % pattern.pattern, re.MULTILINE)
    starts, columns = found_by(alone, b"\n".join(lines))
    if len(starts) == len(lines):
        return every, columns, []
    begins = [0, *accumulate(len(line) + 1 for line in lines)]
    alike = np.searchsorted(begins, starts).tolist()
    return alike, columns, sorted(set(every).difference(alike))


def usual_line(lines: Sequence[bytes | None]) -> bytes | None:
    """Return the line in the middle as a guess at the usual one; None for few or long lines."""
    line = lines[len(lines) // 2] if len(lines) >= _FEWEST else None
    return line if line is not None and len(line) <= _LONGEST else None


def usual_shape(
    lines: Sequence[bytes | None], pairs: re.Pattern[bytes]
) -> tuple[tuple[bytes, ...], re.Pattern[bytes] | None]:
    """Return the names that most lines are likely to have, and the pattern that finds their values.

    ``pairs`` finds a name and its value. Without a pattern there are no names.
    """
    line = usual_line(lines)
    found = list(pairs.finditer(line)) if line else []
    if line is None or not found:
        return (), None
    names, values = ([match.span(group) for match in found] for group in (1, 2))
    pattern = pattern_of(line, values, names)
    return (tuple(match[1] for match in found), pattern) if pattern else ((), None)


def pattern_of(
    line: bytes, values: Sequence[Span], names: Sequence[Span]
) -> re.Pattern[bytes] | None:
    """Return a pattern for all lines like this one, with the same names and other values.

    ``values`` and ``names`` are spans of the line; those of the values become groups, in order.
    Returns None if spans overlap so that the pattern would not match its own line.
    """
    source = []
    end = 0
    spans = [*((span, True) for span in values), *((span, False) for span in names)]
    for (begin, after), is_value in sorted(spans):
        source.append(_loosely(line[end:begin]))
        source.append(_VALUE if is_value else re.escape(line[max(begin, end) : after]))
        end = max(end, after)
    pattern = re.compile(b"".join([*source, _loosely(line[end:])]))
    match = pattern.fullmatch(line)
    wanted = tuple(line[begin:after] for begin, after in sorted(values))
    return pattern if match is not None and match.groups() == wanted else None


def _loosely(between: bytes) -> bytes:
    """Return a pattern for what stands between values: other numbers, other blanks."""
    made = []
    end = 0
    for match in _LOOSE.finditer(between):
        made.append(re.escape(between[end : match.start()]))
        made.append(rb"\d[\d.,:]{0,40}" if match[1] else b" {1,40}")
        end = match.end()
    return b"".join([*made, re.escape(between[end:])])
