"""How far out a run's own noise reaches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_NORMAL = NormalDist()

# A letter value needs this many points beyond it, so that a few outliers do not shape the tail
# that is to judge them.
_POINTS_BEYOND = 8.0

# The tail weight that is assumed of a run of which nothing is known, and the number of points that
# count as much as that assumption: short logs cannot show how heavy their noise is.
_PRIOR_WEIGHT = 0.12
_PRIOR_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class UpperTail:
    """The upper tail of a sample, as quantiles over the normal deviate z.

    Q(z) = centre + scale * z * exp(skew * z + weight * z**2 / 2): normal where skew and weight
    are 0, like a lognormal with skew, like a power law with weight.
    """

    centre: float
    scale: float
    skew: float
    weight: float

    def exceeded_with_chance(self, chance: float) -> float:
        """Return the value that one draw exceeds with the given chance (0 < chance < 0.5)."""
        z = -_NORMAL.inv_cdf(chance)
        stretch = math.exp(min(self.skew * z + self.weight * z * z / 2, 300.0))
        return self.centre + self.scale * z * stretch


def upper_tail(x: Floats, deepest: int | None = None, prior: float | None = None) -> UpperTail:
    """Fit the upper tail of a sample by its letter values.

    Args:
        x: shape (n,), finite, n at least 2.
        deepest: the last letter value used, as a power of 1/2; all that the sample has if None.
        prior: the tail weight added; one that fades with the number of points if None.

    Returns:
        The tail, in units of ``x``.

    The upper half of Tukey's g-and-h family, fitted to the upper half-spreads: log(half-spread / z)
    is a straight line in z**2 / 2 for the h-distributions and nearly one in z for moderate g
    (Hoaglin 1985, "Summarizing shape numerically: the g-and-h distributions", ch. 11 of Exploring
    Data Tables, Trends, and Shapes). Ours differs in three ways: whichever of the two lines fits
    better is taken instead of both, as a log has few letter values; a negative slope, which would
    promise tails lighter than normal, is set to 0; and a prior weight is added that fades with the
    number of points.
    """
    n = len(x)
    depth = max(2, math.floor(math.log2(max(n / _POINTS_BEYOND, 4.0))))
    chances = 0.5 ** np.arange(2, min(depth, deepest or depth) + 1)
    centre, *uppers = np.quantile(x, [0.5, *(1 - chances)])
    z = np.array([-_NORMAL.inv_cdf(chance) for chance in chances])
    tiny = np.finfo(np.float64).tiny
    heights = np.log(np.maximum((np.array(uppers) - centre) / z, tiny))
    skewed, heavy = _line(z, heights), _line(z * z / 2, heights)
    added = _PRIOR_WEIGHT * _PRIOR_POINTS / (n + _PRIOR_POINTS) if prior is None else prior
    line = skewed if skewed.error < heavy.error else heavy
    return UpperTail(
        centre=float(centre),
        scale=math.exp(line.level),
        skew=line.slope if line is skewed else 0.0,
        weight=added + (line.slope if line is heavy else 0.0),
    )


@dataclass(frozen=True, kw_only=True)
class _Line:
    slope: float
    level: float
    error: float


def _line(u: Floats, y: Floats) -> _Line:
    """Return the least-squares line of y over u, its slope not below 0; flat for two points."""
    slope = max(float(np.polyfit(u, y, 1)[0]), 0.0) if len(u) > 2 else 0.0
    level = float(np.mean(y - slope * u))
    return _Line(slope=slope, level=level, error=float(np.sum((y - level - slope * u) ** 2)))


def family_limit(scores: Floats, false_alarm: float, tests: int | None = None) -> float:
    """Return the score that a whole log of such noise exceeds with chance ``false_alarm``.

    Args:
        scores: shape (n,), finite: the noise, spikes included.
        false_alarm: the chance over all tests together (Bonferroni).
        tests: how many tests there are; all of ``scores`` where it is None.

    Scores beyond the limit are left out and the tail is fitted again, until none are left to
    leave out: a spike must not raise the bar for itself.
    """
    chance = min(false_alarm / max(tests or len(scores), 1), 0.25)
    kept = scores
    while True:
        limit = upper_tail(kept).exceeded_with_chance(chance)
        inside = scores[scores <= limit]
        if len(inside) >= len(kept) or len(inside) < len(scores) // 2:
            return limit
        kept = inside
