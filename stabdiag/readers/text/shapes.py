"""The shapes that most lines of a log have: the same names and punctuation, other numbers.

A pattern made of one line finds the values of all lines like it at once, which is several times
faster than to find names and values line by line. What no pattern matches is read the slow way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, islice
from typing import Final, NamedTuple, TypeAlias

import numpy as np

Span: TypeAlias = tuple[int, int]
Cells: TypeAlias = Sequence[bytes | None]
Columns: TypeAlias = list[Cells]
Rows: TypeAlias = Sequence[int]

# For fewer lines it does not pay to make a pattern; and more patterns find hardly any more lines.
_FEWEST: Final = 32
_PATTERNS: Final = 6

_LONGEST: Final = 1000

# A number that is not a value, such as a time or a percentage, and the blanks that align values.
_LOOSE: Final = re.compile(rb"(\d[\d.,:]*)|( +)")

# A value: any characters of which numbers are made, nan and inf included, which takes half the time
# of a pattern for numbers. Whether it is one is seen when it is read.
_VALUE: Final = rb"([-+.,\deEnNaAiIfFKMB]{1,40})"


class Look(NamedTuple):
    """What a line tells: the names of its values, none if nothing is wanted of it.

    ``values`` is where these stand; ``fixed`` is what else makes a line one of this shape.
    """

    names: tuple[str, ...]
    values: Sequence[Span]
    fixed: Sequence[Span]


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
    lines: Sequence[bytes], look: Callable[[bytes], Look]
) -> list[tuple[tuple[str, ...], Rows, Columns]]:
    """Group lines by the names on them; return the names, which lines, and the values by column."""
    found: dict[tuple[str, ...], list[tuple[Rows, Columns]]] = defaultdict(list)
    rest: Rows = range(len(lines))
    for _ in range(_PATTERNS):
        # The line in the middle is a guess at a usual one.
        line = lines[rest[len(rest) // 2]] if len(rest) >= _FEWEST else None
        if line is None or len(line) > _LONGEST:
            break
        told = look(line)
        pattern = pattern_of(line, told)
        if pattern is None:
            break
        alike, columns, rest = _alike(lines, rest, pattern)
        found[told.names].append((alike, columns))
    for row in rest:
        told = look(lines[row])
        if told.names:
            cells: Columns = [[lines[row][begin:end]] for begin, end in told.values]
            found[told.names].append(([row], cells))
    return [(names, *_in_order(parts)) for names, parts in found.items() if names]


def _in_order(parts: Sequence[tuple[Rows, Columns]]) -> tuple[Rows, Columns]:
    """Merge lines with the same names in their order: in a record the later one counts."""
    if len(parts) == 1:
        return parts[0]
    rows = [row for alike, _ in parts for row in alike]
    cells = [one for _, columns in parts for one in zip(*columns, strict=True)]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    return [rows[at] for at in order], list(zip(*(cells[at] for at in order), strict=True))


def _alike(
    lines: Sequence[bytes], rows: Rows, pattern: re.Pattern[bytes]
) -> tuple[Rows, Columns, Rows]:
    """Return which lines a pattern matches wholly, its groups as columns, and the other lines."""
    alone = re.compile(rb"^(%b)$" % pattern.pattern, re.MULTILINE)
    starts, columns = found_by(alone, b"\n".join(lines[row] for row in rows))
    if len(starts) == len(rows):
        return rows, columns, []
    begins = [0, *accumulate(len(lines[row]) + 1 for row in rows)]
    alike = [rows[at] for at in np.searchsorted(begins, starts).tolist()]
    return alike, columns, sorted({*rows}.difference(alike))


def pattern_of(line: bytes, told: Look) -> re.Pattern[bytes] | None:
    """Return a pattern for all lines like this one, with the same names and other values.

    The values become groups, in order. Returns None if spans overlap so that the pattern would not
    match its own line.
    """
    source = []
    end = 0
    spans = [*((span, True) for span in told.values), *((span, False) for span in told.fixed)]
    for (begin, after), is_value in sorted(spans):
        source.append(_loosely(line[end:begin]))
        source.append(_VALUE if is_value else re.escape(line[max(begin, end) : after]))
        end = max(end, after)
    pattern = re.compile(b"".join([*source, _loosely(line[end:])]))
    match = pattern.fullmatch(line)
    wanted = tuple(line[begin:after] for begin, after in sorted(told.values))
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
