"""Write a run as TensorBoard and W&B do, a number of rows of the run that ``logs.py`` draws.

Their writers take some twenty microseconds a number, so these logs are shorter than the others.
"""

from __future__ import annotations

import argparse
import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from logs import table
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from wandb.proto.wandb_internal_pb2 import Record

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 1 << 15
HEAD = 7
COMPLETE, FIRST, MIDDLE, LAST = range(1, 5)


def write_events(data: pa.Table, file: Path) -> None:
    """Write an event for each number, as ``SummaryWriter.add_scalar`` does."""
    with file.open("wb") as out:
        writer = RecordWriter(out)
        writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
        for row in data.to_pylist():
            step = row.pop("step")
            for tag, value in row.items():
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
                event = Event(wall_time=step, step=step, summary=summary)
                writer.write(event.SerializeToString())


def write_run(data: pa.Table, file: Path) -> None:
    """Write a record for each row, and the summary that W&B writes after it."""
    with file.open("wb") as out:
        out.write(b":W&B\xe1\xbe\x00")
        at = HEAD
        for row in data.to_pylist():
            step = row.pop("step")
            history, summary = Record(num=2 * step), Record(num=2 * step + 1)
            for key, value in {**row, "_step": step}.items():
                text = json.dumps(value)
                history.history.item.add(nested_key=[key], value_json=text)
                summary.summary.update.add(nested_key=[key], value_json=text)
            for record in (history, summary):
                framed = _framed(record.SerializeToString(), at)
                out.write(framed)
                at = (at + len(framed)) % BLOCK


def _framed(content: bytes, at: int) -> bytes:
    """Cut a record into fragments that end with the blocks."""
    out, first = b"", True
    while first or content:
        left = BLOCK - (at + len(out)) % BLOCK
        if left < HEAD:
            out += bytes(left)
            left = BLOCK
        part, content = content[: left - HEAD], content[left - HEAD :]
        kind = (FIRST if content else COMPLETE) if first else (MIDDLE if content else LAST)
        out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
        first = False
    return out


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=50_000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    data = table(arguments.rows)
    write_events(data, arguments.folder / "run.tfevents")
    write_run(data, arguments.folder / "run.wandb")


if __name__ == "__main__":
    main()
