"""The targets for readers: samples, and the attempt on each input made from them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from fuzz_damage import damaged, noise
from pyarrow import parquet

from stabdiag import read
from stabdiag.assemble import build_history
from stabdiag.errors import LogError
from stabdiag.model.limits import Limits
from stabdiag.readers import read_stream
from stabdiag.readers.registry import READERS, Reader, reader
from stabdiag.readers.sniff import sniff
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from stabdiag.readers.columns import Columns

SAMPLES: Final = Path(__file__).parents[1] / "tests" / "readers" / "samples"
DATABASE: Final = SAMPLES.parent / "stores" / "trackio.db.gz"

# The longest head that a recognizer is given at first, and how often it is given one.
LONGEST_HEAD: Final = 1 << 22
_STRETCHED: Final = 0.02

_LONGEST_MESSAGE: Final = 1_000


class Lost(Exception):
    """A record before the damage was not read from ``data``."""

    def __init__(self, column: str, data: bytes) -> None:
        """Say which column it was."""
        super().__init__(f"column {column!r} lost values from before the damage")
        self.data = data


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target: samples, a function that damages them, and the attempt on the result."""

    samples: Sequence[bytes]
    attempt: Callable[[bytes, random.Random], None]
    damage: Callable[[Sequence[bytes], random.Random], bytes] = damaged


def targets() -> dict[str, Callable[[], Target]]:
    """Return all targets by name; a target reads its samples when it is built."""
    return {
        "recognize": lambda: Target(samples=_samples("*"), attempt=_recognized),
        **{entry.name: lambda name=entry.name: _format(name) for entry in READERS},  # type: ignore[misc]
        **{f"recognize-{entry.name}": lambda entry=entry: _recognizer(entry) for entry in READERS},  # type: ignore[misc]
        "packed": lambda: Target(samples=_packed(), attempt=_read_packed),
        "wrapped": lambda: Target(samples=_wrapped(), attempt=_read_packed),
        "archive": lambda: Target(samples=_archives(), attempt=_read_archive),
    }


def _samples(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(SAMPLES.glob(f"{folder}/*"))]


def _own_samples(name: str) -> list[bytes]:
    samples = _samples(name)
    if name == "parquet":
        samples = [_parquet()]
    elif name == "sqlite":
        samples.append(gzip.decompress(DATABASE.read_bytes()))
    return samples


def _format(name: str) -> Target:
    samples = _own_samples(name)

    def attempt(data: bytes, _chance: random.Random) -> None:
        _check(_read_as(name, data))

    def attempt_lines(data: bytes, chance: random.Random) -> None:
        if chance.random() < 0.2:
            _check_what_precedes(name, chance.choice(samples), chance)
        attempt(data, chance)

    return Target(samples=samples, attempt=attempt_lines if reader(name).text else attempt)


