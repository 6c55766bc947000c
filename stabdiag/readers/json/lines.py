"""JSON lines: one object a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias

from stabdiag.errors import NoUsableRecord
from stabdiag.model.frozen import mutable
from stabdiag.readers.blocks import BLOCK, blocks, in_order
from stabdiag.readers.columns import BadLine, Columns
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.json.config import head_config, with_config
from stabdiag.readers.json.shapes import is_document
from stabdiag.readers.json.tolerant import begins_with_records, read_lines
from stabdiag.readers.log_builder import LogBuilder
from stabdiag.readers.pieces import Chunk
from stabdiag.readers.source import Stream

_Result: TypeAlias = tuple[Chunk, int, list[BadLine]]

# Up to this size the tolerant reader finishes before Arrow is imported and finishes: it reads some
# 50 MB/s, Arrow 150 to 400 MB/s after 40 ms or more for the import (measured on two cores).
MAX_TOLERANT_JSON: Final = 1 << 21

# A fast path that refuses this many blocks without reading any is not tried again.
_PATIENCE: Final = 4

# The number of lines to examine: the first one may break off.
_SNIFFED_LINES: Final = 20


# Keys of each line in the journal of an Optuna study, which has a reader of its own.
JOURNAL_KEYS: Final = (b'"op_code":', b'"worker_id":')


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if one of the first lines is a JSON object, and the file is not one document.

    Other lines may come before the objects if they are fewer. A single object with lists of values
    is a document, also with other lines around it.
    """
    text = head.removeprefix(b"\xef\xbb\xbf")
    lines = text.split(b"\n")
    if all(key in lines[0] for key in JOURNAL_KEYS):
        return False
    if not is_complete and len(lines) > 1:
        lines.pop()
    lines = list(filter(None, map(bytes.strip, lines)))
    objects = [line for line in lines if line.startswith(b"{")]
    lines = (objects if 2 * len(objects) > len(lines) else lines)[:_SNIFFED_LINES]
    if not any(b"{" in line for line in lines) or is_document(text, is_complete=is_complete):
        return False
    texts = (line.decode("utf-8", "replace") for line in lines if b"{" in line)
    return any(map(begins_with_records, texts)) and not is_quoted(objects)


def is_quoted(lines: Sequence[bytes]) -> bool:
    """Return True if the only object on the lines of a text is a document, or a dict of lists."""
    objects = [line[line.index(b"{") :] for line in lines if b"{" in line]
    if len(objects) != 1:
        return False
    document = objects[0] if b'"' in objects[0] else objects[0].replace(b"'", b'"')
    return is_document(document, is_complete=True)


@mutable
class _FastParser:
    """The work on one block, by the fastest way that can read it; remembers how each did."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __call__(self, block: bytes) -> _Result:
        from stabdiag.readers.json import arrow

        for way in (arrow.read_uniform, arrow.read_block):
            name = way.__name__
            if self.accepted[name] or self.refused[name] < _PATIENCE:
                table = way(block)
                if table is not None:
                    self.accepted[name] += 1
                    return table, table.rows, []
                self.refused[name] += 1
        return _tolerant(block)


def _tolerant(block: bytes) -> _Result:
    chunk, bad, lines = read_lines(block)
    return chunk, lines, bad


@mutable
class JsonLines(Copyable):
    """The JSON lines that were read so far; ``add`` reads what is appended to the log."""

    work: Callable[[bytes], _Result]
    config: dict[str, object] = field(default_factory=dict)
    builder: LogBuilder = field(default_factory=LogBuilder)

    def add(self, block: bytes) -> None:
        """Read one more block."""
        if not self.builder.lines:
            self.config = head_config(block)
        self.builder.take(*self.work(block))
        self.builder.is_ended = block.endswith(b"\n")

    def columns(self, stream: Stream) -> Columns:
        """Return the columns of all blocks, under the name of their stream."""
        if not self.builder.chunks:
            raise NoUsableRecord(_nothing(stream.name, self.builder.bad))
        columns = self.builder.columns(stream.name, "jsonl", stream.notes)
        if not columns.names:
            raise NoUsableRecord(f"{stream.name}: nothing was logged yet, its records are empty")
        return with_config(replace(columns, config=self.config, distinguishes_null=True))


def growing() -> JsonLines:
    """Return a reader of a growing log."""
    return JsonLines(work=_FastParser())


def read(stream: Stream, *, small: int = MAX_TOLERANT_JSON, size: int = BLOCK) -> Columns:
    """Read a stream of JSON lines; a log of up to ``small`` bytes without Arrow."""
    head, _ = stream.head()
    lines = JsonLines(work=_tolerant, config=head_config(head))
    fast = len(stream.peek(small + 1)) > small
    if fast:
        from stabdiag.readers.slab import make_slab

        lines.work = _FastParser()
        lines.builder = make_slab(stream, head.partition(b"\n")[0].count(b":") or 1)
    for block, result in in_order(lines.work, blocks(stream, size=size), ahead=fast):
        lines.builder.take(*result)
        lines.builder.is_ended = block.endswith(b"\n")
    return lines.columns(stream)


def _nothing(name: str, bad: list[BadLine]) -> str:
    message = f"{name}: no record could be read"
    if bad:
        message += f" (line {bad[0].line}: {bad[0].reason})"
    return f'{message}; expected one JSON object a line, such as {{"step": 1, "loss": 2.5}}'
