"""The profile of a series: level, noise and tail, with each point compared with those before it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.peaks import Residuals, point_residuals
from stabdiag.stats.rolling import TrailingBaseline, baseline
from stabdiag.stats.shape import SearchWindows
from stabdiag.stats.standards import QUARTER
from stabdiag.stats.tails import UpperTail, declustered, noise_tail

# On a descent, the slope inflates the deviation of a window. In a log of fewer windows than this,
# stretches are compared with a narrower window: the log divided by this number.
_WINDOWS = 5


@frozen
class Profile:
    """The level and noise of a series.

    ``base`` is the level and deviation of the points before each point, ``points`` are the
    residuals of single points, and ``tail`` is the upper tail of their scores. ``false_alarm`` is
    the probability that noise alone exceeds ``limit`` anywhere in the series.
    """

    reach: SearchWindows
    base: TrailingBaseline
    points: Residuals
    tail: UpperTail
    false_alarm: float

    @cached_property
    def chance(self) -> float:
        """The probability of a false alarm at one point."""
        return chance_per_point(self.false_alarm, len(self.points.scores) - self.points.first)

    @cached_property
    def limit(self) -> float:
        """The limit of the noise, in standard deviations."""
        return self.tail.exceeded_with_chance(self.chance)


def measure_profile(x: Floats, reach: SearchWindows, false_alarm: float) -> Profile:
    """Measure the profile of a series.

    Args:
        x: shape (n,), finite, n above ``reach.least`` + 1.
        reach: windows in points.
        false_alarm: the probability that noise alone exceeds the limit anywhere.
    """
    base = baseline(x, reach.window)
    points = point_residuals(x, base, reach.least)
    scores = points.scores[reach.least :]
    tail = noise_tail(declustered(scores), chance_per_point(false_alarm, len(scores)))
    return Profile(reach=reach, base=base, points=points, tail=tail, false_alarm=false_alarm)


def profile_of_stretches(x: Floats, profile: Profile) -> Profile:
    """Return the profile that stretches are compared with: a narrower window in a short log."""
    reach = replace(profile.reach, window=max(len(x) // _WINDOWS, profile.reach.least))
    if reach.window >= profile.reach.window:
        return profile
    return measure_profile(x, reach, profile.false_alarm)


def chance_per_point(false_alarm: float, points: int) -> float:
    """Return the probability of a false alarm at each of several points (Bonferroni)."""
    return min(false_alarm / points, QUARTER)
