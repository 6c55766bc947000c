"""The limits of this family: ``limits.data``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class DataLimits:
    """What the order of the batches does to the loss."""

    epoch_jump_sigma: float = limit(4.0, unit="deviations of the loss's other steps", at_least=1.0)
    """The loss jumps at epoch boundaries if its usual jump there is this many times its changes
    elsewhere."""
    epoch_jump_fraction: float = limit(0.02, unit="of the loss's level", at_most=1.0)
    """A jump at epoch boundaries smaller than this fraction of the loss does not matter."""
    repeated_batches: int = limit(5, unit="batches", at_least=1)
    """Fewer repeated batches than this may be retried steps."""
    spike_sigma: float = limit(10.0, unit="robust deviations", at_least=4.0)
    """A loss this far above the level around it counts as one of many spikes."""
    spike_fraction: float = limit(0.3, unit="of the loss's level", at_most=10.0)
    """Spikes lower than this fraction of the level they rise from are noise."""
    spike_count: int = limit(4, unit="spikes", at_least=2)
    """Fewer spikes than this are single events, which the tree judges."""
    tail_sigma: float = limit(20.0, unit="robust deviations", at_least=4.0)
    """A loss this far above its level, and above the next, is reported as a heavy tail even if the
    noise may reach as high."""
