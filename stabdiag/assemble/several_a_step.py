"""Several records of each step, of several ranks or micro-batches: none of their NaN is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.history import Event, EventKind

if TYPE_CHECKING:
    from stabdiag.assemble.losses import Losses
    from stabdiag.model.arrays import Ints, Mask

# Several records of a step are a habit, and no resume, if so many of them follow one of their step.
_HABIT = 0.4

# Records that never had a finite loss beside the others were not made to hold one.
_FEWEST_SOUND = 3


def with_nan_of_any(losses: Losses, steps: Ints, usable: Mask, *, interleaved: bool) -> Losses:
    """Return the losses with NaN in all records of a step of which one has a loss that is NaN.

    The last record of a step counts, and the NaN of another rank would go unseen.

    Args:
        losses: the losses as they were read.
        steps: of each record, shape (rows,).
        usable: the records that have a step.
        interleaved: the writers shared the log so that the records of a step do not follow one
            another; else those that do belong together, as a step may come again after a resume.
    """
    rows = np.flatnonzero(losses.records & usable)
    if len(rows) < 2 or np.isfinite(losses.values[rows]).all():
        return losses
    if interleaved:
        rows = rows[np.argsort(steps[rows], kind="stable")]
    again = steps[rows][1:] == steps[rows][:-1]
    if again.mean() < _HABIT:
        return losses
    group = np.concatenate(([0], np.cumsum(~again)))
    bad = ~np.isfinite(losses.values[rows])
    lost, size = np.bincount(group, weights=bad), np.bincount(group)
    partly = (lost > 0) & (lost < size)
    if not partly.any() or int(np.argmax(lost > 0)) < _FEWEST_SOUND:
        return losses
    marked = rows[partly[group] & ~bad]
    values = losses.values.copy()
    values[marked] = np.nan
    count = int(partly.sum())
    message = (
        f"{count} {'losses count' if count > 1 else 'loss counts'} as NaN, from step "
        f"{int(steps[marked].min())} on: of several records of the step, one has a loss that is "
        "not finite"
    )
    event = Event(kind=EventKind.HIDDEN_NAN, message=message, step=int(steps[marked].min()))
    return replace(losses, values=values, events=[*losses.events, event])
