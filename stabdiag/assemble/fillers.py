"""NaN that only fills the gaps of a table, as when pandas dumps its records as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.company import has_a_rhythm
from stabdiag.model.history import Event, EventKind
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column

# So many losses with nothing but NaN beside them say that another column has records of its own.
_FEWEST = 3


def without_fillers(data: Mapping[str, Column]) -> tuple[dict[str, Column], list[Event]]:
    """Return the columns by role without the NaN that fill the records of another kind.

    A column that is NaN beside each finite loss, and a number where the loss is NaN, has records of
    its own: an evaluation's, a monitor's. A loss that is NaN in a record of training stays.
    """
    loss = data.get("loss")
    if loss is None or np.isfinite(loss.logged).all():
        return dict(data), []
    lost = loss.present & np.isnan(loss.values)
    finite = loss.present & np.isfinite(loss.values)
    others = {role for role, column in data.items() if _is_apart(column, finite)}
    apart = np.zeros_like(lost)
    for role in others:
        apart |= lost & data[role].present & np.isfinite(data[role].values)
    if not apart.any():
        return dict(data), []
    mended = {}
    for role, column in data.items():
        gaps = np.isnan(column.values) & (apart | (role in others))
        mended[role] = replace(column, present=column.present & ~gaps)
    losses = plural(int(apart.sum()), "loss that is", "losses that are")
    message = f"{losses} NaN in records of another kind left out: NaN fills the gaps of this table"
    return mended, [Event(kind=EventKind.PLACEHOLDER, message=message)]


def without_waits(held: Column) -> Column:
    """Return an evaluation loss without the NaN that fill the records between evaluations.

    Evaluations then come at a regular distance; a NaN after a longer one is that of an evaluation.
    """
    rows = np.flatnonzero(held.present)
    finite = np.isfinite(held.values[rows])
    places = np.flatnonzero(finite)
    if not has_a_rhythm(finite):
        return held
    distance = int(np.median(np.diff(places)))
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(finite, number, places[0] - distance))
    waits = np.isnan(held.values[rows]) & (number - last < distance)
    present = held.present.copy()
    present[rows[waits]] = False
    return replace(held, present=present)


def _is_apart(column: Column, finite: Mask) -> bool:
    """Tell whether a column is NaN beside each loss that is finite."""
    beside = np.isnan(column.values) & column.present
    return int(finite.sum()) >= _FEWEST and bool(beside[finite].all())
