"""The limits of the symptoms of generalisation: training loss against evaluation loss."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class GeneralisationLimits:
    """An evaluation loss that does not follow the training loss."""

    min_evaluations: int = limit(
        5,
        unit="evaluations",
        at_least=3,
        why="Fewer evaluations than this show no trend.",
    )
    eval_rise: float = limit(
        0.1,
        unit="of its best",
        why="An evaluation loss that ends this share above its best has turned.",
    )
    train_fall: float = limit(
        0.05,
        unit="of the loss",
        at_most=1.0,
        why="The training loss goes on falling if it has fallen by this share since the best "
        "evaluation.",
    )
    gap: float = limit(
        1.5,
        unit="x",
        at_least=1.1,
        why="An evaluation loss this factor above the training loss, from the first evaluation on, "
        "is measured on another footing.",
    )
    early: float = limit(
        0.1,
        unit="of the run",
        at_most=0.5,
        why="A gap is there from the start if it is in the last evaluation of this first part of "
        "the run, before a model can have memorised much, and in all that follow.",
    )
    underfit: float = limit(
        0.7,
        unit="of log K",
        at_least=0.1,
        at_most=1.0,
        why="A training loss that ends above this share of chance has learned little.",
    )
