"""The lists of a JSON document as one table: side by side, or by steps; those without names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Ints
from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import Split, split_of
from stabdiag.readers.columns import (
    EXACT,
    INDEX,
    Piece,
    Rows,
    piece_of,
    piece_of_numbers,
    stretched,
)
from stabdiag.readers.json.keyed import Path
from stabdiag.readers.json.tables import Tables
from stabdiag.readers.unnamed import is_of_losses, may_be_losses, name_of_values, taken_as
from stabdiag.readers.words import NULL, NUMBER

# A list that is at least this share of the longest is about as long.
_ABOUT: Final = 0.5

# The names of lists of steps, and of the lists of values beside them.
_BESIDE: Final = (("steps", "values"), ("x", "y"))


def side_by_side(tables: Tables, notes: list[str]) -> Rows:
    """Return the longest lists as columns; one that breaks off fills the first rows only."""
    lengths = {path: sum(len(p.values) for p in ps) for path, ps in tables.columns.items()}
    # A list that breaks off says nothing of how long it was.
    rows = max(lengths.values(), default=0) if tables.bad else _usual(lengths)
    chunk = Rows(rows=rows)
    last = next(reversed(lengths), None) if tables.bad else None
    for path, length in lengths.items():
        name = "/".join(path)
        if length == rows or (path == last and length < rows):
            whole = stretched(tables.columns[path])
            chunk.parts[name] = [(np.arange(length), whole)]
        else:
            notes.append(f"{name!r} is left out: it has {length} values where others have {rows}")
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
        if not isinstance(start, float) or not isinstance(stride, float):
            continue
        steps, piece = found.pop(path, (None, stretched(tables.columns.get(path, []))))
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
            values, steps, _ = (
                stretched(tables.columns.pop((*path, name), []))
                for name in (of_values, of_steps, "timestamps")
            )
            count = min(len(values.values), len(steps.values))
            told = (steps.states[:count] == NUMBER).all() and not values.words
            at = _whole(steps.values[:count]) if told else None
            if at is not None:
                kept = Piece(values=values.values[:count], states=values.states[:count])
                found[path] = (at, kept)
            else:
                tables.columns[path] = [values]
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
    return sum(len(piece.values) for piece in tables.columns.get(path, []))


def _is_series(tables: Tables, path: Path) -> bool:
    """Return whether numbers lie there that could be losses, and nothing else."""
    if path in tables.indexed:
        piece = piece_of(tables.indexed[path][1])
    else:
        piece = stretched(tables.columns.get(path, []))
    numbers: list[float] = piece.values[piece.states == NUMBER].tolist()
    return bool(numbers) and not piece.words and may_be_losses(numbers)
