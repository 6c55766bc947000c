"""The columns of all roles, without placeholders and other values that were not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.fillers import without_fillers, without_waits
from stabdiag.errors import ColumnError
from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.readers.columns import Column, Columns

# Values that some frameworks write on every line for "not measured"; one record or two that say so
# may have measured it.
_PLACEHOLDERS = {"loss_scale": (-1.0, 0.0), "grad_norm": (0.0, -1.0)}
_FEWEST = 3

# No dtype that networks are trained in but fp64 holds more than 3.4e38: a number beyond this is an
# infinity in all but name, and its square would be one.
_LARGEST = 1e100


def load(columns: Columns, names: Mapping[str, str]) -> tuple[dict[str, Column], list[Event]]:
    """Load the column of every role but the step, and drop what is no measurement."""
    data: dict[str, Column] = {}
    events: list[Event] = []
    for role, name in names.items():
        # What serves as the step is no series beside it.
        if role == "step" or (role == "epoch" and "step" not in names):
            continue
        column = columns.load(name)
        no_measurement = _no_measurement(columns.source, role, name, column)
        if no_measurement is not None:
            events.append(no_measurement)
            continue
        data[role], huge = _bounded(column) if role != "batch_id" else (column, 0)
        events += _about_entries(name, column.strays, huge)
    data, fillers = without_fillers(data)
    if "eval_loss" in data and not data["eval_loss"].is_text:
        data["eval_loss"] = without_waits(data["eval_loss"])
    return data, events + fillers


def _no_measurement(source: str, role: str, name: str, column: Column) -> Event | None:
    """Tell why a column measures nothing, or None if it does.

    Raises:
        ColumnError: if it is the loss that holds words.
    """
    if column.is_text and role != "batch_id":
        what = "neither numbers nor times" if role == "clock" else "no numbers"
        message = f"{name!r} holds words, {what}: it is not used as {role}"
        if role == "loss":
            raise ColumnError(f"{source}: {message}; name another with --column loss=NAME")
        return Event(kind=EventKind.COLUMN, message=message)
    placeholder = _placeholder(role, column)
    if placeholder is not None:
        message = (
            f"{name!r} is {placeholder:g} in every record, a placeholder: it is not used as {role}"
        )
        return Event(
            kind=EventKind.PLACEHOLDER,
            code=EventCode.PLACEHOLDER_DROPPED,
            message=message,
            role=role,
            value=placeholder,
        )
    return None


def _about_entries(name: str, strays: int, huge: int) -> Iterator[Event]:
    """Tell of a column's entries that are no numbers, or none that a training has."""
    if strays:
        message = f"{plural(strays, 'word')} among the numbers of {name!r} left out"
        yield Event(kind=EventKind.COLUMN, message=message)
    if huge:
        lie, count = ("lies", "it counts") if huge == 1 else ("lie", "they count")
        values = f"{plural(huge, 'value')} of {name!r}"
        message = f"{values} {lie} beyond ±{_LARGEST:g}: {count} as infinite"
        yield Event(kind=EventKind.COLUMN, message=message)


def _bounded(column: Column) -> tuple[Column, int]:
    """Return the column with numbers that no training holds as infinities, and their count."""
    values = column.values
    highest, lowest = np.fmax.reduce(values, initial=0.0), np.fmin.reduce(values, initial=0.0)
    if max(highest, -lowest) <= _LARGEST:
        return column, 0
    huge = column.present & (np.abs(values) > _LARGEST) & np.isfinite(values)
    infinite = np.where(huge, np.copysign(np.inf, values), values)
    return replace(column, values=infinite), int(huge.sum())


def _placeholder(role: str, column: Column) -> float | None:
    known = _PLACEHOLDERS.get(role.partition("/")[0])
    if known is None or int(column.present.sum()) < _FEWEST:
        return None
    first = float(column.values[np.argmax(column.present)])
    if first in known and (column.logged == first).all():
        return first
    return None
