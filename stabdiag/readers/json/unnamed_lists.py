"""Give the lists of a JSON document that have no names, or no measure in them, likely names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stabdiag.model.events import Event, EventKind
from stabdiag.model.roles.names import NameParts, find_split
from stabdiag.readers.csv.headerless import name_table
from stabdiag.readers.csv.table_shape import TableShape
from stabdiag.readers.json.keyed import Path
from stabdiag.readers.json.tables import Tables
from stabdiag.readers.pieces import make_piece
from stabdiag.readers.unnamed import (
    is_named_score,
    is_of_losses,
    may_be_losses,
    name_of_values,
    naming_event,
)
from stabdiag.readers.words import NUMBER

# Names of lists that may accompany losses.
_COMPANION_LISTS: Final = frozenset(
    {
        *("step", "steps", "iter", "iters", "iteration", "iterations", "epoch", "epochs"),
        *("lr", "learning_rate", "time", "times"),
    }
)


def name_lists(tables: Tables, source: str) -> tuple[Event, ...]:
    """Give unnamed lists their most likely names, and return events about it."""
    return (*_bare(tables, source), *_halves(tables, source), *_unnamed_rows(tables, source))


def _bare(tables: Tables, source: str) -> tuple[Event, ...]:
    path: Path = (name_of_values(source),)
    if () in tables.indexed:
        tables.indexed[path] = tables.indexed.pop(())
        description = "a list of pairs: the first of each is taken as the step, the second"
    elif _is_series(tables, (), is_score=is_named_score(source)):
        tables.columns[path] = tables.columns.pop(())
        description = "a list of numbers without a name is taken"
    else:
        return ()
    return (naming_event(description, path[0]),)


def _halves(tables: Tables, source: str) -> tuple[Event, ...]:
    """Name the losses of the training data and of the held-out data."""
    paths = [*tables.columns, *tables.indexed]
    by_split = {find_split(path[-1]): path for path in reversed(paths) if path}
    train = by_split.get(NameParts.TRAINING)
    halves = [path for path in paths if path and find_split(path[-1])]
    companions = [path for path in paths if path and path[-1] in _COMPANION_LISTS]
    if (
        train is None
        or len(halves) + len(companions) < len(paths)
        or any(len(path) > 1 for path in halves)
        or not is_of_losses(source)
        or not all(_is_series(tables, path) for path in halves)
    ):
        return ()
    _call_loss(tables, train)
    note = f"{train[0]!r} is taken as the loss"
    heldout = by_split.get(NameParts.VALIDATION, by_split.get(NameParts.TEST))
    if heldout is not None:
        _call_loss(tables, heldout)
        note += f", {heldout[0]!r} as the evaluation loss"
    message = f"{note}: the document has no other lists of numbers"
    return (Event(kind=EventKind.COLUMN, message=message),)


def _call_loss(tables: Tables, path: Path) -> None:
    """Name a list as a loss. Its own name remains, for users who select it."""
    if path in tables.columns:
        tables.columns["loss", *path] = tables.columns[path]
    else:
        tables.indexed["loss", *path] = tables.indexed[path]


def _is_series(tables: Tables, path: Path, *, is_score: bool = False) -> bool:
    """Return True if a list has only numbers that could be losses, or the values of a score."""
    values = tables.indexed[path][1] if path in tables.indexed else tables.columns.get(path, [])
    piece = make_piece(values)
    numbers: list[float] = piece.values[piece.states == NUMBER].tolist()
    return bool(numbers) and not piece.words and (is_score or may_be_losses(numbers))


def _unnamed_rows(tables: Tables, source: str) -> Iterator[Event]:
    """Name the numbers of rows like CSV without a header, by the key above or the file."""
    for path, rows in tables.rows.items():
        cells = [[_cell(value) for value in row] for row in rows]
        if not cells[0] or "" in {cell for row in cells for cell in row}:
            continue
        table = TableShape(delimiter="", commas=False, rows=cells, above=0)
        named = name_table(table, path[-1] if path else source)
        if named is None or named.is_unknown or len({*map(len, rows)}) > 1:
            continue
        # Without a count, each of a few lists may be the course of a run instead.
        if "step" in named.names or len(rows) >= 2 * len(named.names):
            tables.records[path] = [dict(zip(named.names, row, strict=True)) for row in rows]
            yield named.event


def _cell(value: object) -> str:
    """Return a number as the text of a cell, or "" for other values."""
    return repr(value) if isinstance(value, float) else ""
