"""Long tables: a record for each measurement, with its name and its value in two columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.assemble.renamed import joined
from stabdiag.assemble.splits import only
from stabdiag.errors import NoUsableRecord
from stabdiag.model.arrays import Floats
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import names_measurements, normal
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.columns import Column, Columns

# The columns of a long table that have the values of its measurements.
_MEASUREMENT_VALUES = ("value", "metric_value")


def with_measurements(named: NamedColumns) -> NamedColumns:
    """Make a column for each measurement of a long table.

    ``step,metric,value`` with the metrics loss and accuracy becomes the columns ``loss`` and
    ``accuracy``. A table without a loss measurement is left unchanged.

    Raises:
        NoUsableRecord: if all measurements are scores.
    """
    columns, names = named.columns, named.names
    value = names.get("loss")
    if value is None:
        return named
    if normal(value) not in _MEASUREMENT_VALUES:
        return _with_later_measurements(named, value)
    candidates = [name for name in columns.names if names_measurements(name)]
    _refuse_scores(columns, candidates, value)
    name = next((name for name in candidates if "loss" in _roles(columns.load(name))), None)
    if name is None:
        return named
    metric, values = columns.load(name), columns.load(value)
    counter = names.get("step") or names.get("epoch")
    if counter and _is_filled(metric, values, columns.load(counter).values):
        values = replace(values, null=np.zeros_like(values.null))
    made = {
        word: only(values, metric.present & (metric.values == code))
        for code, word in enumerate(metric.words)
    }
    others = {role: column for role, column in names.items() if column not in (value, name)}
    note = f"each record contains one measurement, named by {name!r}"
    return named.adding(made).take({**_roles(metric), **others}, note)


def _refuse_scores(columns: Columns, candidates: Sequence[str], value: str) -> None:
    """Raise an error if all values are scores by their names in another column."""
    for name in candidates:
        words = columns.load(name).words
        has_loss = "loss" in _roles(columns.load(name)) if words else False
        if not has_loss and any(score_direction(word) is not None for word in words):
            raise NoUsableRecord(
                f"{columns.source}: {value!r} has scores, which {name!r} names, and no losses; pass"
                " the log of the training"
            )


def _with_later_measurements(named: NamedColumns, loss: str) -> NamedColumns:
    """Continue the columns of a log that became a long table in mid-run."""
    columns, names = named.columns, named.names
    name = next((name for name in columns.names if names_measurements(name)), None)
    value = next((name for name in columns.names if normal(name) in _MEASUREMENT_VALUES), None)
    if name is None or value is None:
        return named
    metric, values = columns.load(name), columns.load(value)
    roles = _roles(metric)
    measured = np.flatnonzero(metric.present & values.present)
    rows = np.flatnonzero(columns.load(loss).present)
    if "loss" not in roles or not len(rows) or len(measured) < MIN_RECORDS:
        return named
    if measured[0] <= rows[-1]:
        return named
    made: dict[str, Column] = {}
    for role, word in roles.items():
        own = only(values, metric.present & (metric.values == metric.words.index(word)))
        before = columns.load(names[role]) if role in names else None
        made[names.get(role, word)] = own if before is None else joined(before, own)
    note = f"from record {measured[0] + 1} on, each contains one measurement, named by {name!r}"
    return named.adding(made).take({**roles, **names}, note)


def _is_filled(metric: Column, values: Column, steps: Floats) -> bool:
    """Return True if blanks fill the gaps of other measurements, at steps that have a loss.

    This is the case in a long table made from a wide one, where a blank means nothing.
    """
    of_loss = metric.present & (metric.values == metric.words.index(_roles(metric)["loss"]))
    others = steps[metric.present & ~of_loss & values.null]
    return bool(np.isin(others, steps[of_loss & values.present]).any())


def _roles(metric: Column) -> Mapping[str, str]:
    """Return the measurements named in a text column, by role."""
    return assign(metric.words).columns if metric.is_text else {}
