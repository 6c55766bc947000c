"""The columns of all roles, without placeholders and impossible values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS, shown_name, without_fill, without_gaps
from stabdiag.errors import ColumnError
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.history import LARGEST_READ
from stabdiag.model.roles.names import name_words, parse_factor
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns

# Values that some frameworks write on every line for "not measured"; in one or two records they may
# be measurements.
_PLACEHOLDERS = {"loss_scale": (-1.0, 0.0), "grad_norm": (0.0, -1.0)}

# gbm in R writes NaN for it without a validation set.
_OF_NO_SET = ("ValidDeviance",)

# The recorder may write a fact in a single record.
_RECORDED = "recorder/"

# In a log of this many records, a group with a single value is not used.
_MANY_RECORDS = 100


def load_usable(
    columns: Columns, names: Mapping[str, str], *, of_epochs: bool
) -> tuple[dict[str, Column], list[Event]]:
    """Load the columns of all roles except the step, without placeholders and words.

    ``of_epochs`` means that the epoch is used as the step.
    """
    data: dict[str, Column] = {}
    events: list[Event] = []
    # If steps are skipped, a loss scale of 0 is real: the scale has collapsed.
    skips = "skipped" in names and bool(columns.load(names["skipped"]).logged.any())
    for role, name in names.items():
        # The step column is not a series.
        if role == "step" or (role == "epoch" and of_epochs):
            continue
        column = columns.load(name)
        if parse_factor(name) != 1:
            column = replace(column, values=column.values * parse_factor(name))
        is_group = "/" in role and not role.startswith(_RECORDED)
        if is_group and columns.rows >= _MANY_RECORDS and np.count_nonzero(column.present) < 2:
            continue  # single points of a long log are useless, and thousands of them take memory
        unusable = _unusable(columns.source, role, name, column, skips=skips)
        if unusable is not None:
            events.append(unusable)
            continue
        data[role], huge = _bounded(column) if role != "batch_id" else (column, 0)
        events += _about_entries(name, column.strays, huge)
    data, gaps = without_gaps(data)
    if "eval_loss" in data and not data["eval_loss"].is_text:
        data["eval_loss"] = without_fill(data["eval_loss"])
    return data, events + gaps


def _unusable(source: str, role: str, name: str, column: Column, *, skips: bool) -> Event | None:
    """Return an event if a column contains no measurements, else None.

    Raises:
        ColumnError: if the loss contains words.
    """
    if column.is_text and role != "batch_id":
        expected = "numbers or times" if role == "clock" else "numbers"
        message = f"{shown_name(name)!r} contains words instead of {expected}: not used as {role}"
        if role == "loss":
            raise ColumnError(f"{source}: {message}; name another with --column loss=NAME")
        return Event(kind=EventKind.COLUMN, message=message)
    if role == "loss_scale" and _is_another_scale(name, column):
        message = f"{name!r} begins below 1, unlike a loss scale: not used as {role}"
        return Event(kind=EventKind.COLUMN, message=message)
    if role == "eval_loss" and name in _OF_NO_SET and not np.isfinite(column.logged).any():
        message = f"{name!r} is NaN in every record: there was no validation set"
        return Event(kind=EventKind.COLUMN, message=message)
    placeholder = _placeholder(role, column)
    if placeholder is None or (role == "loss_scale" and placeholder == 0 and skips):
        return None
    return Event(
        kind=EventKind.PLACEHOLDER,
        code=EventCode.PLACEHOLDER_DROPPED,
        message=f"{name!r} is {placeholder:g} in every record, a placeholder: not used as {role}",
        role=role,
        value=placeholder,
    )


def _is_another_scale(name: str, column: Column) -> bool:
    """Return True for a scale of something else, as of the steps of a line search in NGBoost."""
    return name_words(name) == ("scale",) and len(column.logged) > 0 and 0 < column.logged[0] < 1


def _placeholder(role: str, column: Column) -> float | None:
    placeholders = _PLACEHOLDERS.get(role.partition("/")[0])
    if placeholders is None or np.count_nonzero(column.present) < MIN_RECORDS:
        return None
    first = float(column.values[np.argmax(column.present)])
    return first if first in placeholders and (column.logged == first).all() else None


def _about_entries(name: str, strays: int, huge: int) -> Iterator[Event]:
    """Report the entries of a column that are not numbers or impossibly large."""
    if strays:
        message = f"{plural(strays, 'word')} among the numbers of {name!r} left out"
        yield Event(kind=EventKind.COLUMN, message=message)
    if huge:
        values = plural(huge, "value is read", "values are read")
        message = f"{values} as ±{LARGEST_READ:g}: impossibly large, but finite, in {name!r}"
        yield Event(kind=EventKind.COLUMN, message=message)


def _bounded(column: Column) -> tuple[Column, int]:
    """Return the column with impossibly large numbers clipped, and their count."""
    values = column.values
    highest, lowest = np.fmax.reduce(values, initial=0.0), np.fmin.reduce(values, initial=0.0)
    if max(highest, -lowest) <= LARGEST_READ:
        return column, 0
    huge = column.present & (np.abs(values) > LARGEST_READ) & np.isfinite(values)
    bounded = np.where(huge, np.copysign(LARGEST_READ, values), values)
    return replace(column, values=bounded), int(huge.sum())
