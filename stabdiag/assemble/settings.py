"""Settings of the run that were logged beside the loss, and changed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.history import Series
from stabdiag.roles import hardens, settings_of, split_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from stabdiag.arrays import Ints, Mask
    from stabdiag.readers.columns import Column, Columns

# What changes in more than this share of the records, and more than a few times, is no setting.
_OFTEN: Final = 0.1
_FEW: Final = 3


def settings(
    columns: Columns, chosen: Mapping[str, str], taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the settings that changed in the course of a run, each by its own role.

    Args:
        columns: the columns of the log.
        chosen: columns that the user named, by role.
        taken: columns that serve another role.
        steps: the step of each record.
        run: the records of the run.
    """
    for role, name in (
        settings_of(columns.names, {*taken, *chosen.values()}) | dict(chosen)
    ).items():
        column = columns.load(name)
        series = None if _tells_otherwise(column) else _series(role, name, column, steps, run)
        if series is not None and _counts(series, int(run.sum())):
            yield series


def _tells_otherwise(column: Column) -> bool:
    """Tell whether a column holds times, or the words for training and evaluation."""
    return column.is_time or any(split_of(word) is not None for word in column.words)


def _series(role: str, name: str, column: Column, steps: Ints, run: Mask) -> Series | None:
    """Return the finite values of a run, steps rising, the last record of each step."""
    which = run & column.present & np.isfinite(column.values)
    if column.is_text:
        which &= column.values < len(column.words)
    at, values = steps[which], column.values[which]
    if len(at) < 2 or not (values != values[0]).any():
        return None
    if (at[1:] <= at[:-1]).any():
        order = np.argsort(at, kind="stable")
        last = np.append(at[order][1:] != at[order][:-1], True)
        at, values = at[order][last], values[order][last]
    words = column.words if column.is_text else ()
    return Series(role=role, column=name, steps=at, values=values, words=words)


def _counts(series: Series, records: int) -> bool:
    """Tell whether a column changes, and not all along unless it may make the loss harder."""
    before, after = series.values[:-1], series.values[1:]
    if 0 < np.count_nonzero(after != before) <= max(_OFTEN * records, _FEW):
        return True
    one_way = (after >= before).all() or (after <= before).all()
    names = (series.column, series.role.partition("/")[2])
    return bool(one_way) and any(hardens(name) is not None for name in names)
