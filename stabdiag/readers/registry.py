"""The formats that can be read: one row each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from stabdiag.errors import LogError, did_you_mean
from stabdiag.readers.columns import every_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.readers.columns import Columns, Wanted
    from stabdiag.readers.source import Stream


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A format: its name, the module that reads it, its suffixes, and how it is recognised."""

    name: str
    module: str
    suffixes: tuple[str, ...]
    recognised: str

    def read(self, stream: Stream, wanted: Wanted = every_column) -> Columns:
        """Read a stream; the module, and what it imports, is loaded only now."""
        read = cast("Callable[[Stream, Wanted], Columns]", import_module(self.module).read)
        return read(stream, wanted)


READERS: Final = (
    Reader(
        name="jsonl",
        module="stabdiag.readers.jsonl",
        suffixes=(".jsonl", ".ndjson", ".json"),
        recognised="a line that is one JSON object",
    ),
    Reader(
        name="csv",
        module="stabdiag.readers.csv",
        suffixes=(".csv", ".tsv"),
        recognised="a line of names over lines of as many cells, most of them numbers",
    ),
    Reader(
        name="parquet",
        module="stabdiag.readers.parquet",
        suffixes=(".parquet", ".pq"),
        recognised="the bytes PAR1",
    ),
)


def reader(name: str) -> Reader:
    """Return the reader of a format."""
    for one in READERS:
        if one.name == name:
            return one
    names = [one.name for one in READERS]
    raise LogError(
        f"unknown format {name!r}{did_you_mean(name, names)}; known are {', '.join(names)}"
    )
