"""The limits of the symptoms of generalisation: training loss against evaluation loss."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.limits.declare import OURS, limit


@dataclass(frozen=True, kw_only=True)
class GeneralisationLimits:
    """An evaluation loss that does not follow the training loss."""

    min_evaluations: int = limit(
        5,
        unit="evaluations",
        at_least=3,
        source=OURS,
        why="Fewer evaluations than this show no trend.",
    )
