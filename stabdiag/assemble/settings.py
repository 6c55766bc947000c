"""Settings of the run that were logged beside the loss, and changed on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.history import Series
from stabdiag.model.roles import hardens, is_part, settings_of, split_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from stabdiag.model.arrays import Ints, Mask
    from stabdiag.readers.columns import Column, Columns

# What changes in more than this share of the records, and more than a few times, is no setting.
_OFTEN: Final = 0.1
_FEW: Final = 3

# A part of the loss is switched on if it was 0 for so many records.
_AT_FIRST: Final = 10


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
    found = settings_of(columns.names, {*taken, *chosen.values()})
    for role, name in {**found, **chosen}.items():
        column = columns.load(name)
        series = None if _tells_otherwise(column) else _series(role, name, column, steps, run)
        if series is not None and _counts(series, int(run.sum())):
            yield series


def parts_switched_on(
    columns: Columns, taken: Collection[str], steps: Ints, run: Mask
) -> Iterator[Series]:
    """Yield the parts of the loss that are 0 at first, and never again, as settings: off, then on.

    YOLOX adds an L1 loss for its last epochs, and a GAN begins after a while. The arguments are
    those of ``settings``.
    """
    for name in columns.names:
        if name in taken or not is_part(name):
            continue
        column = columns.load(name)
        part = None if column.is_text else _series(f"setting/{name}", name, column, steps, run)
        if part is None:
            continue
        on = part.values != 0
        if not on[:_AT_FIRST].any() and np.count_nonzero(on[1:] != on[:-1]) == 1:
            yield replace(part, values=on.astype(np.float64), words=("off", "on"))


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
