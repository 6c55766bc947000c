"""The limits of this family: ``limits.resume``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class ResumeLimits:
    """What a resume may change."""

    points: int = limit(10, unit="logged points", at_least=3)
    """The loss is compared over this many points before and after a resume."""
    jump_sigma: float = limit(6.0, unit="deviations of the loss's other steps", at_least=1.0)
    """The loss jumps at a resume if it rises by this many times its changes elsewhere."""
    paired_sigma: float = limit(3.0, unit="standard errors", at_least=1.0)
    """Where a resume goes over steps again, the loss came back worse if at the same steps it is
    higher by this many standard errors of the mean difference."""
    lr_ratio: float = limit(1.5, unit="x", at_least=1.01)
    """A learning rate that differs by this factor across a resume does not continue its
    schedule."""
    gap_ratio: float = limit(10.0, unit="x usual distance", at_least=2.0)
    """Logged steps this much farther apart than their neighbors have a gap between them."""
