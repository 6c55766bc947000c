"""A table in a page of Markdown: the largest that has a column for a loss.

::

    | Epoch | Train Loss | Val Loss |
    |-------|-----------:|----------|
    | 1     | 6.4731     | 5.9321   |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.columns import SHOWN, BadLine, Columns
from stabdiag.readers.pieces import Rows, join
from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.table import piece_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.readers.source import Stream

# No page is longer.
_LONGEST: Final = 1 << 24

# The line below a heading; that there is a bar and a dash in it is looked at afterwards.
_RULE: Final = re.compile(rb"\n([^\n]{3,2000})\n([ \t|:-]{3,2000})(?=\n)")
_FEWEST: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The names of a table, the cells of its rows, and the lines that are no rows of it."""

    names: tuple[str, ...]
    rows: list[list[bytes]]
    bad: list[BadLine]


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether there is a table with a loss."""
    return _largest(head) is not None


def read(stream: Stream) -> Columns:
    """Read the largest table that has a loss."""
    table = _largest(stream.peek(_LONGEST))
    if table is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected a table such as | Epoch | Loss |"
            " over |---|---| and rows"
        )
    rows = Rows(rows=len(table.rows))
    for name, cells in zip(table.names, zip(*table.rows, strict=True), strict=True):
        rows.parts.setdefault(name, [(None, piece_of(cells))])
    return Columns(
        source=stream.name,
        format="markdown",
        names=tuple(rows.names),
        rows=rows.rows,
        load=lambda name: join([rows], name),
        bad_lines=tuple(table.bad[:SHOWN]),
        bad_count=len(table.bad),
        notes=tuple(stream.notes),
    )


def _largest(page: bytes) -> _Table | None:
    found = [one for one in _tables(page) if len(one.rows) >= _FEWEST]
    return max(found, key=lambda one: len(one.rows), default=None)


def _tables(page: bytes) -> Iterator[_Table]:
    """Yield the tables that have a column for a loss."""
    text = Text(page, first_line=1)
    for match in _RULE.finditer(text.data):
        names = tuple(cell.decode("utf-8", "replace") for cell in _cells(match[1]))
        is_rule = b"-" in match[2] and len(_cells(match[2])) == len(names) > 1
        if is_rule and any("loss" in name.lower() for name in names):
            yield _table(text, names, match.end() + 1)


def _table(text: Text, names: tuple[str, ...], begin: int) -> _Table:
    """Return the table whose first row begins at a place."""
    table = _Table(names=names, rows=[], bad=[])
    while begin < len(text.data):
        end = text.data.find(b"\n", begin)
        end = end if end >= 0 else len(text.data)
        line = text.data[begin:end]
        if b"|" not in line:
            break
        cells = _cells(line)
        if len(cells) == len(names):
            table.rows.append(cells)
        else:
            reason = f"{len(cells)} cells instead of {len(names)}"
            table.bad.append(BadLine(line=text.line_at(begin), reason=reason))
        begin = end + 1
    return table


def _cells(line: bytes) -> list[bytes]:
    """Return what stands between the bars of a line, without what makes it bold."""
    inner = line.strip().removeprefix(b"|").removesuffix(b"|")
    return [cell.strip().strip(b"*`").strip() for cell in inner.split(b"|")]
