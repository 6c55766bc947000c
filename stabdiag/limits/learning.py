"""The limits of the symptoms of learning: a loss that does not go where it should."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.limits.declare import OURS, limit


@dataclass(frozen=True, kw_only=True)
class LearningLimits:
    """A loss that does not fall, stops early, oscillates, or falls too well."""

    constant_points: int = limit(
        20,
        unit="logged points",
        at_least=5,
        source=OURS,
        why="A loss that has one value to the last digit at this many points in a row, up to the "
        "end of the log, is not being trained.",
    )