def _recognizer(entry: Reader) -> Target:
    """Test one recognizer on the samples of all formats, occasionally on long inputs."""
    others = _samples("*")
    own = _own_samples(entry.name)

    def damage(samples: Sequence[bytes], chance: random.Random) -> bytes:
        data = damaged(samples, chance)
        return _stretched(data, chance) if data and chance.random() < _STRETCHED else data

    def attempt(data: bytes, chance: random.Random) -> None:
        is_match = entry.sniff(data, is_complete=chance.random() < 0.5)
        if not isinstance(is_match, bool):
            raise TypeError(f"{entry.name} says {is_match!r}")

    samples = own * (len(others) // len(own)) + others
    return Target(samples=samples, attempt=attempt, damage=damage)


def _stretched(data: bytes, chance: random.Random) -> bytes:
    """Repeat a part of the data up to the longest head."""
    begin = chance.randrange(len(data))
    part = data[begin : begin + chance.choice((1, 2, 10, 100, 2000))]
    if chance.random() < 0.5:
        part = part.replace(b"\n", b"") or b","
    return (data[:begin] + part * (LONGEST_HEAD // len(part)) + data[begin:])[:LONGEST_HEAD]


def _read_as(name: str, data: bytes) -> Columns:
    return read_stream(_stream(data), format=name)


def _parquet() -> bytes:
    sink = io.BytesIO()
    steps = list(range(200))
    losses = [4 - step / 100 for step in steps]
    table = pa.table({"step": steps, "loss": losses, "mode": ["train"] * 200})
    parquet.write_table(table, sink, row_group_size=50)
    return sink.getvalue()


def _packed() -> list[bytes]:
    texts = _samples("jsonl") + _samples("megatron")
    zstandard = pa.Codec("zstd")
    return [
        *(gzip.compress(text) + gzip.compress(text) for text in texts),
        *(bz2.compress(text) for text in texts),
        *(lzma.compress(text) for text in texts),
        *(zstandard.compress(text, asbytes=True) for text in texts),
    ]


def _archives() -> list[bytes]:
    made = []
    files = sorted(path for path in SAMPLES.glob("*/*") if path.parent.name in ("csv", "megatron"))
    for pair in zip(files, [*files[1:], files[0]], strict=True):
        tar, zipped = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            for path in pair:
                archive.add(path, f"run/{path.name}")
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as other:
            for path in pair:
                other.write(path, f"run/{path.name}")
            other.writestr("run/config.yaml", "lr: 1e-4\nfp16: true\n")
        made += [tar.getvalue(), gzip.compress(tar.getvalue()), zipped.getvalue()]
    return made


def _stream(data: bytes) -> Stream:
    # It is named as MLflow names the file of a metric.
    return Stream("loss", io.BytesIO(data))


def _recognized(data: bytes, chance: random.Random) -> None:
    is_complete = chance.random() < 0.5
    for entry in READERS:
        is_match = entry.sniff(data, is_complete=is_complete)
        if not isinstance(is_match, bool):
            raise TypeError(f"{entry.name} says {is_match!r}")
    sniff(_stream(data))


def _wrapped() -> list[bytes]:
    """Return logs as Docker, a JSON logger and a notebook keep them."""
    texts = [content.decode("utf-8", "replace") for content in _samples("*")]
    docker = ([{"log": line} for line in text.splitlines(keepends=True)] for text in texts)
    logger = ([{"level": "INFO", "message": line} for line in text.splitlines()] for text in texts)
    lines = [
        "".join(f"{json.dumps(content)}\n" for content in records) for records in [*docker, *logger]
    ]
    table = "<table><tr><th>Step</th><th>Loss</th></tr><tr><td>1</td><td>2.5</td></tr></table>"
    shown = [{"data": {"text/html": [table]}}, {"ename": "ValueError", "evalue": "NaN"}]
    cells = [
        [{"cell_type": "code", "outputs": [{"text": text.splitlines(keepends=True)}, *shown]}]
        for text in texts
    ]
    notebooks = [json.dumps({"cells": content, "nbformat": 4}, indent=1) for content in cells]
    return [content.encode() for content in [*lines, *notebooks]]


def _read_packed(data: bytes, _chance: random.Random) -> None:
    _check(read_stream(_stream(data)))


def _read_archive(data: bytes, _chance: random.Random) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            read(file.name)
        except LogError as error:
            raise LogError(str(error).replace(file.name, "loss")) from error


def _check(columns: Columns) -> None:
    """See that columns fit together, that their messages are lines, and that they make a run."""
    for name in columns.names:
        values = columns.load(name)
        if not len(values.values) == len(values.present) == len(values.null) == columns.rows:
            raise ValueError(f"column {name!r} is not of {columns.rows} rows")
        if (values.present & values.null).any():
            raise ValueError(f"column {name!r} has values that are null")
    messages = [event.message for event in columns.events] + [
        bad.reason for bad in columns.bad_lines
    ]
    for message in messages + list(columns.notes):
        if not is_one_line(message):
            raise ValueError(f"no message of one line: {message!r}")
    build_history(columns, Limits())


def is_one_line(message: str) -> bool:
    """Return True if a message is one line of readable length."""
    return len(message.splitlines()) == 1 and len(message) <= _LONGEST_MESSAGE


def _check_what_precedes(name: str, sample: bytes, chance: random.Random) -> None:
    """See that bytes which mean nothing take nothing from the whole lines before them."""
    ends = [at + 1 for at, byte in enumerate(sample) if byte == ord("\n")]
    head = sample[: chance.choice(ends)]
    try:
        before = _read_as(name, head)
    except LogError:
        return
    data = head + noise(chance)
    after = _read_as(name, data)
    for column in before.names:
        values, later_values = before.load(column), after.load(column)
        if not np.array_equal(values.values, later_values.values[: before.rows], equal_nan=True):
            raise Lost(column, data)
