"""What a JSON document holds: tables and single values, each by its path of keys.

Its lists become one table, side by side or by steps; those without names get the likeliest ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Ints
from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import Split, is_setting, split_of
from stabdiag.model.text import clipped
from stabdiag.readers.columns import (
    EXACT,
    INDEX,
    BadLine,
    Piece,
    Rows,
    piece_of,
    piece_of_numbers,
    rows_of,
)
from stabdiag.readers.json.keyed import (
    Path,
    has_a_loss,
    join_keyed,
    lists_of,
    steps_of,
    take_keyed,
    told_apart,
)
from stabdiag.readers.json.tolerant import DEEPEST, Documents
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.source import Stream
from stabdiag.readers.unnamed import (
    A_TIME,
    FEWEST,
    is_of_losses,
    may_be_losses,
    may_be_steps,
    name_of_values,
    taken_as,
)
from stabdiag.readers.words import NULL, NUMBER

_POINT: Final = ("wall_time", "step", "value")
_PAIR: Final = 2

_INDEX: Final = re.compile(r"\d{1,15}", re.ASCII)


@dataclass(kw_only=True, eq=False)
class Tables:
    """The tables of a document, each under the keys that lead to it.

    ``records`` are lists of objects, ``columns`` lists of plain values, ``indexed`` objects whose
    keys are whole numbers, and lists of pairs that begin with a step (with those first), ``values``
    all else. ``counter`` is what the keys of ``indexed`` count, ``bad`` says where the document
    could not be read.
    """

    records: dict[Path, list[Record]] = field(default_factory=dict)
    columns: dict[Path, list[object]] = field(default_factory=dict)
    indexed: dict[Path, tuple[list[int], list[object]]] = field(default_factory=dict)
    values: dict[Path, object] = field(default_factory=dict)
    counter: str = "step"
    bad: list[BadLine] = field(default_factory=list)
    is_cut: bool = False


def read_tables(stream: Stream) -> Tables:
    """Read documents, mostly one, up to where they break off."""
    documents = Documents(stream.read_all().decode("utf-8-sig", "replace"))
    tables = Tables(bad=documents.bad(), is_cut=documents.is_cut)
    bare: list[Record] = []
    for value in documents.values:
        single: dict[Path, object] = {}
        _walk(value, (), tables, single)
        bare.append({"/".join(path): one for path, one in single.items() if path})
        tables.values.update(single)
    join_keyed(tables.columns, lambda lists: has_a_loss(map("/".join, filter(None, lists))))
    join_keyed(tables.records, lambda lists: any(map(_hold_a_loss, lists.values())))
    tables.columns = told_apart(tables.columns)
    if len(bare) == 1 and not tables.indexed:
        tables.indexed, tables.counter = take_keyed(tables.values)
    if not (tables.records or tables.columns or tables.indexed) and any(bare):
        # Objects one after the other, each over several lines: every one is a record.
        tables.records[()] = [record for record in bare if record]
    return tables


def _hold_a_loss(records: list[Record]) -> bool:
    return has_a_loss(flattened(records)[1])


def _walk(value: object, path: Path, tables: Tables, single: dict[Path, object]) -> None:
    """Keep the tables that lie in a value."""
    if isinstance(value, dict) and len(path) < DEEPEST:
        for key, one in value.items():
            if _INDEX.fullmatch(key) and not isinstance(one, dict | list):
                keys, values = tables.indexed.setdefault(path, ([], []))
                values.append(one)
                keys.append(int(key))
            else:
                _walk(one, (*path, key), tables, single)
    elif not isinstance(value, list) or len(path) == DEEPEST:
        single[path] = value
    elif value and isinstance(value[0], dict):
        _take_records(value, path, tables)
    elif value and isinstance(value[0], list):
        _take_points([one for one in value if isinstance(one, list)], path, tables)
    else:
        tables.columns[path] = value


def _take_points(lists: list[list[object]], path: Path, tables: Tables) -> None:
    """Take a list of lists: rows below names, pairs that begin with a step, or points.

    pandas writes {"columns": […], "index": […], "data": [[…], …]}, others their names as the first
    row, and TensorBoard downloads a chart as [[time, step, value], …].
    """
    names = _names_above(path, tables)
    if not names and (names := _header(lists)):
        del lists[0]
    names = names or _POINT
    rows = [dict(zip(names, one, strict=True)) for one in lists if len(one) == len(names)]
    pairs = [one for one in lists if len(one) == _PAIR]
    steps = [step for step, _ in pairs if isinstance(step, float)]
    records = tables.records.setdefault(path, [])
    if rows and (names is not _POINT or all(map(_is_point, rows))):
        records += rows
    elif len(pairs) == len(steps) >= FEWEST and may_be_steps(steps):
        tables.indexed[path] = (list(map(int, steps)), [value for _, value in pairs])


def _names_above(path: Path, tables: Tables) -> Sequence[str]:
    """Take the names of the columns for rows at a path, as pandas writes them above these."""
    above = (*path[:-1], "columns")
    found = tables.columns.get(above, []) if path[-1:] == ("data",) else []
    names = [one for one in found if isinstance(one, str)]
    if not names or len(names) < len(found):
        return ()
    del tables.columns[above]
    return names


def _header(lists: Sequence[list[object]]) -> Sequence[str]:
    """Return the names of columns that the first of the lists holds."""
    first = [one for one in lists[0] if isinstance(one, str)] if lists else []
    return first if len(first) > 1 and len(first) == len(lists[0]) else ()


def _is_point(row: Record) -> bool:
    time, step = row["wall_time"], row["step"]
    return isinstance(time, float) and time >= A_TIME and isinstance(step, float) and step % 1 == 0


def _take_records(found: list[object], path: Path, tables: Tables) -> None:
    """Take a list of objects."""
    records = [record for record in found if isinstance(record, dict)]
    records = steps_of(records) or records
    lists = lists_of(records)
    tables.columns |= {(*path, *name): values for name, values in lists.items()}
    tables.records.setdefault(path, []).extend(() if lists else records)


def chunk_of(records: list[Record]) -> Rows:
    """Return the chunk that records make, whatever they nest."""
    if any(type(value) is dict for record in records for value in record.values()):
        return rows_of(*flattened(records))
    return rows_of(records)


# A list that is at least this share of the longest is about as long.
_ABOUT: Final = 0.5

# How much of the name of a list is shown.
_SHOWN: Final = 60

# The names of lists of steps, and of the lists of values beside them.
_BESIDE: Final = (("steps", "values"), ("x", "y"))


def shown(path: Path) -> str:
    """Return the name of a list as it is shown."""
    return repr(clipped("/".join(path), _SHOWN))


def side_by_side(tables: Tables, notes: list[str]) -> Rows:
    """Return the longest lists as columns; one that breaks off fills the first rows only."""
    lengths = {path: len(values) for path, values in tables.columns.items()}
    # A list that breaks off says nothing of how long it was.
    rows = max(lengths.values(), default=0) if tables.bad else _usual(lengths)
    chunk = Rows(rows=rows)
    last = next(reversed(lengths), None) if tables.bad else None
    for path, length in lengths.items():
        name = "/".join(path)
        if length == rows or (path == last and length < rows):
            chunk.parts[name] = [(np.arange(length), piece_of(tables.columns[path]))]
        elif not is_setting(name):
            what = f"{shown(path)} is left out"
            notes.append(f"{what}: it has {length} values where others have {rows}")
    return chunk


def _usual(lengths: Mapping[Path, int]) -> int:
    """Return the length of the longest lists, or of those about as long that have the loss.

    An evaluation before the first step makes its list longer.
    """
    longest = max(lengths.values(), default=0)
    for length in sorted(set(lengths.values()), reverse=True):
        names = ["/".join(path) for path, one in lengths.items() if one == length]
        if length >= _ABOUT * longest and assign(names).has("loss"):
            return length
    return longest


def indexed(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Return the values under keys that are whole numbers: {"loss": {"0": 2.5, "1": 2.4}, …}.

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
        if not (isinstance(start, float) and isinstance(stride, float)):
            continue
        if not (abs(start) < EXACT and abs(stride) < EXACT):
            continue
        steps, piece = found.pop(path, (None, piece_of(tables.columns.get(path, []))))
        if steps is None:
            steps = _whole(start + stride * np.arange(len(piece.values)))
        if steps is not None:
            found[path[:-1]] = (steps, _unmeasured(piece))
    return found


def _whole(numbers: AnyArray) -> Ints | None:
    """Return steps as integers, or None where they are none."""
    if not (np.all(np.abs(numbers) < EXACT) and np.array_equal(numbers, np.floor(numbers))):
        return None
    return numbers.astype(np.int64)


def beside_steps(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Take out the lists of values that have lists of their steps beside them.

    Sacred keeps a run so, as {"loss": {"steps": […], "timestamps": […], "values": […]}, …}, and
    charts of Plotly, Visdom and others have x and y.
    """
    found: dict[Path, tuple[Ints, Piece]] = {}
    for of_steps, of_values in _BESIDE:
        for path in [path[:-1] for path in tables.columns if path[-1:] == (of_values,)]:
            if (*path, of_steps) not in tables.columns:
                continue
            values, at_steps = (tables.columns.pop((*path, one)) for one in (of_values, of_steps))
            tables.columns.pop((*path, "timestamps"), None)
            count = min(len(values), len(at_steps))
            steps, piece = piece_of(at_steps[:count]), piece_of(values[:count])
            at = _whole(steps.values) if (steps.states == NUMBER).all() else None
            if at is None or piece.words:
                tables.columns[path] = values
            else:
                found[path] = (at, piece)
    return found


