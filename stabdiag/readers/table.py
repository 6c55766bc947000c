"""A block of numbers and texts, as Arrow has read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from stabdiag.readers.arrow import numbers_of, piece_of_array
from stabdiag.readers.arrow_texts import Array
from stabdiag.readers.pieces import piece_of_numbers
from stabdiag.readers.words import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stabdiag.model.arrays import Floats
    from stabdiag.readers.pieces import Piece

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
