"""A table of numbers in the middle of another text, such as a post that quotes a log.

::

    These are the last lines of lcurve.out:
    # step   rmse_val   rmse_trn    lr
    ...
      1000   6.66e-01   9.37e-01    1.1e-08
      2000   4.68e-01   7.73e-01    1.1e-08

The rows become lines of CSV below their heading. A text is searched for a table last, when nothing
else was recognized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import chain, pairwise
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.counter_names import BATCH, counter_unit
from stabdiag.model.roles.names import find_split
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammars.printed import short_table
from stabdiag.readers.text.lines.clean import cleaned
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.words import with_joined_names, with_joined_words

# A longer text is not a post, and a longer line is not a row.
_MAX_EXCERPT_BYTES: Final = 1 << 20
_MAX_ROW_LENGTH: Final = 1000

# The fewest rows and columns, and the most lines between a heading and its rows.
_MIN_ROWS: Final = 3
_MIN_EXCERPT_CELLS: Final = 2
_MAX_LINES_BETWEEN: Final = 3

# Marks at both ends of a line that belong to a comment, a quotation or a border.
_EDGE_MARKS: Final = " \t\r\"'`#%|>*"
_SEPARATORS: Final = tuple(map(re.compile, (r"\|", r"[,;]", r"\t| {2,}", r"\s+")))
_HEADING_NAME: Final = lazy_pattern(r"[^\W\d_][\w ./()%@:-]{0,60}")
_EXCERPT_CELL: Final = lazy_pattern(
    r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|nan|inf)%?|\d{1,3}:\d\d(?::\d\d)?|No_log",
    re.IGNORECASE,
)
# The second line of the heading of Vowpal Wabbit, whose first rows are one example each.
_VOWPAL_WABBIT: Final = lazy_pattern(r"\bloss {1,12}last {1,16}counter\b")
_COUNT: Final = lazy_pattern(r"\d{1,12}")
_NONFINITE_CELL: Final = lazy_pattern("nan|inf", re.IGNORECASE)

_Row: TypeAlias = tuple[str, ...]


@frozen
class _Block:
    """Rows of numbers with the same number of cells, and the lines above the first."""

    above: list[str]
    rows: list[_Row]


def excerpted(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream of the longest table in a text, and its reader.

    Return None if the text has no table whose first column counts, or ``detect`` recognizes none.
    """
    data = stream.peek(_MAX_EXCERPT_BYTES)
    if len(data) == _MAX_EXCERPT_BYTES or b"\0" in data:
        return None
    text = cleaned(data)
    # Most texts repeat a few lines, and no line is a row.
    has_rows = any(map(_row, outline(text).decode("utf-8", "replace").split("\n")))
    blocks = list(_blocks(text.decode("utf-8", "replace").split("\n"))) if has_rows else []
    tables = [
        at
        for at, block in enumerate(blocks)
        if _counts(block.rows) or any(map(_VOWPAL_WABBIT.search, block.above))
    ]
    for at in sorted(tables, key=lambda at: -len(blocks[at].rows)):
        block = blocks[at]
        headings = _headings(block.above, len(block.rows[0]))
        names = next(filter(_have_counter, headings), None)
        if names is None:
            continue
        rows = _with_later_rows(block.rows, names, blocks[at + 1 :])
        if rows is None:
            return None
        result = _as_table(stream, names, rows, detect)
        if result is not None:
            return result
    short = short_table(data)
    if short is None:
        return None
    names, cells = (*(name.replace(",", " ") for name in short[0]),), short[1]
    texts = [(*((cell or b"").decode("utf-8", "replace") for cell in row),) for row in cells]
    return _as_table(stream, names, texts, detect)


def _as_table(
    stream: Stream, names: _Row, rows: Sequence[_Row], detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream and the reader of rows as lines of CSV, or None if they have no reader."""
    table = "\n".join(map(",".join, [names, *rows])).encode() + b"\n"
    reader = detect(Stream(stream.name, BytesIO(table)))
    if reader is None:
        return None
    stream.notes.append("only the table of the text is read")
    return stream.rewritten(iter([table])), reader


def _with_later_rows(rows: list[_Row], names: _Row, others: Sequence[_Block]) -> list[_Row] | None:
    """Return the rows of a table, including rows that continue it below other lines.

    Return None if other rows below may belong to the same run: they have a counter as well, or a
    value that is not finite.
    """
    rows = [*rows]
    for block in others:
        width = len(block.rows[0])
        headings = [*_headings(block.above, width)]
        if width == len(names) and (not headings or names in headings):
            rows += block.rows
        elif _counts(block.rows) or any(map(_NONFINITE_CELL.search, chain(*block.rows))):
            return None
    return rows


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yield the stretches of rows with equally many cells."""
    above: list[str] = []
    rows: list[_Row] = []
    for line in [*lines, ""]:
        row = _row(line)
        if row is not None and (not rows or len(row) == len(rows[-1])):
            rows.append(row)
            continue
        if rows and line.strip() and line in above:
            continue  # the heading is repeated
        if rows:
            yield _Block(above=above, rows=rows)
            above = []
        rows = [] if row is None else [row]
        if row is None and line.strip():
            above = [*above[-_MAX_LINES_BETWEEN:], line]


def _have_counter(names: _Row) -> bool:
    return assign(names).has("step", "epoch") or BATCH in map(counter_unit, names)


def _counts(rows: Sequence[_Row]) -> bool:
    """Return True if there are enough rows, and a cell of each is a count that rises.

    Each split may have a row, with the same count.
    """
    if len(rows) < _MIN_ROWS:
        return False
    if find_split(rows[0][0]) is not None:
        rows = [row for row in rows if row[0] == rows[0][0]]
    columns = (column for column in zip(*rows, strict=True) if all(map(_COUNT.fullmatch, column)))
    return any(all(int(a) < int(b) for a, b in pairwise(column)) for column in columns)


def _headings(above: Sequence[str], columns: int) -> Iterator[_Row]:
    """Yield the names in the lines above that have as many cells as the rows, the nearest first.

    The names of Vowpal Wabbit are on two lines, one word on each: average loss.
    """
    lines = [_names(line, columns) for line in above]
    for at in reversed(range(len(lines))):
        lower, upper = lines[at], lines[at - 1] if at else None
        if lower is not None and len({*lower}) == columns:
            yield lower
        if lower is not None and upper is not None:
            joined = (*map(" ".join, zip(upper, lower, strict=True)),)
            if len({*joined}) == columns:
                yield joined


def _names(line: str, columns: int) -> _Row | None:
    """Return the cells of a line if they are this number of names, or None."""
    text = line.strip(_EDGE_MARKS)
    for separator, names in (
        *((other, text) for other in _SEPARATORS),
        (_SEPARATORS[-1], with_joined_names(text)),
    ):
        cells = (*map(str.strip, separator.split(names)),)
        if len(cells) == columns and all(map(_HEADING_NAME.fullmatch, cells)):
            return cells
    return None


def _row(line: str) -> _Row | None:
    """Return the cells of a line if all are numbers, except the split in the first, or None."""
    if len(line) > _MAX_ROW_LENGTH:
        return None
    text = with_joined_words(line).strip(_EDGE_MARKS)
    for separator in _SEPARATORS:
        cells = (*map(str.strip, separator.split(text)),)
        numbers = cells[1:] if find_split(cells[0]) is not None else cells
        if len(numbers) >= _MIN_EXCERPT_CELLS and all(map(_EXCERPT_CELL.fullmatch, numbers)):
            return cells
    return None
