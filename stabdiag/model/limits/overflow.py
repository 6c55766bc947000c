"""The limits of the symptoms of precision."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class OverflowLimits:
    """Skipped steps, and numbers too small for the dtype."""

    skipped_share: float = limit(
        0.05,
        unit="of the steps",
        at_most=1.0,
        why="A scaler that probes skips a step in a hundred or less; more is lost compute.",
    )
    least_epsilon: float = limit(
        1e-7,
        unit="epsilon",
        source="smallest fp16 number, 6e-8",
        why="An epsilon below this is zero in fp16, and so is a small second moment: the update "
        "divides by zero.",
    )
