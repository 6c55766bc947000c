"""Collect blocks of numbers that Arrow has read, without copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import mutable
from stabdiag.readers.arrow import MANY_COLUMNS, ArrowTable
from stabdiag.readers.blocks import line_count
from stabdiag.readers.columns import BadLine, Column
from stabdiag.readers.log_builder import LogBuilder
from stabdiag.readers.pieces import Chunk, all_numbers
from stabdiag.readers.source import Stream


@mutable
class Slab(LogBuilder):
    """A log builder with a preallocated array for each column of numbers.

    Without it, each block of Arrow and their concatenation would take new memory, and getting that
    from the system takes a sixth of the time of a long log. ``room`` is an estimate of the number
    of records. Memory that is not written to costs nothing.
    """

    room: int
    _rows: int = 0
    _arrays: dict[str, Floats] = field(default_factory=dict)
    _filled: Counter[str] = field(default_factory=Counter)

    def take(self, chunk: Chunk, lines: int, bad: Sequence[BadLine]) -> None:
        """Add a block, and move its numbers if there is room."""
        if isinstance(chunk, ArrowTable) and self._rows + chunk.rows <= self.room:
            chunk.move(self._put)
        self._rows += chunk.rows
        super().take(chunk, lines, bad)

    def column(self, name: str) -> Column:
        """Return a whole column, directly if it has only numbers."""
        if self._filled[name] == self._rows:
            return all_numbers(self._arrays[name][: self._rows])
        parts: list[Floats] = []
        for chunk in self.chunks:
            numbers = chunk.numbers(name) if isinstance(chunk, ArrowTable) else None
            if numbers is None:
                return super().column(name)
            parts += numbers
        return all_numbers(np.concatenate(parts))

    def _put(self, name: str, parts: list[Floats]) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = np.empty(self.room)
        rows = sum(map(len, parts))
        self._filled[name] += rows
        return np.concatenate(parts, out=self._arrays[name][self._rows : self._rows + rows])


def make_slab(stream: Stream, columns: int, *, lines: int = 0) -> Slab:
    """Return a slab with room for the records of a log with this many columns, after ``lines``.

    Pipes get no room, and neither do logs with very many columns, whose blocks are moved one by
    one. The number of records is estimated from the head of the log, plus 5 %. Usually there are
    fewer, as later steps have more digits. A record has at least two bytes per cell.
    """
    room = 0
    if stream.path is not None and columns <= MANY_COLUMNS:
        size = stream.path.stat().st_size
        head, _ = stream.head()
        room = min(int(1.05 * line_count(head) * size / len(head)), size // (2 * columns))
    return Slab(room=room, lines=lines)
