"""The shapes of the lines of a log: the same names and punctuation with other numbers.

A pattern made from one line finds the values of all similar lines in one pass, several times faster
than line by line. Lines that match no pattern are read one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, islice
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from stabdiag.model.patterns import lazy_pattern

Span: TypeAlias = tuple[int, int]
Cells: TypeAlias = Sequence[bytes | None]
Columns: TypeAlias = list[Cells]
Rows: TypeAlias = Sequence[int]

# A pattern does not pay for fewer lines, and more patterns find hardly any more lines.
_MIN_LINES: Final = 32
_PATTERNS: Final = 6

# After this many patterns that match only their own line, all lines may differ.
_MAX_UNIQUE: Final = 2

_MAX_SHAPE_LINE: Final = 1000

# The bars of tqdm, Keras and Rich: 45%|####5     |, 45%|████▌     |, [====>.....], ━━━━━╸━━━━
_BLOCK_BAR: Final = rb"\|(?:[# ]|#\d|\xe2\x96[\x80-\x9f]){1,400}\|"
_SQUARE_BAR: Final = rb"\[[=>.]{2,100}\]"
_LINE_BAR: Final = rb"(?:\xe2\x94\x81|\xe2\x95[\xb8\xba]){2,400}"

# A number that is not a value, such as a time or a percentage, a bar, and the blanks that align
# values.
_VARIABLE_PART: Final = lazy_pattern(
    rb"(\d[\d.,:]*)|((?<=%%)%b)|(%b)|(%b)|( +)" % (_BLOCK_BAR, _SQUARE_BAR, _LINE_BAR)
)
# The patterns of these parts on any line.
_ANY_PARTS: Final = (rb"\d[\d.,:]{0,40}", _BLOCK_BAR, _SQUARE_BAR, _LINE_BAR, b" {1,40}")
# A value may be in the place of a version or a list: loss=1.2.3 has no value, loss=2.31 has one.
_DECIMAL_DIGITS: Final = rb"\d+(?:\.\d+)?"
_ONE_NUMBER: Final = lazy_pattern(_DECIMAL_DIGITS)
_OTHER_NUMBER: Final = rb"(?!%b[.,:]?(?![\d.,:]))\d[\d.,:]{0,40}" % _DECIMAL_DIGITS

# Several words after the last value, such as a sample of generated text: they differ from line to
# line, and none is a value. "2.31 or" is not a value either. What directly follows the value may be
# its unit or decide whether it is one, and is the same on all lines.
_WORD: Final = rb"(?![nN][aA][nN]x{0,4}\b|[iI][nN][fF](?:inity)?\b)[A-Za-z]\w{0,40}"
_LAST_WORDS: Final = rb"(?!or )%b(?:[^\w\n]{1,80}%b){2,300}[^\w\n]{0,80}" % (_WORD, _WORD)
_END_AND_WORDS: Final = lazy_pattern(rb"([A-Za-z]{0,8}[^\w\n]{1,16})" + _LAST_WORDS)

# A value: any characters of numbers, including nan and inf, in half the time of a pattern for
# numbers. It is validated when it is read.
_VALUE_GROUP: Final = rb"([-+.,\deEnNaAiIfFKMBk]{1,40})"


class LineValues(NamedTuple):
    """The names and spans of the values on a line; empty if the line is not used."""

    names: tuple[str, ...]
    spans: Sequence[Span]


def whole(pattern: bytes) -> re.Pattern[bytes]:
    """Return a pattern with one more group around it, the first, as ``find_matches`` needs it."""
    return re.compile(b"(%b)" % pattern)


def find_matches(pattern: re.Pattern[bytes], data: bytes) -> tuple[list[int], Columns]:
    """Return the positions of the matches of a pattern (see ``whole``), and its groups as columns.

    Splitting creates no match objects, and takes half the time of ``finditer``.
    """
    pieces = pattern.split(data)
    every = pattern.groups + 1
    between, matches = pieces[:-1:every], pieces[1::every]
    ends = accumulate(map(len, chain.from_iterable(zip(between, matches, strict=True))))
    return list(islice(ends, 0, None, 2)), [pieces[at::every] for at in range(2, every)]


class KnownShapes:
    """The patterns of the shapes of a log, with the names of their values, latest first."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._shapes: list[tuple[tuple[str, ...], re.Pattern[bytes]]] = []

    def find(self, line: bytes) -> tuple[tuple[str, ...], re.Pattern[bytes]] | None:
        """Return the names and the pattern of a line of a known shape."""
        shapes = (shape for shape in self._shapes if shape[1].fullmatch(line) is not None)
        return next(shapes, None)

    def add(self, names: tuple[str, ...], pattern: re.Pattern[bytes]) -> None:
        """Add a shape, and forget the oldest of many."""
        self._shapes = [(names, pattern), *self._shapes[: _PATTERNS - 1]]


