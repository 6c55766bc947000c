"""A log put together from its blocks, and from what the lines between its records say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.history import LeftOut
from stabdiag.model.roles.choice import assign
from stabdiag.readers.columns import (
    SHOWN,
    BadLine,
    Chunk,
    Column,
    Columns,
    Rows,
    join,
    names_in,
    rows_in,
)
from stabdiag.readers.words import ABSENT, NUMBER

if TYPE_CHECKING:
    from stabdiag.readers.text.log import Between


@dataclass(kw_only=True, eq=False)
class Gathered:
    """What was read of a log so far, block by block; of its bad lines the first few are kept.

    ``between`` has what they say, if there are any, and ``left_out`` those that look like records.
    ``is_ended`` says that the last line has an end: half a line is left by any job that is killed.
    """

    chunks: list[Chunk] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    lines: int = 0
    is_ended: bool = True
    left_out: list[LeftOut] = field(default_factory=list)
    between: Between | None = None

    def take(self, chunk: Chunk, lines: int, bad: Sequence[BadLine]) -> None:
        """Add a block of so many lines; its bad lines are numbered from its own first one."""
        if bad:
            # Imported here: a clean log does not wait for it.
            from stabdiag.readers.left_out import lines_left_out
            from stabdiag.readers.text.log import Between

            self.between = self.between or Between()
            understood = self.between.look(bad, self.lines, rows_in(self.chunks))
            bad = [one for one in bad if one.reason and one.line not in understood]
            self.left_out += lines_left_out(bad, lines=self.lines, records=rows_in(self.chunks))
        self.bad_count += len(bad)
        self.bad += [one.moved(self.lines) for one in bad[: SHOWN - len(self.bad)]]
        self.lines += lines
        if chunk.rows:
            self.chunks.append(chunk)

    def copy(self) -> Gathered:
        """Return the same, to which more can be added on trial."""
        between = self.between and self.between.copy()
        return replace(
            self,
            chunks=[*self.chunks],
            bad=[*self.bad],
            left_out=[*self.left_out],
            between=between,
        )

    def column(self, name: str) -> Column:
        """Return a whole column."""
        return join(self.chunks, name)

    def _left_out(self) -> Sequence[LeftOut]:
        """Return what was left out, without the half of a last line."""
        last = self.left_out[-1:]
        if not self.is_ended and last and (last[0].line, last[0].count) == (self.lines, 1):
            return self.left_out[:-1]
        return self.left_out

    def columns(self, source: str, format: str, notes: Iterable[str]) -> Columns:
        """Return all columns, under the names of their source and its format."""
        columns = Columns(
            source=source,
            format=format,
            names=names_in(self.chunks),
            rows=rows_in(self.chunks),
            load=self.column,
            bad_lines=tuple(self.bad),
            bad_count=self.bad_count,
            notes=tuple(notes),
            left_out=tuple(self._left_out()),
        )
        if self.between is None or not self.between.heard:
            return columns
        return _with_words(columns, self.between)


def gathered(
    chunks: Sequence[Chunk],
    *,
    source: str,
    format: str,
    bad: Sequence[BadLine] = (),
    notes: Iterable[str] = (),
) -> Columns:
    """Return the columns of chunks, under the names of their source and its format."""
    whole = Gathered()
    whole.take(Rows(rows=0), 0, bad)
    whole.chunks += chunks
    return whole.columns(source, format, notes)


def _with_words(columns: Columns, between: Between) -> Columns:
    """Return the columns with what the lines between the records say: messages, and values.

    What is said of a loss holds for the record below if that is of the same step, since 0.0 may be
    printed in the place of NaN. All else makes records of its own.
    """
    roles = assign(columns.names).columns
    clock = roles.get("step", roles.get("epoch", ""))

    def own(name: str) -> str:
        """Return what the log calls a column."""
        role = next(iter(assign([name]).columns), name)
        return clock if role == "step" else roles.get(role, name)

    steps = columns.load(clock)
    told = np.where(steps.present & (not steps.is_text), steps.values, np.nan)
    scale = columns.load(roles["loss_scale"]) if "loss_scale" in roles else None
    rows, events = between.among(told, columns.names, scale)
    said = {own(name): piece for name in rows.names if (piece := rows.piece(name)) is not None}
    row = said.pop("row")
    new = row.states == ABSENT
    source = np.where(new, 0, row.values).astype(np.intp)

    def load(name: str) -> Column:
        column, piece = columns.load(name), said.get(name)
        values = column.values[source]
        present, null = (one[source] & ~new for one in (column.present, column.null))
        if piece is not None:
            here = (piece.states == NUMBER) & (new | (name != clock))
            values[here], present[here], null[here] = piece.values[here], True, False
        strays = np.flatnonzero(np.isin(source, column.stray_rows) & ~new)
        return replace(column, values=values, present=present, null=null, stray_rows=strays)

    events = (*columns.events, *events)
    if not said.keys() - {clock}:
        return replace(columns, events=events)
    names = tuple(dict.fromkeys((*columns.names, *filter(None, said))))
    return replace(columns, events=events, names=names, rows=rows.rows, load=load)
