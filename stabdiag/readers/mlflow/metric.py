"""One metric as MLflow's file store keeps it: ``timestamp value step`` on each line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import blocks
from stabdiag.readers.chunks import Rows, join, names_in, piece_of_cells, rows_in
from stabdiag.readers.columns import SHOWN, BadLine, Columns
from stabdiag.readers.source import STANDARD_INPUT

if TYPE_CHECKING:
    from stabdiag.readers.chunks import Chunk
    from stabdiag.readers.source import Stream

_LINE: Final = re.compile(rb"(\d{10,16}) ([-+.0-9A-Za-z]{1,32}) (\d{1,18})\r?", re.ASCII)


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether each line is a time in milliseconds, a value and a step."""
    lines = head.rstrip(b"\n").split(b"\n") if whole else head.split(b"\n")[:-1]
    fitting = sum(_LINE.fullmatch(line) is not None for line in lines)
    # A line may break off where the writer was killed.
    return fitting > 0 and len(lines) - fitting <= 1


def read(stream: Stream) -> Columns:
    """Read the file; the metric has the name of the file."""
    metric = "value" if stream.name == STANDARD_INPUT else Path(stream.name).stem
    chunks: list[Chunk] = []
    bad: list[BadLine] = []
    at = 0
    for block in blocks(stream):
        cells: list[tuple[bytes, ...]] = []
        for line in block.data.removesuffix(b"\n").split(b"\n"):
            at += 1
            found = _LINE.fullmatch(line)
            if found is not None:
                cells.append(found.groups())
            elif line.strip():
                bad.append(BadLine(line=at, reason="not a time, a value and a step"))
        if cells:
            chunks.append(_chunk(cells, metric))
    if not chunks:
        raise NoUsableRecord(f"{stream.name}: no record could be read; expected time, value, step")
    return Columns(
        source=stream.name,
        format="mlflow-metric",
        names=names_in(chunks),
        rows=rows_in(chunks),
        load=lambda name: join(chunks, name),
        bad_lines=tuple(bad[:SHOWN]),
        bad_count=len(bad),
        notes=tuple(stream.notes),
    )


def _chunk(lines: list[tuple[bytes, ...]], metric: str) -> Rows:
    names = ("timestamp", metric, "step")
    columns = zip(*([cell.decode() for cell in line] for line in lines), strict=True)
    return Rows.of(dict(zip(names, map(piece_of_cells, columns), strict=True)))
