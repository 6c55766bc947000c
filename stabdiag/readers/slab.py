"""Blocks of numbers and texts as Arrow has read them, and where their numbers are gathered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from stabdiag.readers.arrow import Array, numbers_of, piece_of_array
from stabdiag.readers.blocks import line_count
from stabdiag.readers.chunks import Gathered, piece_of_numbers
from stabdiag.readers.columns import Column
from stabdiag.readers.words import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.readers.chunks import Chunk, Piece
    from stabdiag.readers.columns import BadLine
    from stabdiag.readers.source import Stream

# From so many columns on it is the pieces of columns that take the time, not the numbers in them.
MANY: Final = 200


class Table:
    """A chunk that Arrow has read."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        """Take a table of numbers and texts, and the names of all columns that the log has."""
        self._table = table
        self._moved: dict[str, Floats] = {}
        self.rows = int(table.num_rows)
        self.names = names
        # Columns that nobody wanted were left out: there is nothing in them.
        self._known = frozenset(table.column_names)
        if len(self._known) > MANY:
            self._moved = _together(table)
        if self._moved:
            self._table = table.select([])  # frees it

    def piece(self, name: str) -> Piece | None:
        """Return the block's piece of a column; a blank cell is null."""
        if name not in self._known:
            return None
        if name in self._moved:
            return piece_of_numbers(self._moved[name])
        array: Array = self._table.column(name).combine_chunks()
        return piece_of_array(array, missing=NULL)

    def numbers(self, name: str) -> list[Floats] | None:
        """Return the column where it holds nothing but numbers, not copied, or None."""
        if name not in self._known:
            return None
        if name in self._moved:
            return [self._moved[name]]
        column = self._table.column(name)
        if column.null_count or not types.is_float64(column.type):
            return None
        return [numbers_of(array) for array in column.chunks if len(array)]

    def move(self, into: Callable[[str, list[Floats]], Floats]) -> None:
        """Move the columns of mere numbers to where ``into`` puts them, and free Arrow's memory."""
        for name in self._table.column_names:
            numbers = self.numbers(name)
            if numbers is not None:
                self._moved[name] = into(name, numbers)
        self._table = self._table.drop_columns(list(self._moved))


def _together(table: pa.Table) -> dict[str, Floats]:
    """Return all columns of a table as those of one array, or none if they are not mere numbers.

    Such are the norms of all layers of a network.
    """
    columns = table.columns
    if any(one.null_count or not types.is_float64(one.type) for one in columns):
        return {}
    batches: Any = table.combine_chunks().to_batches()
    if len(batches) != 1:
        return {}
    matrix = batches[0].to_tensor(row_major=False).to_numpy()
    return dict(zip(table.column_names, matrix.T, strict=True))


# A log of up to this many columns is gathered in a slab while it is read.
_MOST_MOVED: Final = MANY


@dataclass(kw_only=True)
class Slab(Gathered):
    """What was read so far, with an array for each column of numbers, as long as there is room.

    If the blocks stayed where Arrow has put them, each would take fresh memory, and so would their
    join at the end; to get that memory from the system is a sixth of the time of a long log.
    ``room`` is a guess at the number of records; memory that is not written to costs nothing.
    """

    room: int
    _rows: int = 0
    _arrays: dict[str, Floats] = field(default_factory=dict)
    _filled: Counter[str] = field(default_factory=Counter)

    def take(self, chunk: Chunk, lines: int, bad: Sequence[BadLine]) -> None:
        """Add a block, and move its numbers as far as there is room."""
        if isinstance(chunk, Table) and self._rows + chunk.rows <= self.room:
            chunk.move(self._put)
        self._rows += chunk.rows
        super().take(chunk, lines, bad)

    def column(self, name: str) -> Column:
        """Return a whole column; mere numbers need no look at each chunk."""
        if self._filled[name] == self._rows:
            return _all_numbers(self._arrays[name][: self._rows])
        parts: list[Floats] = []
        for chunk in self.chunks:
            numbers = chunk.numbers(name) if isinstance(chunk, Table) else None
            if numbers is None:
                return super().column(name)
            parts += numbers
        return _all_numbers(np.concatenate(parts))

    def _put(self, name: str, parts: list[Floats]) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = np.empty(self.room)
        rows = sum(map(len, parts))
        self._filled[name] += rows
        return np.concatenate(parts, out=self._arrays[name][self._rows : self._rows + rows])


def room_for(stream: Stream, columns: int) -> int:
    """Return for how many records of so many columns there is to be room.

    There is none for what comes through a pipe, nor for a log of very many columns: to drop one
    from a table, Arrow goes through them all. The number of records is estimated from the head of
    the log, with a twentieth added; mostly there are fewer, since steps have more digits further
    down. Whatever the head is like, a record takes at least two bytes a cell.
    """
    if stream.path is None or columns > _MOST_MOVED:
        return 0
    size = stream.path.stat().st_size
    head, _ = stream.head()
    likely = int(1.05 * line_count(head) * size / len(head))
    return min(likely, size // (2 * columns))


def _all_numbers(values: Floats) -> Column:
    present, null = _each(len(values))
    return Column(values=values, present=present, null=null)


@lru_cache(maxsize=1)
def _each(rows: int) -> tuple[Mask, Mask]:
    """Return ``present`` and ``null`` of a column of mere numbers: the same for all of them."""
    present, null = np.ones(rows, bool), np.zeros(rows, bool)
    present.flags.writeable = null.flags.writeable = False
    return present, null
