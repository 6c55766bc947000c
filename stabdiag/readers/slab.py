"""Where the numbers of a long log, CSV or JSON lines, are gathered while it is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.readers.blocks import line_count
from stabdiag.readers.chunks import Gathered
from stabdiag.readers.columns import Column
from stabdiag.readers.table import MANY, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.readers.chunks import Chunk
    from stabdiag.readers.columns import BadLine
    from stabdiag.readers.source import Stream

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
