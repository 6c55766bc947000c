"""A table in a page of Markdown: the largest that has a column for a loss.

::

    | Epoch | Train Loss | Val Loss |
    |-------|-----------:|----------|
    | 1     | 6.4731     | 5.9321   |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.columns import SHOWN, BadLine
from stabdiag.readers.text.clean import Text, line_end
from stabdiag.readers.text.grammar import is_a_loss
from stabdiag.readers.text.table import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# How many bytes are looked at: no page is longer.
_LONGEST: Final = 1 << 24

# A heading and the line below it; whether this has a dash and as many cells is checked later.
_RULE: Final = re.compile(rb"\n([^\n]{3,2000})\n([ \t|:-]{3,2000})(?=\n)")
_FEWEST: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The names of a table, the cells of its rows, its bad lines, and where it ends.

    A bad line, which is no row, is given by its place in the page and the number of its cells.
    """

    names: tuple[str, ...]
    rows: list[list[bytes]]
    bad: list[tuple[int, int]]
    end: int


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether there is a table with a loss."""
    return _largest(Text(head)) is not None


def read(stream: Stream) -> Columns:
    """Read the largest table that has a loss."""
    page = Text(stream.peek(_LONGEST))
    table = _largest(page)
    if table is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected a table such as | Epoch | Loss |"
            " over |---|---| and rows"
        )
    bad = (
        BadLine(line=page.line_at(place), reason=f"{count} cells instead of {len(table.names)}")
        for place, count in table.bad[:SHOWN]
    )
    columns = columns_of(stream, "markdown", table.names, table.rows)
    return replace(columns, bad_lines=tuple(bad), bad_count=len(table.bad))


def _largest(page: Text) -> _Table | None:
    found = [one for one in _tables(page.data) if len(one.rows) >= _FEWEST]
    return max(found, key=lambda one: len(one.rows), default=None)


def _tables(data: bytes) -> Iterator[_Table]:
    """Yield the tables that have a column of a loss; none begins within another."""
    begin = 0
    while (match := _RULE.search(data, begin)) is not None:
        begin = match.start(2) - 1
        names = tuple(cell.decode("utf-8", "replace") for cell in _cells(match[1]))
        is_rule = b"-" in match[2] and len(_cells(match[2])) == len(names) > 1
        if is_rule and any(map(is_a_loss, names)):
            table = _table(data, names, match.end() + 1)
            yield table
            begin = table.end


def _table(data: bytes, names: tuple[str, ...], begin: int) -> _Table:
    """Return the table whose first row begins at a place."""
    rows: list[list[bytes]] = []
    bad: list[tuple[int, int]] = []
    while begin < len(data):
        end = line_end(data, begin, len(data))
        line = data[begin:end]
        if b"|" not in line:
            break
        cells = _cells(line)
        if len(cells) == len(names):
            rows.append(cells)
        else:
            bad.append((begin, len(cells)))
        begin = end + 1
    return _Table(names=names, rows=rows, bad=bad, end=begin - 1)


def _cells(line: bytes) -> list[bytes]:
    """Return the cells between the bars of a line, without the signs of bold text and code."""
    inner = line.strip().removeprefix(b"|").removesuffix(b"|")
    return [cell.strip().strip(b"*`").strip() for cell in inner.split(b"|")]
