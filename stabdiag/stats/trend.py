"""Is a series rising?"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.quantiles import median, normal_quantile, normal_tail
from stabdiag.stats.standards import MAX_CHANCE, MAX_TREND_POINTS, MIN_COMPARED, RELATIVE_EPS

# An autocorrelation above this many standard deviations is not zero.
_SIGNIFICANT = normal_quantile(MAX_CHANCE)


def mann_kendall(x: Floats) -> float:
    """Return the one-sided p-value of a rising trend, corrected for autocorrelation.

    Args:
        x: shape (n,), finite; evenly spaced. Fewer than 4 points, and a constant, give 1.

    Mann (1945, doi:10.2307/1907187) with the variance correction of Hamed & Rao (1998,
    doi:10.1016/S0022-1694(97)00125-X, eq. 14): the autocorrelation of the ranks of the detrended
    series stretches the variance. Two differences: only positive autocorrelations up to the first
    insignificant lag count, and the correction never narrows the variance.
    """
    x = block_means(x, MAX_TREND_POINTS)
    n = len(x)
    if n < MIN_COMPARED or np.ptp(x) == 0:
        return 1.0
    score, variance = kendall_score(x)
    variance *= _variance_stretch(x)
    z = (score - math.copysign(1.0, score)) / math.sqrt(variance) if score else 0.0
    return normal_tail(z)


def kendall_score(x: Floats) -> tuple[float, float]:
    """Return Kendall's score of a rising trend, and its variance by chance.

    Args:
        x: shape (n,), finite, n at least 2; the variance is 0 if all values are equal.

    Mann 1945, doi:10.2307/1907187; the variance with ties is from Kendall 1975, Rank Correlation
    Methods, eq. 4.4.
    """
    values, ordered, rising = x.tolist(), list[float](), 0
    for value in values:
        lower = bisect_left(ordered, value)
        ordered.insert(lower, value)
        rising += lower
    ties = [size for size in Counter(values).values() if size > 1]
    pairs = math.comb(len(x), 2) - sum(math.comb(size, 2) for size in ties)
    spread, lost = _kendall_terms(len(x)), sum(map(_kendall_terms, ties))
    return 2 * rising - pairs, (spread - lost) / 18


def _kendall_terms(size: int) -> int:
    """Return 18 times the variance of the score of this many values without ties."""
    return size * (size - 1) * (2 * size + 5)


def _variance_stretch(x: Floats) -> float:
    n = len(x)
    residual = without_line(x)
    if np.ptp(residual) <= RELATIVE_EPS * np.ptp(x):
        return 1.0  # the residuals of a straight line are periodic rounding errors
    ranks = residual.argsort().argsort() - (n - 1) / 2
    power = float(ranks @ ranks)
    stretch = 0.0
    for lag in range(1, n - 2):
        rho = float(ranks[lag:] @ ranks[:-lag]) / power
        if rho < _SIGNIFICANT / math.sqrt(n):
            break
        stretch += (n - lag) * (n - lag - 1) * (n - lag - 2) * rho
    return 1.0 + 2.0 / (n * (n - 1) * (n - 2)) * stretch


def without_line(x: Floats) -> Floats:
    """Return the residuals of the least-squares line over the positions.

    Args:
        x: shape (n,), finite, n at least 2.
    """
    time = np.arange(len(x)) - (len(x) - 1) / 2
    slope = float(time @ x) / float(time @ time)
    residuals: Floats = x - x.mean() - slope * time
    return residuals


def block_means(x: Floats, max_points: int) -> Floats:
    """Return ``x``, shape (n,), averaged over equal blocks down to at most ``max_points`` points.

    An incomplete last block is dropped.
    """
    size = -(-len(x) // max_points)
    if size <= 1:
        return x
    count = len(x) // size
    means: Floats = x[: count * size].reshape(count, size).mean(axis=1)
    return means


def is_running_sum(x: Floats) -> bool:
    """Return True if a series always increases, by increments that do not grow.

    Args:
        x: shape (n,), finite, n at least 3.

    A running sum of losses that fall or stay constant looks like this. The increments of a
    diverging loss grow.
    """
    increments = np.diff(x)
    early, late = np.array_split(increments, 2)
    return bool((increments > 0).all() and median(late) <= median(early))
