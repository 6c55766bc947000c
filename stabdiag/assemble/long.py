"""Long tables: a record for each measurement, its name in one column and its value in another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.roles import assign, names_measurements, normal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.columns import Column, Columns


def with_measurements(
    columns: Columns, names: Mapping[str, str]
) -> tuple[Columns, Mapping[str, str], tuple[str, ...]]:
    """Return the columns with one for each measurement of a long table, and the names by role.

    ``step,metric,value`` with the metrics loss and accuracy has the columns ``loss`` and
    ``accuracy``. A table none of whose measurements is a loss stays as it is.
    """
    value = names.get("loss")
    if value is None or normal(value) != "value":
        return columns, names, ()
    telling = (name for name in columns.names if names_measurements(name))
    name = next((one for one in telling if "loss" in _roles(columns.load(one))), None)
    if name is None:
        return columns, names, ()
    told, whole = columns.load(name), columns.load(value)
    roles = _roles(told)
    codes = {word: code for code, word in enumerate(told.words)}

    def load(one: str) -> Column:
        if one not in codes:
            return columns.load(one)
        here = told.present & (told.values == codes[one])
        return replace(whole, present=whole.present & here, null=whole.null & here)

    own = {role: one for role, one in names.items() if one not in (value, name)}
    every = tuple(dict.fromkeys((*columns.names, *codes)))
    note = f"each record holds one measurement, which {name!r} names"
    return replace(columns, names=every, load=load), {**roles, **own}, (note,)


def _roles(told: Column) -> Mapping[str, str]:
    """Return the measurements that a column of words names, by role."""
    return assign(told.words).columns if told.is_text else {}
