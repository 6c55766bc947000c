"""Lasting jumps of a loss that is measured on something else from then on.

A loss on longer sequences, on another stage's data or at another resolution has another level: what
it was before tells nothing of what it ought to be after. So far nobody can tell such a jump from a
fault. But a loss that is no better than when the run began has lost what was learned, one that goes
on rising learns nothing of what is new, and where the rate or the weights jump too, the log shows
another cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.levels import beginning
from stabdiag.stats.quantiles import median
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.changes import Change, near_spike

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# What is logged as a mean, or with a delay, shows a change so many points late at most.
_FOUND_WITHIN = 2

# Fewer losses after a jump tell nothing of it.
_FEWEST = 5

# The later losses have to lie below the level at which the run began, by this share of what was
# learned: those of a model that is back at chance do not.
_KEPT = 0.05

# The later losses go on rising if they do so by this share of the jump, but for this chance.
_RISES = 0.1
_BY_CHANCE = 0.001


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A jump that stayed, to which level, and the changes there of what the loss is measured on."""

    spike: Spike
    level: float
    changes: tuple[Change, ...]


def shifts_of(case: Case) -> tuple[Shift, ...]:
    """Return the jumps that stayed, or may stay, and began at such a change, by their onset."""
    if case.literal or not case.moves:
        return ()
    x, found = case.loss.values, []
    until = len(x)
    stayed = (spike for spike in case.scan.spikes if not spike.recovered)
    for spike in sorted(stayed, key=lambda one: one.onset, reverse=True):
        changes = _measured_on(case, spike)
        if changes and _keeps_and_rests(x, spike, min(until, _watched(case, spike))):
            level = median(x[spike.onset : max(spike.end, spike.onset + 1)])
            found.append(Shift(spike=spike, level=level, changes=changes))
        until = spike.onset
    return tuple(one for one in reversed(found) if not _has_another_cause(case, one))


def _measured_on(case: Case, spike: Spike) -> tuple[Change, ...]:
    near = near_spike(case, spike, within=_FOUND_WITHIN)
    return tuple(change for change in near if change.measured_on)


def _watched(case: Case, spike: Spike) -> int:
    """Return up to where the losses after a jump are its own: §4 looks at the rest if it can."""
    n, end = len(case.loss), max(spike.end, spike.onset + 1)
    return end if n - end >= case.rise_window else n


def _keeps_and_rests(x: Floats, spike: Spike, until: int) -> bool:
    """Tell whether the later losses keep some of what was learned, and rise no more.

    What is new may be as bad as at the beginning at first, and be learned. Of a few losses after a
    jump nothing is known.
    """
    if until - spike.onset < _FEWEST:
        return False
    later = x[(spike.onset + until) // 2 : until]
    begin = beginning(x)
    if median(later) >= begin - _KEPT * (begin - spike.base):
        return False
    half = len(later) // 2
    rise = median(later[half:]) - median(later[:half])
    return rise <= _RISES * (median(later) - spike.base) or mann_kendall(later) >= _BY_CHANCE


def _has_another_cause(case: Case, shift: Shift) -> bool:
    """Tell whether the log shows a cause of a jump that is no matter of the data.

    A loss that is so many times larger has gradients that are so many times larger too.
    """
    onset, low, high = shift.spike.onset, shift.spike.base, shift.level
    gradients, weights = case.limits.spike.grad_ratio, case.limits.divergence.weight_norm_ratio
    gradients *= high / low if 0 < low < high else 1.0
    norms = case.history.group("weight_norm").values()
    return (
        bool(case.suspect[onset])
        or any(_turns(case, one.finite(), onset, _FOUND_WITHIN, weights) for one in norms)
        or _turns(case, case.history.finite("grad_norm"), onset, case.reach.recovery, gradients)
    )


def _turns(case: Case, norm: Series, onset: int, after: int, ratio: float) -> bool:
    """Tell whether a norm is another by a factor so many losses after the jump as just before it.

    Each is the median of the last few: a gradient is noisy, and large at first where data are new.
    """
    first = case.at(max(onset - _FOUND_WITHIN, 0))
    last = case.at(min(onset + after, len(case.loss) - 1))
    begin, end = np.searchsorted(norm.steps, [first, last])
    before, later = norm.values[max(begin - _FEWEST, 0) : begin], norm.values[begin : end + 1]
    if not (len(before) and len(later)):
        return False
    low, high = sorted(map(abs, (median(before), median(later[len(later) // 2 :]))))
    return high > ratio * low
