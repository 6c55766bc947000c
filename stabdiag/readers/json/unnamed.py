"""Lists of a JSON document without names, or named only train and val: they may be losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles import Split, split_of
from stabdiag.readers.chunks import piece_of, stretched
from stabdiag.readers.unnamed import is_of_losses, may_be_losses, name_of_values, taken_as
from stabdiag.readers.words import NUMBER

if TYPE_CHECKING:
    from stabdiag.readers.json.keyed import Path
    from stabdiag.readers.json.tables import Tables

# Names of lists that may stand beside losses.
_BESIDE: Final = frozenset(
    {
        *("step", "steps", "iter", "iters", "iteration", "iterations", "epoch", "epochs"),
        *("lr", "learning_rate", "time", "times"),
    }
)


def named(tables: Tables, source: str) -> tuple[Event, ...]:
    """Give unnamed lists the name that they most likely have, and say so."""
    return (*_bare(tables, source), *_halves(tables, source))


def _bare(tables: Tables, source: str) -> tuple[Event, ...]:
    """Name the one list that is the document."""
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
    beside = [path for path in paths if path and path[-1] in _BESIDE]
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
