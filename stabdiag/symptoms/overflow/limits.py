"""The limits of this family: ``limits.overflow``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class OverflowLimits:
    """Skipped steps, and numbers too small for the dtype."""

    skipped_fraction: float = limit(0.05, unit="of the steps", at_most=1.0)
    """A working scaler skips at most one step in a hundred. More is lost compute."""
    min_epsilon: float = limit(1e-7, unit="epsilon", source="smallest fp16 number, 6e-8")
    """An epsilon below this is zero in fp16, and so is a small second moment: the update divides by
    zero."""
