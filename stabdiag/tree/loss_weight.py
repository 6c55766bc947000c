"""Losses of which a part weighs more and more, as in a VAE: they rise by design."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# A weight has settled where it is this near to its last value, in parts of its range, and it has
# jumped where it grew by so much of it from one loss to the next.
_NEAR = 0.01
_JUMP = 0.1


def weighed_until(case: Case) -> int:
    """Return from which position on the losses are comparable: no part's weight grows any more.

    It is 0 where none grew or none is logged, and the number of losses where one grew beyond them.
    """
    weight = case.history.finite("loss_weight")
    if case.literal or len(weight) < 2:
        return 0
    final = float(weight.values[-1])
    apart = np.flatnonzero(np.abs(weight.values - final) > _NEAR * np.ptp(weight.values))
    if not len(apart) or weight.values[apart[-1]] > final:
        return 0
    return int(np.searchsorted(case.loss.steps, weight.steps[apart[-1] + 1]))


def jumps_by_weight(case: Case, spike: Spike) -> bool:
    """Tell whether a part of the loss came to weigh more just where the loss went up."""
    weight = case.history.finite("loss_weight")
    before, after = case.at(max(spike.onset - 2, 0)), case.at(spike.onset + 1)
    part = weight.between(before, after).values
    return len(part) > 1 and bool(part[-1] - part[0] > _JUMP * np.ptp(weight.values))
