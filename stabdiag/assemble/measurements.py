"""Long tables: a record for each measurement, with its name and its value in two columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stabdiag.assemble.extra_series import SECOND_LOSSES
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
    counter = names.get("step") or names.get("epoch")
    if counter is not None and _lists_one_by_one(columns, name, counter):
        columns = _by_step(columns, counter)
        named = replace(named, columns=columns)
    metric, values = columns.load(name), columns.load(value)
    made = {
        word: only(values, metric.present & (metric.values == code))
        for code, word in enumerate(metric.words)
    }
    if counter and _is_filled(metric, values, columns.load(counter).values):
        known = {word for role, word in _roles(metric).items() if role not in SECOND_LOSSES}
        made = {
            word: column
            if word not in known and _ends_in_blanks(column)
            else replace(column, null=np.zeros_like(column.null))
            for word, column in made.items()
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


def _lists_one_by_one(columns: Columns, name: str, counter: str) -> bool:
    """Return True if all records of a measurement, in order, are above those of the next."""
    metric, steps = columns.load(name), columns.load(counter)
    if steps.is_text or not (metric.present & steps.present).all() or columns.left_out:
        return False
    begins = np.flatnonzero(np.diff(metric.values)) + 1
    blocks = np.split(steps.values, begins)
    return len(metric.words) == len(blocks) > 1 and all(map(_rises, blocks))


def _rises(steps: Floats) -> bool:
    return bool((np.diff(steps) >= 0).all())


def _by_step(columns: Columns, counter: str) -> Columns:
    """Return columns whose records are in the order of their steps."""
    order = np.argsort(columns.load(counter).values, kind="stable")
    places = np.argsort(order)

    def ordered(_: str, column: Column) -> Column:
        return replace(
            column,
            values=column.values[order],
            present=column.present[order],
            null=column.null[order],
            stray_rows=np.sort(places[column.stray_rows]),
        )

    return columns.with_changed(ordered)


def _ends_in_blanks(column: Column) -> bool:
    """Return True if the last values of a measurement are blank, and only these."""
    blanks, numbers = np.flatnonzero(column.null), np.flatnonzero(column.present)
    return len(blanks) >= MIN_RECORDS <= len(numbers) and bool(blanks[0] > numbers[-1])


def _roles(metric: Column) -> Mapping[str, str]:
    """Return the measurements named in a text column, by role."""
    return assign(metric.words).columns if metric.is_text else {}
