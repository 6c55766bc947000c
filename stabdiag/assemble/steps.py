"""The step of each record: from the step column, the epoch, or the record's own number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.history import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stabdiag.readers.columns import Column, Columns

_LARGEST = 2.0**53


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Steps, int64 of shape (rows,), the records that have one, and what had to be decided."""

    steps: NDArray[np.int64]
    usable: NDArray[np.bool_]
    events: tuple[Event, ...] = ()


def read_steps(columns: Columns, names: Mapping[str, str]) -> Steps:
    """Return the step of each record."""
    tried: list[Event] = []
    for role in ("step", "epoch"):
        if role not in names:
            continue
        column = columns.load(names[role])
        # NaN and ±inf are no steps.
        good = column.present & (column.values < _LARGEST) & (column.values > -_LARGEST)
        logged = column.values if good.all() else column.values[good]
        if column.is_text or not len(logged):
            reason = "holds no numbers"
        elif not np.array_equal(logged, np.floor(logged)):
            reason = "is not in whole numbers"
        elif role == "epoch" and not _one_record_each(logged):
            continue
        else:
            return _from_column(columns, column, good, role, names[role], tried)
        tried.append(_note(f"the step column {names[role]!r} {reason}"))
    tried.append(_note("no step was logged: the record's number serves as the step"))
    return Steps(
        steps=np.arange(columns.rows), usable=np.ones(columns.rows, bool), events=tuple(tried)
    )


def _one_record_each(values: NDArray[np.float64]) -> bool:
    return len(np.unique(values)) >= 0.9 * len(values)


def _from_column(
    columns: Columns,
    column: Column,
    good: NDArray[np.bool_],
    role: str,
    name: str,
    tried: list[Event],
) -> Steps:
    if role == "epoch":
        tried.append(_note(f"no step was logged: {name!r} serves as the step"))
    lost = columns.rows - int(good.sum())
    if lost:
        have, are = ("records have", "are") if lost > 1 else ("record has", "is")
        tried.append(_note(f"{lost} {have} no usable step in {name!r} and {are} left out"))
    values = np.where(good, column.values, 0) if lost else column.values
    steps = values.astype(np.int64)
    return Steps(steps=steps, usable=good, events=tuple(tried))


def _note(message: str) -> Event:
    return Event(kind=EventKind.STEPS, message=message)
