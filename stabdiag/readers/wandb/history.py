"""The history of a run of W&B: records whose members are JSON, gathered by column."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stabdiag.readers.chunks import Rows
from stabdiag.readers.pieces import piece_of

if TYPE_CHECKING:
    from stabdiag.readers.pieces import Piece

# How many records are gathered before they are put into columns.
_BUNCH: Final = 4096

_STEP: Final = "_step"

# The key by which an object says that it is a histogram, a picture or a table.
_MEDIA: Final = "_type"


class History:
    """Records in the order in which they were logged."""

    def __init__(self) -> None:
        """Begin with none."""
        self._chunks: list[Rows] = []
        self._begin()

    def take(self, history: Any) -> None:
        """Add a record; in the oldest files its step does not stand among its members."""
        for item in history.item:
            self._add(item.key or "/".join(item.nested_key), item.value_json)
        steps = self._cells.get(_STEP)
        if steps is None or steps[0][-1] != self._rows:
            self._add(_STEP, str(history.step.num))
        self._rows += 1
        if self._rows == _BUNCH:
            self._end()

    def chunks(self) -> list[Rows]:
        """Return all that was taken."""
        if self._rows:
            self._end()
        return self._chunks

    def _begin(self) -> None:
        self._rows = 0
        self._cells: dict[str, tuple[list[int], list[str]]] = {}

    def _end(self) -> None:
        """Put the gathered records into columns; if one has a name twice, the last value counts."""
        chunk = Rows(rows=self._rows)
        for name, (rows, texts) in self._cells.items():
            chunk.parts[name] = [(np.array(rows, dtype=np.intp), _piece(texts))]
        self._chunks.append(chunk)
        self._begin()

    def _add(self, name: str, text: str) -> None:
        if text.startswith(("{", "[")):
            with suppress(RecursionError):  # nothing that is plotted is nested so deeply
                self._add_members(name, decoded(text))
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


def decoded(text: str) -> object:
    """Decode a value written as JSON; what is no JSON is a word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _piece(texts: list[str]) -> Piece:
    try:
        return piece_of(list(map(float, texts)))
    except ValueError:
        return piece_of(list(map(decoded, texts)))