def _unmeasured(piece: Piece) -> Piece:
    nothing = np.isnan(piece.values) & (piece.states == NUMBER)
    return replace(piece, states=np.where(nothing, NULL, piece.states).astype(np.uint8))


def by_step(found: dict[Path, tuple[Ints, Piece]], counter: str) -> Rows:
    """Return a record for each step, or for each of what else ``counter`` names."""
    if not found:
        return Rows(rows=0)
    steps = np.unique(np.concatenate([keys for keys, _ in found.values()]))
    chunk = Rows(rows=len(steps))
    for path, (keys, piece) in found.items():
        chunk.parts["/".join(path)] = [(np.searchsorted(steps, keys), piece)]
    # What pandas counts the rows by says less than a step of their own.
    counts_rows = np.array_equal(steps, np.arange(len(steps)))
    if counts_rows and assign(chunk.parts).has("step", "epoch"):
        counter = INDEX
    if counter not in chunk.parts:
        chunk.parts[counter] = [(None, piece_of_numbers(steps.astype(np.float64)))]
    return chunk


# Names of lists that may stand beside losses.
_MAY_STAND_BESIDE: Final = frozenset(
    {
        *("step", "steps", "iter", "iters", "iteration", "iterations", "epoch", "epochs"),
        *("lr", "learning_rate", "time", "times"),
    }
)


