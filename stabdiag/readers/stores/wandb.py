"""A run file of W&B: its history, joined record by record, and the text that the run printed."""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.events import Event, EventKind
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.columns import Columns
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.pieces import Piece, Rows, make_piece
from stabdiag.readers.source import Stream
from stabdiag.readers.text.lines.clean import Text
from stabdiag.readers.text.messages.search import Messages

_WANDB_BYTES: Final = 1 << 20


class _Console:
    """The text that a run printed, piece by piece."""

    def __init__(self) -> None:
        self._messages = Messages()
        self._text = bytearray()
        self._looked = 0
        self._lines = 1
        self._places: list[int] = []
        self._steps: list[int] = []

    def printed(self, text: str) -> None:
        """Add printed text."""
        self._text += text.encode("utf-8", "replace")
        if len(self._text) >= _WANDB_BYTES and text.endswith("\n"):
            self._look()

    def logged(self, step: int) -> None:
        """Note that a step was logged after the text printed so far."""
        self._places.append(self._looked + len(self._text))
        self._steps.append(step)

    def events(self) -> tuple[Event, ...]:
        """Return the messages, each with the step that was logged last before it."""
        self._look()
        return self._messages.events(self._reached_step)

    def _look(self) -> None:
        block = bytes(self._text)
        self._messages.look(Text(block, first_line=self._lines), self._looked)
        self._lines += block.count(b"\n")
        self._looked += len(block)
        self._text.clear()

    def _reached_step(self, place: int) -> tuple[int | None, int]:
        above = bisect_right(self._places, place)
        return self._steps[above - 1] if above else None, above


# The number of records that are collected before they become columns.
_BUNCH: Final = 4096

_STEP_KEY: Final = "_step"

# The key that marks an object as a histogram, a picture or a table.
_MEDIA: Final = "_type"


class _History:
    """Records in the order of logging, in chunks of columns."""

    def __init__(self) -> None:
        self.chunks: list[Rows] = []
        self._rows = 0
        self._cells: dict[str, tuple[list[int], list[str]]] = {}

    def take(self, history: Any) -> None:
        """Add a record; in the oldest files its step is not one of its items."""
        for item in history.item:
            self._add(item.key or "/".join(item.nested_key), item.value_json)
        steps = self._cells.get(_STEP_KEY)
        if steps is None or steps[0][-1] != self._rows:
            self._add(_STEP_KEY, str(history.step.num))
        self._rows += 1
        if self._rows == _BUNCH:
            self.end_chunk()

    def end_chunk(self) -> None:
        """Convert the collected records to columns; the last value of each name counts."""
        if self._rows:
            chunk = Rows(rows=self._rows)
            for name, (rows, texts) in self._cells.items():
                chunk.parts[name] = [(np.array(rows, np.intp), _piece(texts))]
            self.chunks.append(chunk)
        self._rows, self._cells = 0, {}

    def _add(self, name: str, text: str) -> None:
        if text.startswith(("{", "[")):
            with suppress(RecursionError):  # nothing that is plotted is nested so deeply
                self._add_members(name, _decoded(text))
            return
        cells = self._cells.get(name)
        if cells is None:
            cells = self._cells[name] = ([], [])
        cells[0].append(self._rows)
        cells[1].append(text)

    def _add_members(self, name: str, value: object) -> None:
        if isinstance(value, dict) and _MEDIA not in value:
            for key, member in value.items():
                self._add_members(f"{name}/{key}", member)
        elif not isinstance(value, dict | list):
            self._add(name, json.dumps(value))


def _decoded(text: str) -> object:
    """Decode a JSON value; anything else is a word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _piece(texts: list[str]) -> Piece:
    try:
        return make_piece(list(map(float, texts)))
    except ValueError:
        return make_piece(list(map(_decoded, texts)))


_WANDB_MAGIC: Final = b":W&B"
_WANDB_HEADER_SIZE: Final = 7

# A summary follows each record of the history, and repeats it. It begins with its tag (field 3), or
# has the record's number (field 1) before that.
_SUMMARY_TAG: Final = lazy_pattern(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x1a")

# Settings of W&B itself in the configuration of a run.
_OWN: Final = "_wandb"


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a file starts like a W&B run."""
    return head.startswith(_WANDB_MAGIC)


def read(stream: Stream) -> Columns:
    """Read a ``.wandb`` file."""
    from google.protobuf.message import DecodeError

    from stabdiag.readers.stores.leveldb import LevelDbRecords, record_class

    records = LevelDbRecords(stream, header=_WANDB_HEADER_SIZE)
    parsed = record_class().FromString
    run = _Run()
    foreign = 0
    for content in records:
        if _SUMMARY_TAG.match(content):
            continue
        try:
            run.take(parsed(content))
        except DecodeError:
            foreign += 1
    notes = [*stream.notes, *records.notes()]
    if foreign:
        notes.append(f"{foreign} of the records of {stream.name} cannot be parsed: left out")
    return run.columns(stream.name, notes)


class _Run:
    """The contents of the records of a run."""

    def __init__(self) -> None:
        self._config: dict[str, object] = {}
        self._console = _Console()
        self._end = "W&B recorded no end of the run: it was killed, or is still running"
        self._history = _History()

    def take(self, record: Any) -> None:
        """Add a record."""
        if record.HasField("history"):
            self._history.take(record.history)
            self._console.logged(record.history.step.num)
        elif record.HasField("config"):
            self._take_config(record.config)
        elif record.HasField("run"):
            if record.run.display_name:
                self._config["run_name"] = record.run.display_name
            self._take_config(record.run.config)
        elif record.HasField("output_raw"):
            self._console.printed(record.output_raw.line)
        elif record.HasField("exit"):
            code = record.exit.exit_code
            self._end = f"the run ended with exit code {code}" if code else ""

    def columns(self, name: str, notes: list[str]) -> Columns:
        """Return the columns of all history that was taken, and how the run ended if not well."""
        self._history.end_chunk()
        if not self._history.chunks:
            why = f" ({notes[0]})" if notes else ""
            raise NoUsableRecord(f"{name}: no record could be read; the run logged nothing{why}")
        columns = columns_from_chunks(
            self._history.chunks, source=name, format="wandb", notes=notes
        )
        end = [Event(kind=EventKind.MESSAGE, message=self._end)] if self._end else []
        return replace(
            columns,
            names=tuple(sorted(columns.names)),  # the members of a record have no order
            events=(*self._console.events(), *end),
            config=self._config,
        )

    def _take_config(self, config: Any) -> None:
        for item in config.update:
            path = list(item.nested_key) or [item.key]
            if path[0] != _OWN:
                self._config[".".join(path)] = _decoded(item.value_json)
