"""CSV without a header: what its columns are, where they can hardly be anything but losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from stabdiag.readers.csv.cells import (
    BLANKS,
    DELIMITERS,
    by_count,
    cells_of,
    is_content,
    is_header,
    offset,
    rows_of,
)
from stabdiag.readers.csv.commas import pointed
from stabdiag.readers.csv.dialect import LINES, Dialect, are_records
from stabdiag.readers.unnamed import FEWEST, may_be_losses, may_be_steps, name_of_values, taken_as
from stabdiag.readers.words import NUMBER, WORD, meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_CELL: Final = 60


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows at the head of a file of numbers; ``above`` is how many lines precede them."""

    delimiter: str
    commas: bool
    rows: list[list[str]]
    above: int

    @property
    def is_series(self) -> bool:
        """Whether it holds losses alone, or steps and losses."""
        width = len(self.rows[0])
        rows = [row for row in self.rows if len(row) == width]
        columns = [list(map(meaning, column)) for column in zip(*rows, strict=True)]
        if width > 2 or any(state == WORD for column in columns for state, _, _ in column):
            return False
        *steps, losses = [[n for s, n, _ in column if s == NUMBER] for column in columns]
        counted = all(len(one) == len(rows) and may_be_steps(one) for one in steps)
        return counted and len(losses) >= FEWEST and may_be_losses(losses)


def table_of(head: bytes) -> Table | None:
    """Return the table at the head of a file that is CSV except that it has no header."""
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    places = _content(lines, LINES)
    if not places:
        return None
    content = [lines[place] for place in places]
    for delimiter in DELIMITERS:
        table = _divided(content, delimiter, above=places[0])
        width = len(table.rows[0]) if table.rows else 0
        named = width and any(meaning(cell)[0] == WORD for cell in table.rows[0])
        if width > 1 and not named and are_records(table.rows, width):
            return table
    # Numbers without a delimiter are nothing yet; they have to look like a series.
    table = _divided(content, BLANKS, above=places[0])
    return table if len(set(map(len, table.rows))) == 1 and table.is_series else None


def _divided(content: list[str], delimiter: str, *, above: int) -> Table:
    rows, commas = pointed(rows_of(content, delimiter), delimiter)
    return Table(delimiter=delimiter, commas=commas, rows=rows, above=above)


def _content(lines: Sequence[str], most: int) -> list[int]:
    """Return the numbers of the first lines that hold something."""
    return list(islice((n for n, line in enumerate(lines) if is_content(line)), most))


def assumed(table: Table, head: bytes, source: str) -> Dialect | None:
    """Return the dialect of unnamed losses, with steps beside them or without, else None."""
    if not table.is_series:
        return None
    name = name_of_values(source)
    if len(table.rows[0]) == 1:
        names: tuple[str, ...] = (name,)
        what = "the file names no column: its numbers are taken"
    else:
        names = ("step", name)
        what = (
            "the file names no columns: the first, which rises in whole numbers, is taken as the"
            " step, the second"
        )
    return Dialect(
        delimiter=table.delimiter,
        commas=table.commas,
        names=names,
        start=offset(head, table.above),
        lines=table.above,
        assumed=taken_as(what, name),
    )


def is_bare_header(head: bytes) -> bool:
    """Return whether the whole of a file is one line of names."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = _content(lines, 2)
    if len(places) != 1:
        return False
    header = cells_of(lines[places[0]], by_count(lines[places[0]])[0])
    return len(header) > 1 and is_header(header)


def about_words(head: bytes) -> str | None:
    """Say which column of a table holds words, and where, if that is why it is no log."""
    lines = head.decode("utf-8", "replace").split("\n")
    places = _content(lines, LINES + 1)
    if len(places) < 2:
        return None
    delimiter = by_count(lines[places[0]])[0]
    header, *rows = rows_of([lines[place] for place in places], delimiter)
    if len(header) < 2 or not is_header(header):
        return None
    columns = sorted(range(len(header)), key=lambda column: "loss" not in header[column].lower())
    for column in columns:
        for place, row in zip(places[1:], rows, strict=False):
            if len(row) == len(header) and meaning(row[column])[0] == WORD:
                cell = row[column][:_LONGEST_CELL]
                return f"{header[column]!r} holds words, no numbers: {cell!r} on line {place + 1}"
    return None
