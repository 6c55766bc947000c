"""One JSON document: a list of records, or an object of columns, wherever in it they lie."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.readers.columns import Columns
from stabdiag.readers.json_config import with_config
from stabdiag.readers.json_shapes import holds_history, is_document
from stabdiag.readers.json_tables import read_tables
from stabdiag.readers.json_unnamed import named
from stabdiag.readers.pieces import Piece, Rows, join, piece_of, stretched
from stabdiag.readers.words import NULL, NUMBER
from stabdiag.roles import assign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stabdiag.readers.json_tables import Path, Tables
    from stabdiag.readers.source import Stream

    Ints = NDArray[np.int64]

_SHOWN: Final = 20

# So many lists are named that hold nothing.
_NAMED: Final = 3

# Whole numbers above this are not told apart.
_LARGEST: Final = 2.0**53


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is one JSON document, and not an object a line."""
    return is_document(head, whole=whole) and not holds_history(head)


def read(stream: Stream) -> Columns:
    """Read the largest table of a document that has a loss, or else the largest."""
    tables = read_tables(stream)
    config = {".".join(path): value for path, value in tables.values.items()}
    events = named(tables, stream.name)
    if tables.columns.get(()):
        raise NoUsableRecord(
            f"{stream.name}: a list of values that may be anything; say what they are:"
            ' {"loss": [2.5, 2.25, …]}'
        )
    by_step = _by_step(_indexed(tables) | _beside_steps(tables))
    listed = _side_by_side(tables, stream.notes)
    best = max(tables.records, key=lambda path: _count(tables.records[path]), default=())
    records = tables.records.get(best, [])
    if records and listed.rows == _count(records):
        _widen(records, listed)
    # Of tables of one size the records go first, and lists that tell of no step last.
    by_size = sorted((records, [by_step], [listed]), key=_count, reverse=True)
    taken = next(filter(_has_a_loss, by_size), by_size[0])
    if taken is records:
        _note_others(tables, best, stream.notes)
        config = config if best else {}
    columns = columns_of(stream, taken, tables, "json", config)
    return replace(columns, events=events, unnamed=True) if events else columns


def _has_a_loss(chunks: list[Rows]) -> bool:
    return "loss" in assign(chain.from_iterable(chunk.names for chunk in chunks)).columns


def _widen(records: list[Rows], listed: Rows) -> None:
    """Give records what stands beside them: lists with a number for each."""
    known = set(chain.from_iterable(chunk.names for chunk in records))
    for name in listed.names:
        whole = listed.piece(name)
        if whole is None or whole.words or name in known:
            continue
        start = 0
        for chunk in records:
            which = slice(start, start + chunk.rows)
            part = Piece(values=whole.values[which], states=whole.states[which])
            chunk.parts[name] = [(None, part)]
            start += chunk.rows


def columns_of(
    stream: Stream,
    chunks: list[Rows],
    tables: Tables,
    format: str,
    config: Mapping[str, object],
) -> Columns:
    """Return the columns that some records of a document make."""
    rows = _count(chunks)
    if not rows:
        raise NoUsableRecord(f"{stream.name}: {_why_nothing(tables)}")
    columns = Columns(
        source=stream.name,
        format=format,
        names=tuple(dict.fromkeys(chain.from_iterable(chunk.names for chunk in chunks))),
        rows=rows,
        load=lambda name: join(chunks, name),
        bad_lines=tuple(tables.bad[:_SHOWN]),
        bad_count=len(tables.bad),
        notes=tuple(stream.notes),
        config=config,
        tells_null=True,
    )
    return with_config(columns)


def _why_nothing(tables: Tables) -> str:
    """Return why a document holds no record."""
    empty = [path for path, pieces in tables.columns.items() if not pieces]
    if empty and not tables.bad:
        names = ", ".join(repr("/".join(path)) for path in empty[:_NAMED] if path)
        return (
            f"no record could be read: nothing was logged yet, no value is in {names or 'its list'}"
        )
    why = f" (line {tables.bad[0].line}: {tables.bad[0].reason})" if tables.bad else ""
    if not all(tables.records.values()) and not why:
        why = " (its lists of lists are no pairs that begin with a step)"
    return (
        f"no record could be read{why}; expected a JSON list of records, such as"
        ' [{"step": 1, "loss": 2.5}, …], or lists of values by name'
    )