def named(tables: Tables, source: str) -> tuple[Event, ...]:
    """Give unnamed lists the name that they most likely have, and say so."""
    return (*_bare(tables, source), *_halves(tables, source))


def _bare(tables: Tables, source: str) -> tuple[Event, ...]:
    path: Path = (name_of_values(source),)
    if () in tables.indexed:
        tables.indexed[path] = tables.indexed.pop(())
        what = "a list of pairs: the first of each is taken as the step, the second"
    elif _is_series(tables, ()):
        tables.columns[path] = tables.columns.pop(())
        what = "a list of numbers without a name is taken"
    else:
        return ()
    return (taken_as(what, path[0]),)


def _halves(tables: Tables, source: str) -> tuple[Event, ...]:
    """Name the losses of the training data and of the held-back data."""
    paths = [*tables.columns, *tables.indexed]
    by_split = {split_of(path[-1]): path for path in reversed(paths) if path}
    train = by_split.get(Split.TRAINING)
    halves = [path for path in paths if path and split_of(path[-1])]
    beside = [path for path in paths if path and path[-1] in _MAY_STAND_BESIDE]
    if (
        train is None
        or len(halves) + len(beside) < len(paths)
        or any(len(path) > 1 for path in halves)
        or not is_of_losses(source)
        or not all(_is_series(tables, path) for path in halves)
    ):
        return ()
    _call_loss(tables, train)
    told = f"{train[0]!r} is taken as the loss"
    held_back = by_split.get(Split.VALIDATION, by_split.get(Split.TEST))
    # A list of another length will be left out.
    if held_back is not None and _length(tables, held_back) == _length(tables, train):
        _call_loss(tables, held_back)
        told += f", {held_back[0]!r} as that of an evaluation"
    message = f"{told}: the document has no other lists of numbers"
    return (Event(kind=EventKind.COLUMN, message=message),)


def _call_loss(tables: Tables, path: Path) -> None:
    """Name a list as a loss; it keeps its own name as well, for users who ask for that."""
    if path in tables.columns:
        tables.columns["loss", *path] = tables.columns[path]
    else:
        tables.indexed["loss", *path] = tables.indexed[path]


def _length(tables: Tables, path: Path) -> int:
    """Return how many values a list has; 0 for pairs, which may have steps of their own."""
    return len(tables.columns.get(path, []))


def _is_series(tables: Tables, path: Path) -> bool:
    """Return whether numbers lie there that could be losses, and nothing else."""
    found = tables.indexed[path][1] if path in tables.indexed else tables.columns.get(path, [])
    piece = piece_of(found)
    numbers: list[float] = piece.values[piece.states == NUMBER].tolist()
    return bool(numbers) and not piece.words and may_be_losses(numbers)
