"""Lasting jumps of a loss that is measured on something else from then on.

A loss on longer sequences, on another stage's data or at another resolution has another level: what
it was before tells nothing of what it ought to be after. So far nobody can tell such a jump from a
fault; but a loss that is worse than it was when the run began has lost what was learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import median
from stabdiag.tree.changes import Change, near_spike

if TYPE_CHECKING:
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# What is logged as a mean, or with a delay, shows a change so many points late at most.
_FOUND_WITHIN = 2

# The level at which a run began is the highest of so many losses: it soon falls.
_BEGIN = 5


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A jump that stayed, to which level, and the changes there of what the loss is measured on."""

    spike: Spike
    level: float
    changes: tuple[Change, ...]


def shifts_of(case: Case) -> tuple[Shift, ...]:
    """Return the jumps that stayed, or may stay, and began at such a change, by their onset.

    One to above the level at which the run began is none.
    """
    if case.literal or not case.moves:
        return ()
    x = case.loss.values
    found = (
        Shift(
            spike=spike,
            level=median(x[spike.onset : max(spike.end, spike.onset + 1)]),
            changes=_measured_on(case, spike),
        )
        for spike in case.scan.spikes
        if not spike.recovered
    )
    # What lies below the level at the beginning keeps some of what was learned.
    kept = (one for one in found if one.changes and one.level < x[:_BEGIN].max())
    return tuple(sorted(kept, key=lambda one: one.spike.onset))


def _measured_on(case: Case, spike: Spike) -> tuple[Change, ...]:
    near = near_spike(case, spike, within=_FOUND_WITHIN)
    return tuple(change for change in near if change.measured_on)
