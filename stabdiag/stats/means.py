"""Means of several runs: how well each is known, and how far they lie apart."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import RELATIVE_EPS
from stabdiag.stats.trend import MAX_POINTS, block_means, without_line

# An error is never taken for smaller than this share of the largest.
_EXACT = 1e-6


@frozen
class Mean:
    """A mean with its standard error, and the deviation of the single points about their trend."""

    value: float
    error: float
    deviation: float


@frozen
class Spread:
    """How far several means lie apart.

    ``deviation`` is their standard deviation, ``between`` what is left of it without the errors of
    the means, ``low`` and ``high`` the interval of 95% in which the deviation lies, and ``p_value``
    the probability of such a spread if there were nothing but these errors.
    """

    deviation: float
    between: float
    low: float
    high: float
    p_value: float


def mean_and_error(x: Floats) -> Mean:
    """Return the mean of a series with the standard error that its autocorrelation leaves it.

    Args:
        x: shape (n,), finite, n at least 4, evenly spaced.

    A straight line is taken out first: runs that fall along the same slope differ by their level.
    The variance is stretched by the integrated autocorrelation time, summed over the initial
    positive sequence of pairs (Geyer 1992, doi:10.1214/ss/1177011137, section 3.3); ours never
    narrows it.
    """
    thin = block_means(x, MAX_POINTS)
    n = len(thin)
    rest = without_line(thin)
    power = float(rest @ rest)
    rests = without_line(x)
    deviation = float(np.sqrt(rests @ rests / (len(x) - 2)))
    value = float(x.mean())
    least = RELATIVE_EPS * abs(value)
    if power <= (least * n) ** 2:
        return Mean(value=value, error=least, deviation=deviation)
    full = np.correlate(rest, rest, mode="full")[n - 1 :] / power
    pairs = full[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    time = max(2 * float(pairs[: negative[0] if len(negative) else None].sum()) - 1, 1.0)
    variance = power / (n - 2) * time / n
    return Mean(value=value, error=math.sqrt(variance), deviation=deviation)


def spread(values: Floats, errors: Floats) -> Spread:
    """Tell how far means lie apart beyond their own errors.

    Args:
        values: the means, shape (n,), n at least 2.
        errors: their standard errors; one that is a millionth of the largest counts as exact.

    Cochran's Q against chi-squared with n - 1 degrees of freedom (Cochran 1954,
    doi:10.2307/3001666, section 4), and the variance between by moments (DerSimonian & Laird 1986,
    doi:10.1016/0197-2456(86)90046-2, eq. 8). The interval is that of a normal sample's deviation:
    of two values it spans a factor of 70, and no statistic makes it narrower.
    """
    n = len(values)
    # In units of the largest error, so that no square leaves the range of a float.
    unit = max(float(errors.max()), float(np.finfo(np.float64).tiny))
    values, errors = values / unit, np.maximum(errors / unit, _EXACT)
    weight = 1 / errors**2
    centre = float((weight * values).sum() / weight.sum())
    q = float((weight * (values - centre) ** 2).sum())
    dispersion = float(weight.sum() - (weight**2).sum() / weight.sum())
    deviation = unit * float(values.std(ddof=1))
    return Spread(
        deviation=deviation,
        between=unit * math.sqrt(max(q - (n - 1), 0.0) / dispersion),
        low=deviation * math.sqrt((n - 1) / chi_squared_above(0.025, n - 1)),
        high=deviation * math.sqrt((n - 1) / chi_squared_above(0.975, n - 1)),
        p_value=chi_squared_tail(q, n - 1),
    )


def chi_squared_tail(x: float, degrees: int) -> float:
    """Return the probability that chi-squared exceeds ``x``, for whole degrees of freedom.

    The finite sums of Abramowitz & Stegun, 26.4.4 and 26.4.5.
    """
    if x <= 0:
        return 1.0
    half = x / 2
    odd = degrees % 2
    powers = np.arange(degrees // 2) + odd / 2
    terms = (math.exp(k * math.log(half) - half - math.lgamma(k + 1)) for k in powers.tolist())
    return min((math.erfc(math.sqrt(half)) if odd else 0.0) + math.fsum(terms), 1.0)


def chi_squared_above(share: float, degrees: int) -> float:
    """Return the value that chi-squared exceeds with a probability, by bisection."""
    low, high = 0.0, degrees + 20 * math.sqrt(degrees) + 20
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if chi_squared_tail(middle, degrees) > share else (low, middle)
    return high