def _count(chunks: list[Rows]) -> int:
    return sum(chunk.rows for chunk in chunks)


def _note_others(tables: Tables, taken: Path, notes: list[str]) -> None:
    others = ["/".join(path) for path in tables.records if path != taken]
    if others:
        notes.append(f"other lists of records are left out: {', '.join(others[:3])}")


def _side_by_side(tables: Tables, notes: list[str]) -> Rows:
    """Return the longest lists as columns; one that breaks off fills the first of the rows."""
    lengths = {path: sum(len(p.values) for p in ps) for path, ps in tables.columns.items()}
    rows = max(lengths.values(), default=0)
    chunk = Rows(rows=rows)
    last = next(reversed(lengths), None) if tables.bad else None
    for path, length in lengths.items():
        name = "/".join(path)
        if length == rows or path == last:
            whole = stretched(tables.columns[path])
            chunk.parts[name] = [(np.arange(length), whole)]
        else:
            notes.append(f"{name!r} is left out: it has {length} values where others have {rows}")
    return chunk


def _indexed(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Return the values that stand under whole numbers: {"loss": {"0": 2.5, "1": 2.4}, …}.

    Megatron's own tests keep a run so, as {"lm loss": {"start_step": 1, …, "values": {…}}}, with a
    list for the values in their older form; a NaN there says that nothing was measured.
    """
    found = {
        path: (np.array(keys, dtype=np.int64), piece_of(values))
        for path, (keys, values) in tables.indexed.items()
    }
    for path in [*tables.columns, *tables.indexed]:
        start = tables.values.get((*path[:-1], "start_step"))
        stride = tables.values.get((*path[:-1], "step_interval"))
        if not isinstance(start, float) or not isinstance(stride, float):
            continue
        steps, piece = found.pop(path, (None, stretched(tables.columns.get(path, []))))
        if steps is None:
            steps = (start + stride * np.arange(len(piece.values))).astype(np.int64)
        found[path[:-1]] = (steps, _unmeasured(piece))
    return found


def _beside_steps(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Take out the lists of values that have lists of their steps beside them.

    Sacred keeps a run so, as {"loss": {"steps": […], "timestamps": […], "values": […]}, …}.
    """
    found: dict[Path, tuple[Ints, Piece]] = {}
    for path in [path[:-1] for path in tables.columns if path[-1:] == ("values",)]:
        if (*path, "steps") not in tables.columns:
            continue
        values, steps, _ = (
            stretched(tables.columns.pop((*path, name), []))
            for name in ("values", "steps", "timestamps")
        )
        count = min(len(values.values), len(steps.values))
        whole = (steps.states[:count] == NUMBER) & (np.abs(steps.values[:count]) < _LARGEST)
        if whole.all() and not values.words:
            kept = Piece(values=values.values[:count], states=values.states[:count])
            found[path] = (steps.values[:count].astype(np.int64), kept)
    return found


def _unmeasured(piece: Piece) -> Piece:
    nothing = np.isnan(piece.values) & (piece.states == NUMBER)
    states = np.where(nothing, NULL, piece.states).astype(np.uint8)
    return Piece(values=piece.values, states=states, words=piece.words)


def _by_step(indexed: dict[Path, tuple[Ints, Piece]]) -> Rows:
    if not indexed:
        return Rows(rows=0)
    steps = np.unique(np.concatenate([keys for keys, _ in indexed.values()]))
    chunk = Rows(rows=len(steps))
    for path, (keys, piece) in indexed.items():
        chunk.parts["/".join(path)] = [(np.searchsorted(steps, keys), piece)]
    if "step" not in chunk.parts:
        states = np.full(len(steps), NUMBER, dtype=np.uint8)
        chunk.parts["step"] = [(None, Piece(values=steps.astype(np.float64), states=states))]
    return chunk
