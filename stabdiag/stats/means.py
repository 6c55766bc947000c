"""Means of several runs: their standard errors and their spread."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.standards import MAX_CHANCE, MAX_TREND_POINTS, RELATIVE_EPS
from stabdiag.stats.trend import block_means, without_line

# Errors below this fraction of the largest are raised to it.
_EXACT = 1e-6


@frozen
class Mean:
    """A mean, its standard error, and the deviation of single points from their trend."""

    value: float
    error: float
    deviation: float


@frozen
class Spread:
    """The spread of several means.

    ``deviation`` is their standard deviation; ``low`` and ``high`` bound its 95% interval.
    ``p_value`` is the probability of this spread if the errors of the means were its only source.
    """

    deviation: float
    low: float
    high: float
    p_value: float


def mean_and_error(x: Floats) -> Mean:
    """Return the mean of a series with a standard error that accounts for autocorrelation.

    Args:
        x: shape (n,), finite, n at least 4, evenly spaced.

    A straight line is removed first: runs with the same slope differ only in their level.
    The variance is stretched by the integrated autocorrelation time, summed over the initial
    positive sequence of pairs (Geyer 1992, doi:10.1214/ss/1177011137, section 3.3) and
    is never narrowed.
    """
    thin = block_means(x, MAX_TREND_POINTS)
    n = len(thin)
    residual = without_line(thin)
    power = float(residual @ residual)
    residuals = without_line(x)
    deviation = float(np.sqrt(residuals @ residuals / (len(x) - 2)))
    value = float(x.mean())
    least = RELATIVE_EPS * abs(value)
    if power <= (least * n) ** 2:
        return Mean(value=value, error=least, deviation=deviation)
    full = np.correlate(residual, residual, mode="full")[n - 1 :] / power
    pairs = full[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    time = max(2 * float(pairs[: negative[0] if len(negative) else None].sum()) - 1, 1.0)
    variance = power / (n - 2) * time / n
    return Mean(value=value, error=math.sqrt(variance), deviation=deviation)


def spread(values: Floats, errors: Floats) -> Spread:
    """Measure the spread of means beyond their own errors.

    Args:
        values: the means, shape (n,), n at least 2.
        errors: their standard errors; an error below a millionth of the largest counts as exact.

    Cochran's Q against chi-squared with n - 1 degrees of freedom (Cochran 1954,
    doi:10.2307/3001666, section 4). The interval assumes a normal sample: for two values it spans
    a factor of 70.
    """
    n = len(values)
    # In units of the largest error, so that squares cannot overflow.
    unit = max(float(errors.max()), float(np.finfo(np.float64).tiny))
    values, errors = values / unit, np.maximum(errors / unit, _EXACT)
    weight = 1 / errors**2
    centre = float((weight * values).sum() / weight.sum())
    q = float((weight * (values - centre) ** 2).sum())
    deviation = unit * float(values.std(ddof=1))
    return Spread(
        deviation=deviation,
        low=deviation * math.sqrt((n - 1) / chi_squared_quantile(MAX_CHANCE / 2, n - 1)),
        high=deviation * math.sqrt((n - 1) / chi_squared_quantile(1 - MAX_CHANCE / 2, n - 1)),
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


def chi_squared_quantile(probability: float, degrees: int) -> float:
    """Return the value that chi-squared exceeds with this probability, by bisection."""
    low, high = 0.0, float(degrees)
    while chi_squared_tail(high, degrees) > probability:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if chi_squared_tail(middle, degrees) > probability:
            low = middle
        else:
            high = middle
    return high
