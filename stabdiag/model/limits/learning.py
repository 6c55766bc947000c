"""The limits of the symptoms of learning: a loss that does not go where it should."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class LearningLimits:
    """A loss that does not fall, stops early, oscillates, or falls too well."""

    constant_points: int = limit(
        20,
        unit="logged points",
        at_least=5,
        why="A loss that has one value to the last digit at this many points in a row, up to the "
        "end of the log, is not being trained.",
    )
    min_points: int = limit(
        30,
        unit="logged points",
        at_least=10,
        why="Fewer losses than this, after the warm-up, do not show whether a run learns.",
    )
    min_steps: int = limit(
        500,
        unit="steps",
        at_least=1,
        why="A run may stand still for this long after its warm-up before it is called stuck; a "
        "log that counts epochs may for as many epochs as points are wanted.",
    )
    chance_band: float = limit(
        0.01,
        unit="of log K",
        at_most=0.2,
        why="A loss that stays within this share of the logarithm of the number of classes is at "
        "chance.",
    )
    least_fall: float = limit(
        0.01,
        unit="of the loss",
        at_most=0.5,
        why="A loss that falls by less than this share over the whole run has not learned.",
    )
    initial_factor: float = limit(
        1.5,
        unit="x log K",
        at_least=1.05,
        why="An untrained classifier has a loss near the logarithm of the number of classes; one "
        "this factor above it is confident without reason. Below may be a trained model.",
    )
    swing: float = limit(
        2.0,
        unit="x",
        at_least=1.1,
        why="The loss swings if it goes up by this factor and down again.",
    )
    swings: int = limit(
        2,
        unit="swings",
        at_least=1,
        why="This many swings are an oscillation; one is a spike or a climb, which the tree tells.",
    )
    above_start: float = limit(
        1.5,
        unit="x the first loss",
        at_least=1.05,
        why="A loss that swings about a level this factor above where it began is worse than no "
        "training.",
    )
    above_target: float = limit(
        1.1,
        unit="x the target",
        at_least=1.0,
        why="A loss that has gone flat this factor above the manifest's target stopped early.",
    )
    too_good: float = limit(
        0.01,
        unit="of log K",
        at_most=0.5,
        why="A loss below this share of chance says that nearly every answer is known: text is not "
        "so predictable.",
    )
    least_classes: int = limit(
        128,
        unit="classes",
        at_least=2,
        why="A loss near zero is usual with fewer classes than this, and suspect with as many: "
        "so many are a vocabulary.",
    )
