"""W&B runs as they lie on the disk: the ``.wandb`` file that every run writes, synced or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.readers.columns import Columns
from stabdiag.readers.pieces import Rows, join, piece_of
from stabdiag.readers.wandb_console import Console

if TYPE_CHECKING:
    from stabdiag.readers.columns import Column
    from stabdiag.readers.pieces import Piece
    from stabdiag.readers.source import Stream

_MAGIC: Final = b":W&B"
_HEADER: Final = 7

# So many records are gathered before they are put into columns.
_BUNCH: Final = 4096

# W&B's own settings among those of the run.
_OWN: Final = "_wandb"

_STEP: Final = "_step"

# What an object that is no record names its kind with: a histogram, a picture, a table.
_MEDIA: Final = "_type"


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is that of a W&B run."""
    return head.startswith(_MAGIC)


def read(stream: Stream) -> Columns:
    """Read a ``.wandb`` file."""
    from google.protobuf.message import DecodeError
    from wandb.proto.wandb_internal_pb2 import Record

    from stabdiag.readers.leveldb import Records

    records = Records(stream, header=_HEADER)
    run = _Run()
    foreign = 0
    for content in records:
        if _is_summary(content):
            continue
        try:
            run.take(Record.FromString(content))
        except DecodeError:
            foreign += 1
    notes = [*stream.notes, *records.notes()]
    if foreign:
        notes.append(f"{foreign} records of {stream.name} are no records of W&B and left out")
    return run.columns(stream.name, tuple(notes))


class _Run:
    """What the records of a run tell."""

    def __init__(self) -> None:
        self._config: dict[str, object] = {}
        self._console = Console()
        self._exit_code: int | None = None
        self._bunch = _Bunch()
        self._chunks: list[Rows] = []

    def take(self, record: Any) -> None:
        """Take a record."""
        kind = record.WhichOneof("record_type")
        if kind == "history":
            self._take_history(record.history)
        elif kind == "config":
            self._take_config(record.config)
        elif kind == "run":
            self._take_config(record.run.config)
        elif kind == "output_raw":
            self._console.printed(record.output_raw.line)
        elif kind == "exit":
            self._exit_code = record.exit.exit_code

    def columns(self, name: str, notes: tuple[str, ...]) -> Columns:
        """Return the columns of all history that was taken."""
        chunks = [*self._chunks, *([self._bunch.chunk()] if self._bunch.rows else [])]
        if not chunks:
            why = f" ({notes[0]})" if notes else ""
            raise NoUsableRecord(f"{name}: no record could be read; the run logged nothing{why}")
        # The members of a record stand in no order of their own.
        names = sorted({name for chunk in chunks for name in chunk.names})

        def load(column: str) -> Column:
            return join(chunks, column)

        return Columns(
            source=name,
            format="wandb",
            names=tuple(names),
            rows=sum(chunk.rows for chunk in chunks),
            load=load,
            notes=notes,
            events=(*self._console.events(), *self._end()),
            config=self._config,
        )

    def _take_history(self, history: Any) -> None:
        bunch = self._bunch
        for item in history.item:
            bunch.add(item.key or "/".join(item.nested_key), item.value_json)
        bunch.end(history.step.num)
        self._console.logged(history.step.num)
        if bunch.rows == _BUNCH:
            self._chunks.append(bunch.chunk())
            self._bunch = _Bunch()

    def _end(self) -> tuple[Event, ...]:
        """Return how the run ended, if not well."""
        if self._exit_code == 0:
            return ()
        if self._exit_code is None:
            message = "W&B recorded no end of the run: it was killed, or is still running"
        else:
            message = f"the run ended with exit code {self._exit_code}"
        return (Event(kind=EventKind.MESSAGE, message=message),)

    def _take_config(self, config: Any) -> None:
        for item in config.update:
            path = _path(item)
            if path[0] != _OWN:
                self._config[".".join(path)] = _decoded(item.value_json)


class _Bunch:
    """Some records by column: the rows that have it, and their values as JSON."""

    def __init__(self) -> None:
        self.rows = 0
        self._cells: dict[str, tuple[list[int], list[str]]] = {}

    def add(self, name: str, text: str) -> None:
        """Add a member, written as JSON, to the record that is being gathered."""
        if text.startswith(("{", "[")):
            self._add_members(name, _decoded(text))
            return
        cells = self._cells.get(name)
        if cells is None:
            cells = self._cells[name] = ([], [])
        cells[0].append(self.rows)
        cells[1].append(text)

    def end(self, step: int) -> None:
        """End the record; the oldest files tell the step only beside its members."""
        if _STEP not in self._cells or self._cells[_STEP][0][-1] != self.rows:
            self.add(_STEP, str(step))
        self.rows += 1

    def chunk(self) -> Rows:
        """Return the records; of a name that a record has twice the last value holds."""
        chunk = Rows(rows=self.rows)
        for name, (rows, texts) in self._cells.items():
            chunk.parts[name] = [(np.array(rows, dtype=np.intp), _piece(texts))]
        return chunk

    def _add_members(self, name: str, value: object) -> None:
        if isinstance(value, dict) and _MEDIA not in value:
            for key, member in value.items():
                self._add_members(f"{name}/{key}", member)
        elif not isinstance(value, dict | list):
            self.add(name, json.dumps(value))


def _piece(texts: list[str]) -> Piece:
    try:
        return piece_of(list(map(float, texts)))
    except ValueError:
        return piece_of(list(map(_decoded, texts)))


def _is_summary(content: bytes) -> bool:
    """Tell whether a record is a summary: one follows each of the history and says the same.

    Its number (field 1) may come before what it is (a summary is field 3, of a length of its own).
    """
    at = 0
    if content.startswith(b"\x08"):
        at = 1
        while content[at : at + 1] >= b"\x80":
            at += 1
        at += 1
    return content[at : at + 1] == b"\x1a"


def _path(item: Any) -> list[str]:
    return list(item.nested_key) or [item.key]


def _decoded(text: str) -> object:
    """Return a value written as JSON; what is none is a word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
