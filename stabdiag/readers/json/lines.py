"""JSON lines: one object a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import BLOCK, TOO_LONG, Block, blocks, in_order
from stabdiag.readers.columns import (
    BadLine,
    Columns,
    Gathered,
    Rows,
    every_column,
    names_in,
    rows_in,
)
from stabdiag.readers.json.config import told_at_the_head, with_config
from stabdiag.readers.json.rows import decode_line, read_lines
from stabdiag.readers.json.shapes import is_document
from stabdiag.readers.source import with_unwanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.readers.columns import Chunk, Column, Wanted
    from stabdiag.readers.source import Stream

    # What a block holds: its records, the number of its lines, and those of them that are bad.
    _Result = tuple[Chunk, int, list[BadLine]]

# Up to this size the tolerant reader is done before Arrow is imported and done: it reads some
# 50 MB/s, Arrow 150 to 400 MB/s after 40 ms or more for the import (measured on two cores).
SMALL: Final = 1 << 21

# After so many blocks that a way refuses, and none that it reads, it is not asked any more.
_PATIENCE: Final = 4

# How many lines are looked at: the first one may break off.
_LINES: Final = 20


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether one of the first lines is a JSON object, and the file no JSON document."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    lines = [line.strip() for line in text.split(b"\n", _LINES + 1)]
    if not whole and len(lines) > 1:
        lines.pop()
    lines = [line for line in lines if line][:_LINES]
    if not any(b"{" in line for line in lines) or is_document(text, whole=whole):
        return False
    decoded = (decode_line(line.decode("utf-8", "replace")) for line in lines)
    return any(records and not reason for records, reason in decoded)


@dataclass(kw_only=True)
class _Fast:
    """The work on one block, by the fastest way that can read it; remembers how each did."""

    wanted: Wanted = every_column
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __call__(self, block: Block) -> _Result:
        from stabdiag.readers.json import arrow

        ways: dict[str, Callable[[bytes], Chunk | None]] = {
            "some": partial(arrow.read_wanted, wanted=self.wanted),
            "uniform": arrow.read_uniform,
            "all": arrow.read_block,
        }
        if self.wanted is every_column:
            del ways["some"]
        for name, way in () if block.too_long else ways.items():
            if self.accepted[name] or self.refused[name] < _PATIENCE:
                table = way(block.data)
                if table is not None:
                    self.accepted[name] += 1
                    return table, table.rows, []
                self.refused[name] += 1
        return _tolerant(block)


def _tolerant(block: Block) -> _Result:
    if block.too_long:
        return Rows(rows=0), 1, [BadLine(line=1, reason=TOO_LONG)]
    chunk, bad, lines = read_lines(block.data)
    return chunk, lines, bad


@dataclass(kw_only=True)
class JsonLines:
    """The JSON lines that were read so far; ``add`` reads what is appended to the log."""

    work: Callable[[Block], _Result]
    config: dict[str, object] = field(default_factory=dict)
    found: Gathered = field(default_factory=Gathered)

    def add(self, block: Block) -> None:
        """Read one more block."""
        if not self.found.lines:
            self.config = told_at_the_head(block.data)
        self.found.take(*self.work(block))

    def copy(self) -> JsonLines:
        """Return the same, to which more can be added on trial."""
        found = self.found
        return replace(self, found=replace(found, chunks=[*found.chunks], bad=[*found.bad]))

    def columns(self, stream: Stream, load: Callable[[str], Column] | None = None) -> Columns:
        """Return the columns of all blocks, under the name of their stream; ``load`` loads one."""
        found = self.found
        if not found.chunks:
            raise NoUsableRecord(_nothing(stream.name, found.bad))
        names = names_in(found.chunks)
        if not names:
            raise NoUsableRecord(f"{stream.name}: nothing was logged yet, its records are empty")
        columns = Columns(
            source=stream.name,
            format="jsonl",
            names=names,
            rows=rows_in(found.chunks),
            load=load or found.column,
            bad_lines=tuple(found.bad),
            bad_count=found.bad_count,
            notes=tuple(stream.notes),
            config=self.config,
            tells_null=True,
        )
        return with_config(columns)


def growing() -> JsonLines:
    """Return what reads a log as it grows."""
    return JsonLines(work=_Fast())


def read(stream: Stream, *, small: int = SMALL, size: int = BLOCK) -> Columns:
    """Read a stream of JSON lines; a log of up to ``small`` bytes without Arrow."""
    config = told_at_the_head(stream.head()[0])
    cut = blocks(stream, size=size)
    if len(stream.peek(small + 1)) <= small:
        lines = JsonLines(work=_tolerant, config=config)
        for block in cut:
            lines.found.take(*_tolerant(block))
    else:
        fast = _Fast(wanted=stream.wanted if stream.path is not None else every_column)
        lines = JsonLines(work=fast, config=config, found=_slab(stream))
        for _, result in in_order(lines.work, cut):
            lines.found.take(*result)
        if fast.accepted["some"] and stream.path is not None:
            load, rows = lines.found.column, rows_in(lines.found.chunks)
            every = with_unwanted(load, stream.path, stream.wanted, rows, read)
            return lines.columns(stream, every)
    return lines.columns(stream)


def _slab(stream: Stream) -> Gathered:
    from stabdiag.readers.arrow import Slab, room_for

    first, _, _ = stream.head()[0].partition(b"\n")
    return Slab(room=room_for(stream, columns=first.count(b":") or 1))


def _nothing(name: str, bad: list[BadLine]) -> str:
    what = f"{name}: no record could be read"
    if bad:
        what += f" (line {bad[0].line}: {bad[0].reason})"
    return f'{what}; expected one JSON object a line, such as {{"step": 1, "loss": 2.5}}'
