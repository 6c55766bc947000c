"""A loss that ends before the run does, where each metric has a record of its own.

There no record lacks the loss. What gives it away is the company by step: the steps at which
another training series is logged are those of the loss, up to where there is a loss no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.company import WITH_LOSS
from stabdiag.assemble.hidden import Hidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.arrays import Ints, Mask
    from stabdiag.readers.columns import Column


def find_stopped(
    loss: Column,
    company: Mapping[str, Column],
    steps: Ints,
    usable: Mask,
    elsewhere: Mask,
    *,
    absent_records: int,
) -> Hidden | None:
    """Find the records of another series that go on without the loss.

    Args:
        loss: the loss as it was written.
        company: the other training columns, by role.
        steps: shape (rows,), the step of each record that is ``usable``.
        usable: the records that have a step.
        elsewhere: records at whose steps no loss is due.
        absent_records: a loss missing from so many steps counts.
    """
    for role, column in company.items():
        if column.present.any() and not (column.present & loss.present).any():
            logged = np.flatnonzero(column.present & usable)
            after = _after(loss.present & usable, logged, steps, absent_records)
            after = after[~np.isin(steps[after], steps[elsewhere])]
            if len(np.unique(steps[after])) >= absent_records:
                records = np.zeros_like(usable)
                records[after] = True
                return Hidden(records=records, grounds=f"{role} was logged on without it")
    return None


def _after(losses: Mask, logged: Ints, steps: Ints, absent_records: int) -> Ints:
    """Return the records of a series after the last step that it shares with the losses.

    There are none if it has a rhythm of its own, or if more of it has stood ahead of the losses
    before: those may be written in bursts, of which the last is lost when a run is killed.
    """
    rows = np.flatnonzero(losses)
    of_losses = np.unique(steps[rows])
    shared = np.flatnonzero(np.isin(steps[logged], of_losses))
    none = logged[:0]
    if len(shared) < max(absent_records, WITH_LOSS * len(of_losses)):
        return none
    if len(shared) < WITH_LOSS * (shared[-1] + 1 - shared[0]):
        return none
    after = logged[shared[-1] + 1 :]
    after = after[steps[after] > of_losses[-1]]
    ahead = np.searchsorted(logged, rows) - np.arange(len(rows))
    return after if len(after) >= absent_records + np.ptp(ahead) else none
