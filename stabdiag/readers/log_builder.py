"""Build a log from its blocks, and from the messages between its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.events import LeftOut
from stabdiag.model.frozen import mutable
from stabdiag.model.roles.choice import assign
from stabdiag.readers.columns import MAX_BAD_RECORDS, BadLine, Column, Columns
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.pieces import Chunk, Rows, column_names, count_rows, join
from stabdiag.readers.words import ABSENT, NUMBER

if TYPE_CHECKING:
    from stabdiag.readers.text.log import InterleavedMessages


@mutable
class LogBuilder(Copyable):
    """The blocks of a log that were read so far.

    Attributes:
        chunks: the records.
        bad: the first few lines that are not records.
        bad_count: the number of these lines.
        lines: the number of lines that were read.
        is_ended: the last line is complete. A killed job may leave half a line.
        breaks_off: whether the last unread line is the beginning of an object or of a row.
        left_out: lines that look like records but could not be read.
        messages: the messages on lines that are not records.
    """

    chunks: list[Chunk] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    lines: int = 0
    is_ended: bool = True
    breaks_off: bool = False
    left_out: list[LeftOut] = field(default_factory=list)
    messages: InterleavedMessages | None = None

    def take(self, chunk: Chunk, lines: int, bad: Sequence[BadLine]) -> None:
        """Add a block with this many lines. Its bad lines are numbered from its first line."""
        if bad:
            # Imported here, because a clean log does not need it.
            from stabdiag.readers.later_forms.left_out import breaks_off, lines_left_out
            from stabdiag.readers.text.log import InterleavedMessages

            self.messages = self.messages or InterleavedMessages()
            understood = self.messages.look(bad, self.lines, count_rows(self.chunks))
            bad = [line for line in bad if line.reason and line.line not in understood]
            unread = lines_left_out(bad, lines=self.lines, records=count_rows(self.chunks))
            if unread:
                self.left_out += unread
                last = next(line for line in bad if self.lines + line.line == unread[-1].line)
                self.breaks_off = breaks_off(last.text, is_short=last.is_short)
        self.bad_count += len(bad)
        self.bad += [line.moved(self.lines) for line in bad[: MAX_BAD_RECORDS - len(self.bad)]]
        self.lines += lines
        if chunk.rows:
            self.chunks.append(chunk)

    def column(self, name: str) -> Column:
        """Return a whole column."""
        return join(self.chunks, name)

    def _left_out(self) -> Sequence[LeftOut]:
        """Return the lines that were left out, except an incomplete last line."""
        if not self.left_out or self.left_out[-1].count > 1:
            return self.left_out
        from stabdiag.readers.later_forms.left_out import fails_in_words

        last = self.left_out[-1]
        if fails_in_words(last.text):
            return self.left_out
        is_cut = self.breaks_off and last.above == count_rows(self.chunks)
        is_last = not self.is_ended and last.line == self.lines
        return self.left_out[:-1] if is_cut or is_last else self.left_out

    def columns(self, source: str, format: str, notes: Iterable[str]) -> Columns:
        """Return all columns of a log with this source and format."""
        columns = Columns(
            source=source,
            format=format,
            names=column_names(self.chunks),
            rows=count_rows(self.chunks),
            load=self.column,
            bad_lines=tuple(self.bad),
            bad_count=self.bad_count,
            notes=tuple(notes),
            left_out=(
                *self._left_out(),
                *(() if self.messages is None else self.messages.lost_values()),
            ),
        )
        if self.messages is None or not self.messages.positions:
            return columns
        return with_messages(columns, self.messages)


def columns_from_chunks(
    chunks: Sequence[Chunk],
    *,
    source: str,
    format: str,
    bad: Sequence[BadLine] = (),
    notes: Iterable[str] = (),
) -> Columns:
    """Return the columns of chunks of a log with this source and format."""
    builder = LogBuilder()
    builder.take(Rows(rows=0), 0, bad)
    builder.chunks += chunks
    return builder.columns(source, format, notes)


def with_messages(columns: Columns, messages: InterleavedMessages) -> Columns:
    """Return the columns with the messages between the records, and the values in them.

    A reported loss replaces the loss of the next record with the same step, as 0.0 may be printed
    for NaN. All other values become separate records.
    """
    roles = assign(columns.names).columns
    clock = roles.get("step", roles.get("epoch", ""))

    def own_name(name: str) -> str:
        """Return the log's own name of a column."""
        role = next(iter(assign([name]).columns), name)
        return clock if role == "step" else roles.get(role, name)

    steps = columns.load(clock)
    known_steps = np.where(steps.present & (not steps.is_text), steps.values, np.nan)
    scale = columns.load(roles["loss_scale"]) if "loss_scale" in roles else None
    rows, events = messages.among(known_steps, columns.names, scale)
    reported = {
        own_name(name): piece for name in rows.names if (piece := rows.piece(name)) is not None
    }
    row = reported.pop("row")
    new = row.states == ABSENT
    source = np.where(new, 0, row.values).astype(np.intp)

    def load(name: str) -> Column:
        column, piece = columns.load(name), reported.get(name)
        values = column.values[source]
        present, null = (mask[source] & ~new for mask in (column.present, column.null))
        if piece is not None:
            here = (piece.states == NUMBER) & (new | (name != clock))
            values[here], present[here], null[here] = piece.values[here], True, False
        strays = np.flatnonzero(np.isin(source, column.stray_rows) & ~new)
        return replace(column, values=values, present=present, null=null, stray_rows=strays)

    kept_above = np.append(0, np.cumsum(~new))
    if not reported.keys() - {clock}:  # its rows stay
        events = tuple(
            replace(event, above=int(kept_above[event.above])) if event.above else event
            for event in events
        )
    events = (*columns.events, *events)
    if not reported.keys() - {clock}:
        return replace(columns, events=events)
    names = tuple(dict.fromkeys((*columns.names, *filter(None, reported))))
    return replace(columns, events=events, names=names, rows=rows.rows, load=load)
