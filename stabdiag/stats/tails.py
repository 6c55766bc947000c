"""The upper tail of a run's own noise."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import normal_quantile, quantiles, quantiles_in_order
from stabdiag.stats.standards import CONTEXT_POINTS, FEW_EVENTS, HALF, MIN_SAMPLE, QUARTER

# Scores above this many standard deviations belong to an excursion.
FAR_OUT = 2.5

# The prior tail weight, and the number of points that it is worth: short logs do not show how heavy
# their noise is. The prior is slightly heavier than a normal distribution at three deviations.
PRIOR_WEIGHT = 0.15
_PRIOR_POINTS = 200

# Maximum tail weight assumed: lognormal with a deviation of 0.5, or a power law of index 2.
# Residuals of a smooth curve look heavier and would set a limit that no spike exceeds.
_STEEPEST = 0.5

# Minimum tail weight assumed for medians: neighboring scores are not independent.
_MEDIANS_WEIGHT = 0.05


@frozen
class UpperTail:
    """The upper tail of a sample, as a quantile function of the normal deviate z.

    Q(z) = centre + scale * z * exp(skew * z + weight * z**2 / 2). It is normal if skew and weight
    are 0. Skew makes it similar to a lognormal, weight to a power law.
    """

    centre: float
    scale: float
    skew: float
    weight: float

    def exceeded_with_chance(self, chance: float) -> float:
        """Return the value that one draw exceeds with the given chance (0 < chance < 0.5)."""
        z = normal_quantile(chance)
        stretch = math.exp(self.skew * z + self.weight * z * z / 2)
        return self.centre + self.scale * z * stretch


def upper_tail(ordered: Floats) -> UpperTail:
    """Fit the upper tail of a sample by its letter values.

    Args:
        ordered: shape (n,), finite and in rising order, n at least 2.

    Returns:
        The tail, in units of the sample.

    The upper half of Tukey's g-and-h family, fitted to the upper half-spreads: log(half-spread / z)
    is a straight line in z**2 / 2 for the h-distributions and nearly one in z for moderate g
    (Hoaglin 1985, "Summarizing shape numerically: the g-and-h distributions", ch. 11 of Exploring
    Data Tables, Trends, and Shapes). Three differences: only the line
    that fits better is used, since a log has few letter values; a negative slope, which means tails
    lighter than normal, is set to 0; and a prior weight is added that decreases with the number of
    points.
    """
    n = len(ordered)
    # A few outliers must not shape the tail that judges them.
    depth = max(2, math.floor(math.log2(n / MIN_SAMPLE)))
    chances = 0.5 ** np.arange(2, depth + 1)
    centre, *uppers = quantiles_in_order(ordered, [0.5, *(1 - chances)])
    z = np.array([normal_quantile(chance) for chance in chances])
    spreads = np.array(uppers) - centre
    # Most values may be equal, as with a hinge loss: only the others show the noise.
    if (spreads > 0).any():
        z, spreads = z[spreads > 0], spreads[spreads > 0]
    heights = np.log(np.maximum(spreads / z, np.finfo(np.float64).tiny))
    skewed, heavy = _line(z, heights), _line(z * z / 2, heights)
    prior = PRIOR_WEIGHT * _PRIOR_POINTS / (n + _PRIOR_POINTS)
    line = skewed if skewed.error < heavy.error else heavy
    return UpperTail(
        centre=float(centre),
        scale=math.exp(line.level),
        skew=line.slope if line is skewed else 0.0,
        weight=prior + (line.slope if line is heavy else 0.0),
    )


@frozen
class _Line:
    slope: float
    level: float
    error: float


def _line(u: Floats, y: Floats) -> _Line:
    """Return the least-squares line of y over u with a bounded slope; flat for two points."""
    slope = 0.0
    if len(u) > 2:
        offsets = u - u.mean()
        slope = min(max(float(offsets @ y) / float(offsets @ offsets), 0.0), _STEEPEST)
    level = float((y - slope * u).mean())
    residuals = y - level - slope * u
    return _Line(slope=slope, level=level, error=float(residuals @ residuals))


def declustered(scores: Floats) -> Floats:
    """Return scores, shape (n,), with the longest few excursions reduced to their highest point.

    A spike that takes ten points to decay is one event, not ten draws of heavy-tailed noise (runs
    declustering; Smith and Weissman 1994, JRSS B 56, 515-528, section 2). Only a few are reduced:
    in autocorrelated noise, excursions are common and belong to the noise.
    """
    far = np.flatnonzero(scores > FAR_OUT)
    if len(far) < 2:
        return scores
    begins = np.append(0, np.flatnonzero(np.diff(far) > CONTEXT_POINTS) + 1)
    ends = np.append(begins[1:], len(far))
    kept = np.ones(len(scores), dtype=bool)
    for at in np.argsort(ends - begins, kind="stable")[-FEW_EVENTS:]:
        excursion = far[begins[at] : ends[at]]
        kept[excursion] = False
        kept[excursion[np.argmax(scores[excursion])]] = True
    return scores[kept]


def noise_tail(scores: Floats, chance: float) -> UpperTail:
    """Return the upper tail of the noise among scores, excluding spikes.

    Args:
        scores: shape (n,), finite: the noise, spikes included.
        chance: scores that the noise exceeds with a smaller probability are spikes.

    Spikes are excluded and the tail is fitted again until no spike remains, so that a spike does
    not raise the limit for itself.
    """
    ordered = np.sort(scores)
    kept = count = len(ordered)
    while True:
        tail = upper_tail(ordered[:kept])
        limit = tail.exceeded_with_chance(chance)
        inside = int(np.searchsorted(ordered, limit, side="right"))
        if inside >= kept or inside < count // 2:
            return tail
        kept = inside


def medians_tail(tail: UpperTail, medians: Floats, count: int) -> UpperTail:
    """Return the upper tail of medians of ``count`` scores whose own tail is known.

    Args:
        tail: of single scores.
        medians: shape (n,), finite. They may include lasting shifts, so only their center is used.
        count: the number of scores in each median.

    A median exceeds a value if more than half of its scores do, which divides the weight of a
    power-law tail by (count + 1) / 2. Its deviation, and with it a lognormal skew, shrinks by
    sqrt(pi / 2 / count) (David & Nagaraja 2003, Order Statistics, doi:10.1002/0471722162, ch. 2 and
    10).
    """
    skew = tail.skew * math.sqrt(math.pi / 2 / count)
    weight = max(tail.weight / ((count + 1) / 2), _MEDIANS_WEIGHT)
    chances = (QUARTER, QUARTER / 2)
    centre, *uppers = quantiles(medians, [HALF, *(1 - chance for chance in chances)])
    z = np.array([normal_quantile(chance) for chance in chances])
    heights = (np.array(uppers) - centre) / (z * np.exp(skew * z + weight * z * z / 2))
    return UpperTail(centre=float(centre), scale=float(heights.mean()), skew=skew, weight=weight)
