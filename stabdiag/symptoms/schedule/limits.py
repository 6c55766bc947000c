"""The limits of this family: ``limits.schedule``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class ScheduleLimits:
    """A learning rate that does not do what was meant."""

    at_peak: float = limit(0.95, unit="of the peak", at_least=0.1, at_most=1.0)
    """A learning rate of this fraction of its peak counts as at the peak."""
    early: float = limit(0.05, unit="of the run", at_least=0.001, at_most=0.5)
    """A missing warm-up shows in the loss during this first part of the run."""
    early_rise: float = limit(1.2, unit="x the first loss", at_least=1.0)
    """Without a warm-up it needs, the loss rises this far above its start, for more than one
    step."""
    warmup_tolerance: float = limit(2.0, unit="x", at_least=1.01)
    """The logged warm-up contradicts the manifest if its length differs by more than this
    factor."""
    floor: float = limit(0.01, unit="of the peak", at_most=0.5)
    """A learning rate at or below this fraction of its peak no longer trains."""
    at_floor: float = limit(0.15, unit="of the run", at_least=0.01, at_most=1.0)
    """This fraction of a run at the floor is wasted compute."""
    jump: float = limit(1.5, unit="x the peak before", at_least=1.01)
    """A learning rate that jumps this factor above its highest value so far is not a restart of its
    schedule."""
