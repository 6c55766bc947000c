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

    It is 0 where none grew or none is logged, or where the loss rose otherwise than the weight did,
    and the number of losses where one grew beyond them.
    """
    weight = case.history.finite("loss_weight")
    if case.literal or len(weight) < 2 or case.beside_weight:
        return 0
    final = float(weight.values[-1])
    apart = np.flatnonzero(np.abs(weight.values - final) > _NEAR * np.ptp(weight.values))
    if not len(apart) or weight.values[apart[-1]] > final:
        return 0
    return int(np.searchsorted(case.loss.steps, weight.steps[apart[-1] + 1]))


def weighed_alike(case: Case) -> slice:
    """Return the losses, as positions, that are comparable: no part's weight grows among them.

    They are those since it grew for good or, where these are too few for a trend, the last before
    it that are enough: a weight that grows at the end of a log takes nothing from what was before.
    """
    begin, n = weighed_until(case), len(case.loss)
    if not begin or n - begin >= case.rise_window:
        return slice(begin, n)
    weight, steps = case.history.finite("loss_weight"), case.loss.steps
    grew = np.flatnonzero(np.diff(weight.values) > 0)
    starts = np.append(0, np.searchsorted(steps, weight.steps[grew + 1]))
    ends = np.append(np.searchsorted(steps, weight.steps[grew], side="right"), n)
    enough = np.flatnonzero(ends - starts >= case.rise_window)
    return slice(int(starts[enough[-1]]), int(ends[enough[-1]])) if len(enough) else slice(begin, n)


def is_cut_by_weight(case: Case) -> bool:
    """Tell whether section 4 looks at the losses up to where a part of them came to weigh more."""
    stop = case.settled.stop
    jumps = (*case.spikes, *(shift.spike for shift in case.shifts))
    return stop < len(case.loss) and all(spike.onset != stop for spike in jumps)


def what_ended(case: Case) -> str:
    """Return up to what section 4 looks at the losses, where that is not the end of the log."""
    step = case.at(case.settled.stop)
    if is_cut_by_weight(case):
        return f"{case.history.series['loss_weight'].column!r} grew at step {step}"
    return f"the jump at step {step}"


def jumps_by_weight(case: Case, spike: Spike) -> bool:
    """Tell whether a part of the loss came to weigh more just where the loss went up."""
    weight = case.history.finite("loss_weight")
    before, after = case.at(max(spike.onset - 2, 0)), case.at(spike.onset + 1)
    part = weight.between(before, after).values
    return len(part) > 1 and bool(part[-1] - part[0] > _JUMP * np.ptp(weight.values))
