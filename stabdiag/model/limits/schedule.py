"""The limits of the symptoms of the learning rate's schedule."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class ScheduleLimits:
    """A learning rate that does not do what was meant."""

    at_peak: float = limit(
        0.95,
        unit="of the peak",
        at_least=0.1,
        at_most=1.0,
        why="A learning rate of this share of its peak is as good as at it.",
    )
    early: float = limit(
        0.05,
        unit="of the run",
        at_least=0.001,
        at_most=0.5,
        why="What a missing warm-up does to the loss shows in this first part of the run.",
    )
    early_rise: float = limit(
        1.2,
        unit="x the first loss",
        at_least=1.0,
        why="Without a warm-up that was needed the loss goes this far above where it began, and "
        "not for one step alone.",
    )
    warmup_tolerance: float = limit(
        2.0,
        unit="x",
        at_least=1.01,
        why="The logged warm-up contradicts the manifest if it is longer or shorter by more than "
        "this factor.",
    )
    floor: float = limit(
        0.01,
        unit="of the peak",
        at_most=0.5,
        why="A learning rate at or below this share of its peak trains no more.",
    )
    at_floor: float = limit(
        0.15,
        unit="of the run",
        at_least=0.01,
        at_most=1.0,
        why="So much of a run spent at the floor is compute wasted.",
    )
    jump: float = limit(
        1.5,
        unit="x the peak before",
        at_least=1.01,
        why="A learning rate that jumps this factor above all that the run had before is no "
        "restart of its schedule.",
    )
