"""The limits of the symptoms of the learning rate's schedule."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.limits.declare import OURS, limit


@dataclass(frozen=True, kw_only=True)
class ScheduleLimits:
    """A learning rate that does not do what was meant."""

    warmup_tolerance: float = limit(
        2.0,
        unit="x",
        at_least=1.01,
        source=OURS,
        why="The logged warm-up contradicts the manifest if it is longer or shorter by more than "
        "this factor.",
    )
