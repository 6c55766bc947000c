"""What losses are held against: the window before each, and the tail of this run's own noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.stats.baseline import Baseline, baseline
from stabdiag.stats.residuals import Residuals, point_residuals
from stabdiag.stats.tails import UpperTail, declustered, noise_tail

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.stats.shape import Reach


@dataclass(frozen=True, kw_only=True, eq=False)
class Yardstick:
    """How high each loss lies above the window before it, and how far noise alone leads there.

    ``points`` are the residuals of single losses, ``tail`` is the upper tail of their scores, and
    ``false_alarm`` the chance that noise alone gives one candidate anywhere among them.
    """

    reach: Reach
    base: Baseline
    points: Residuals
    tail: UpperTail
    false_alarm: float

    @property
    def chance(self) -> float:
        """The chance of a false alarm at one point."""
        return chance_of_one(self.false_alarm, len(self.points.scores) - self.points.first)

    @property
    def limit(self) -> float:
        """How far noise reaches, in deviations."""
        return self.tail.exceeded_with_chance(self.chance)


def yardstick(x: Floats, reach: Reach, false_alarm: float) -> Yardstick:
    """Return what the losses, shape (n,) and finite, are held against with a window."""
    base = baseline(x, reach.window)
    points = point_residuals(x, base, reach.least)
    scores = points.scores[reach.least :]
    tail = noise_tail(declustered(scores), chance_of_one(false_alarm, len(scores)))
    return Yardstick(reach=reach, base=base, points=points, tail=tail, false_alarm=false_alarm)


def chance_of_one(false_alarm: float, points: int) -> float:
    """Return the chance of a false alarm at each of this many points (Bonferroni)."""
    return min(false_alarm / points, 0.25)
