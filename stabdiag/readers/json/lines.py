"""JSON lines: one object a line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import BLOCK, TOO_LONG, Block, blocks, in_order
from stabdiag.readers.chunks import Gathered, Rows, join, names_in, rows_in
from stabdiag.readers.columns import BadLine, Columns
from stabdiag.readers.json.config import told_at_the_head, with_config
from stabdiag.readers.json.rows import decode_line, read_lines
from stabdiag.readers.json.shapes import is_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.readers.chunks import Chunk
    from stabdiag.readers.source import Stream

    # What a block holds: its records, the number of its lines, and those of them that are bad.
    _Result = tuple[Chunk, int, list[BadLine]]

# Up to this size the tolerant reader is done before Arrow is imported and done: it reads some
# 50 MB/s, Arrow 150 MB/s after 40 ms or more for the import (measured on two cores).
SMALL: Final = 1 << 21

# After this many blocks that Arrow refuses, and none that it reads, it is not asked any more.
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
    if not lines or is_document(text, whole=whole):
        return False
    decoded = (decode_line(line.decode("utf-8", "replace")) for line in lines)
    return any(records and not reason for records, reason in decoded)


@dataclass(kw_only=True)
class _Fast:
    """The work on one block, Arrow first; remembers how that went."""

    accepted: int = 0
    refused: int = 0

    def __call__(self, block: Block) -> _Result:
        from stabdiag.readers.json.arrow import read_block

        if not block.too_long and (self.accepted or self.refused < _PATIENCE):
            table = read_block(block.data)
            if table is not None:
                self.accepted += 1
                return table, table.rows, []
            self.refused += 1
        return _tolerant(block)


def _tolerant(block: Block) -> _Result:
    if block.too_long:
        return Rows(rows=0), 1, [BadLine(line=1, reason=TOO_LONG)]
    chunk, bad, lines = read_lines(block.data)
    return chunk, lines, bad


@dataclass(kw_only=True)
class JsonLines(Gathered):
    """The JSON lines that were read so far; ``add`` reads what is appended to the log."""

    work: Callable[[Block], _Result]
    config: dict[str, object] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Read one more block."""
        if not self.lines:
            self.config = told_at_the_head(block.data)
        self.take(*self.work(block))

    def copy(self) -> JsonLines:
        """Return the same, to which more can be added on trial."""
        return replace(self, chunks=[*self.chunks], bad=[*self.bad])

    def columns(self, stream: Stream) -> Columns:
        """Return the columns of all blocks, under the name of their stream."""
        chunks = self.chunks
        if not chunks:
            raise NoUsableRecord(_nothing(stream.name, self.bad))
        names = names_in(chunks)
        if not names:
            raise NoUsableRecord(f"{stream.name}: nothing was logged yet, its records are empty")
        columns = Columns(
            source=stream.name,
            format="jsonl",
            names=names,
            rows=rows_in(chunks),
            load=lambda name: join(chunks, name),
            bad_lines=tuple(self.bad),
            bad_count=self.bad_count,
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
    whole = len(stream.peek(small + 1)) <= small
    config = told_at_the_head(stream.head()[0])
    lines = JsonLines(work=_tolerant if whole else _Fast(), config=config)
    cut = blocks(stream, size=size)
    found = ((one, lines.work(one)) for one in cut) if whole else in_order(lines.work, cut)
    for _, result in found:
        lines.take(*result)
    return lines.columns(stream)


def _nothing(name: str, bad: list[BadLine]) -> str:
    what = f"{name}: no record could be read"
    if bad:
        what += f" (line {bad[0].line}: {bad[0].reason})"
    return f'{what}; expected one JSON object a line, such as {{"step": 1, "loss": 2.5}}'
