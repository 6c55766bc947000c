"""The step of each record: from the step column, the epoch, or the record's own number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.model.roles import normal
from stabdiag.model.text import plural
from stabdiag.readers.columns import EXACT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.readers.columns import Column, Columns

_EPOCHS = frozenset({"epoca", "epocas", "epoche", "epoque", "epoques"})

# An epoch serves where it changes with nearly every record, and starts again no more often than
# this: what starts again more often counts within something else.
_CHANGES = 0.9
_MOST_STARTS = 20

# So many epochs again and again are those of a worker between two rounds.
_LOCAL_EPOCHS = 5
_ROUNDS = frozenset({"round", "rounds", "communication_round", "cycle"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The step of each record (int64, shape (rows,)), which records have one, and what was decided.

    ``of_epochs`` says that they count the epochs of the run, or its rounds.
    """

    steps: Ints
    usable: Mask
    events: tuple[Event, ...] = ()
    of_epochs: bool = False


def read_steps(columns: Columns, names: Mapping[str, str]) -> Steps:
    """Return the step of each record."""
    tried: list[Event] = []
    for role in ("step", "epoch"):
        if role not in names:
            continue
        column = columns.load(names[role])
        # NaN and ±inf are no steps.
        good = column.present & (np.abs(column.values) < EXACT)
        logged = column.values if good.all() else column.values[good]
        if column.is_text or not len(logged):
            reason = "holds no numbers"
        elif not np.array_equal(logged, np.floor(logged)):
            reason = "is not in whole numbers"
        elif role == "epoch" and not _serves(logged, columns, names[role]):
            continue
        else:
            return _from_column(columns, column, good, role, names[role], tried)
        tried.append(_note(f"the step column {names[role]!r} {reason}"))
    numbered = "no step was logged: the record's number serves as the step"
    tried.append(_note(numbered, EventCode.NUMBERED))
    return Steps(
        steps=np.arange(columns.rows), usable=np.ones(columns.rows, bool), events=tuple(tried)
    )


def _serves(values: Floats, columns: Columns, name: str) -> bool:
    """Tell whether nearly every record has an epoch of its own, in each of the runs there are."""
    if len(np.unique(values)) >= _CHANGES * len(values):
        return True
    if any(normal(other) in _ROUNDS for other in columns.names if other != name):
        return False
    moves = np.diff(values)
    starts = np.flatnonzero(moves < 0) + 1
    if np.mean(moves != 0) < _CHANGES or len(starts) > _MOST_STARTS:
        return False
    lengths = np.diff(starts, prepend=0)
    return len(lengths) < 2 or len(set(lengths.tolist())) > 1 or lengths[0] > _LOCAL_EPOCHS


def _from_column(
    columns: Columns,
    column: Column,
    good: Mask,
    role: str,
    name: str,
    tried: list[Event],
) -> Steps:
    if role == "epoch":
        # In another language it is said what it counts.
        what = f"{name!r} (the epoch)" if normal(name) in _EPOCHS else repr(name)
        told = f"no step was logged: {what} serves as the step"
        tried.append(_note(told, EventCode.EPOCHS_AS_STEPS))
    lost = columns.rows - int(good.sum())
    if lost:
        have, are = plural(lost, "record has", "records have"), "are" if lost > 1 else "is"
        tried.append(_note(f"{have} no usable step in {name!r} and {are} left out"))
    values = np.where(good, column.values, 0) if lost else column.values
    steps = values.astype(np.int64)
    return Steps(steps=steps, usable=good, events=tuple(tried), of_epochs=role == "epoch")


def _note(message: str, code: EventCode | None = None) -> Event:
    return Event(kind=EventKind.STEPS, message=message, code=code)
