"""The limits of the symptoms of a resume."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class ResumeLimits:
    """What a resume may change."""

    points: int = limit(
        10,
        unit="logged points",
        at_least=3,
        why="The loss after a resume is compared with the loss before it over this many points.",
    )
    jump_sigma: float = limit(
        6.0,
        unit="deviations of the loss's other steps",
        at_least=1.0,
        why="The loss jumps at a resume if it rises by this many times its changes elsewhere.",
    )
    lr_ratio: float = limit(
        1.5,
        unit="x",
        at_least=1.01,
        why="A learning rate that differs by this factor before and after a resume does not go on "
        "where its schedule was.",
    )
    gap_ratio: float = limit(
        10.0,
        unit="x usual distance",
        at_least=2.0,
        why="Steps this much farther apart than the logged ones around them are missing.",
    )
