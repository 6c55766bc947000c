"""Long tables: a record for each measurement, its name in one column and its value in another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.due import Due
from stabdiag.model.roles import assign, names_measurements, normal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.assemble.named import Named
    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.readers.columns import Column


def with_measurements(named: Named) -> Named:
    """Make a column of each measurement of a long table.

    ``step,metric,value`` with the metrics loss and accuracy has the columns ``loss`` and
    ``accuracy``. A table none of whose measurements is a loss stays as it is.
    """
    columns, names = named.columns, named.names
    value = names.get("loss")
    if value is None or normal(value) not in ("value", "metric_value"):
        return named
    telling = (name for name in columns.names if names_measurements(name))
    name = next((one for one in telling if "loss" in _roles(columns.load(one))), None)
    if name is None:
        return named
    told, whole = columns.load(name), columns.load(value)
    roles = _roles(told)
    codes = {word: code for code, word in enumerate(told.words)}
    of_loss = told.present & (told.values == codes[roles["loss"]])
    counter = names.get("step") or names.get("epoch")
    steps = columns.load(counter).values if counter else np.zeros(columns.rows)
    due = None
    if _is_filled(told, whole, of_loss, steps):
        whole = replace(whole, null=np.zeros_like(whole.null))
    else:
        due = Due(records=of_loss, named=True)

    def load(one: str) -> Column:
        if one not in codes:
            return columns.load(one)
        here = told.present & (told.values == codes[one])
        return replace(whole, present=whole.present & here, null=whole.null & here)

    own = {role: one for role, one in names.items() if one not in (value, name)}
    every = tuple(dict.fromkeys((*columns.names, *codes)))
    note = f"each record holds one measurement, which {name!r} names"
    whole_table = replace(columns, names=every, load=load)
    return replace(named, columns=whole_table, due=due).take({**roles, **own}, note)


def _is_filled(told: Column, whole: Column, of_loss: Mask, steps: Floats) -> bool:
    """Tell whether blanks fill the gaps of other measurements, at steps that have a loss.

    So they do in what was made long of a wide table: there one more blank says nothing.
    """
    others = steps[told.present & ~of_loss & whole.null]
    return len(others) > 0 and bool(np.isin(others, steps[of_loss & whole.present]).any())


def _roles(told: Column) -> Mapping[str, str]:
    """Return the measurements that a column of words names, by role."""
    return assign(told.words).columns if told.is_text else {}