def by_names(
    lines: Sequence[bytes],
    look: Callable[[bytes], LineValues],
    fixed: Callable[[bytes], Sequence[Span]],
    shapes: KnownShapes,
) -> list[tuple[tuple[str, ...], Rows, Columns]]:
    """Group lines by their names; return the names, the line numbers, and the values by column.

    ``fixed`` returns the spans other than values that define the shape of a line. The shapes of
    these lines are added to the known ``shapes`` of other lines of the log.
    """
    parts_by_names: dict[tuple[str, ...], list[tuple[Rows, Columns]]] = defaultdict(list)
    remaining: Rows = range(len(lines))
    unique = 0
    for _ in range(_PATTERNS):
        # The line in the middle is probably a usual line.
        line = lines[remaining[len(remaining) // 2]] if len(remaining) >= _MIN_LINES else None
        if line is None or unique == _MAX_UNIQUE:
            break
        known_shape = shapes.find(line)
        if known_shape is None:
            names, spans = look(line)
            pattern = line_pattern(line, spans, fixed(line))
            if pattern is None:
                break
        else:
            names, pattern = known_shape
        alike, columns, remaining = _alike(lines, remaining, pattern)
        if len(alike) == 1:
            unique += 1
        elif known_shape is None:
            shapes.add(names, pattern)
        parts_by_names[names].append((alike, columns))
    for row in remaining:
        line = lines[row]
        names, spans = look(line)
        if names:
            parts_by_names[names].append(([row], [[line[begin:end]] for begin, end in spans]))
    return [(names, *_in_order(parts)) for names, parts in parts_by_names.items() if names]


def _in_order(parts: Sequence[tuple[Rows, Columns]]) -> tuple[Rows, Columns]:
    """Merge lines with the same names in order: the later line counts in a record."""
    if len(parts) == 1:
        return parts[0]
    rows = [row for alike, _ in parts for row in alike]
    cells = [line for _, columns in parts for line in zip(*columns, strict=True)]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    return [rows[at] for at in order], list(zip(*(cells[at] for at in order), strict=True))


def _alike(
    lines: Sequence[bytes], rows: Rows, pattern: re.Pattern[bytes]
) -> tuple[Rows, Columns, Rows]:
    """Return the lines that a pattern matches fully, its groups as columns, and the other lines."""
    alone = re.compile(rb"^(%b)$" % pattern.pattern, re.MULTILINE)
    are_all = len(rows) == len(lines)
    text = b"\n".join(lines if are_all else [lines[row] for row in rows])
    starts, columns = find_matches(alone, text)
    if len(starts) == len(rows):
        return rows, columns, []
    begins = [0, *accumulate(len(lines[row]) + 1 for row in rows)]
    alike = [rows[at] for at in np.searchsorted(begins, starts).tolist()]
    return alike, columns, sorted({*rows}.difference(alike))


def line_pattern(
    line: bytes, values: Sequence[Span], fixed: Sequence[Span]
) -> re.Pattern[bytes] | None:
    """Return a pattern for all lines like this one, with the same names and other values.

    The values become groups, in order; ``fixed`` are the other spans that stay the same. Returns
    None for a long line, whose pattern takes long to compile, or if spans overlap so that the
    pattern would not match its own line.
    """
    if len(line) > _MAX_SHAPE_LINE:
        return None
    source = []
    end = 0
    spans = [*((span, True) for span in values), *((span, False) for span in fixed)]
    for (begin, after), is_value in sorted(spans):
        source.append(_loose_pattern(line[end:begin]))
        source.append(_VALUE_GROUP if is_value else re.escape(line[max(begin, end) : after]))
        end = max(end, after)
    tail = _END_AND_WORDS.fullmatch(line, end)
    source.append(_loose_pattern(line[end:] if tail is None else tail[1]))
    source.append(b"" if tail is None else _LAST_WORDS)
    pattern = re.compile(b"".join(source))
    match = pattern.fullmatch(line)
    expected = tuple(line[begin:after] for begin, after in sorted(values))
    return pattern if match is not None and match.groups() == expected else None


def _loose_pattern(between: bytes) -> bytes:
    """Return a pattern for the text between values, with other numbers, bars and blanks."""
    made = []
    end = 0
    for match in _VARIABLE_PART.finditer(between):
        made.append(re.escape(between[end : match.start()]))
        is_plain = not match[1] or _ONE_NUMBER.fullmatch(match[1].rstrip(b".,:")) is not None
        parts = _ANY_PARTS if is_plain else (_OTHER_NUMBER, *_ANY_PARTS[1:])
        made += [part for part, text in zip(parts, match.groups(), strict=True) if text]
        end = match.end()
    return b"".join([*made, re.escape(between[end:])])
