"""Medians, quantiles, robust deviations and distinct counts of finite values.

The NumPy versions also look for NaN and import numpy.ma (15 ms), which takes longer than all
statistics of a small log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.stats.standards import RELATIVE_EPS, SUBSAMPLE_SIZE


def normal_tail(z: float) -> float:
    """Return the probability that a standard normal variable exceeds z; 0 if it is below 1e-16.

    This and ``normal_quantile`` do without the module statistics, whose import takes 2 % of the
    time of a small log.
    """
    return (1 - math.erf(z / math.sqrt(2))) / 2


@lru_cache  # most calls are for a few powers of two
def normal_quantile(chance: float) -> float:
    """Return the value that a standard normal variable exceeds with a chance, 0 < chance < 0.5.

    Newton's method on the logarithm of the tail, which is concave. It begins at the bound
    ``exp(-z**2 / 2) / 2`` of the tail (Chernoff), so that each step is towards the root.
    """
    z = math.sqrt(-2 * math.log(2 * chance))
    while True:
        tail = math.erfc(z / math.sqrt(2)) / 2
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        step = math.log(tail / chance) * tail / density
        z += step
        if abs(step) <= RELATIVE_EPS * z:
            return z


# Up to this many values, a sort takes less time than a partition and the maximum of the lower half.
_MAX_SORTED = 500

# The standard deviation of a normal distribution over its median absolute deviation.
MAD_TO_SIGMA = 1 / normal_quantile(0.25)


def distinct(values: Floats | Ints) -> int:
    """Return the number of distinct values, without NaN.

    ``np.unique`` takes six times the memory of a long series. Integers in a narrow range, such as
    batch ids, are counted in a tenth of the time.
    """
    if len(values) and np.ptp(values) < len(values):
        offsets = values - values.min()
        indices = offsets.astype(np.intp)
        if (offsets == indices).all():
            return int(np.count_nonzero(np.bincount(indices)))
    ordered = np.sort(values)
    return min(len(values), 1) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def is_constant(x: Floats) -> bool:
    """Return True if all values of a series, shape (n,), are equal; fast if its ends differ."""
    return not len(x) or (x[0] == x[-1] and not np.ptp(x))


def power_of_ten(exponent: float | Floats | Ints) -> Any:
    """Return ten to the power of a number, or of each number of an array."""
    return 10.0**exponent


def typical(x: Floats) -> float:
    """Return the median of finite values, shape (n,), n at least 1.

    For a long series, it is the median of an evenly spaced sample.
    """
    return median(x[:: max(len(x) // SUBSAMPLE_SIZE, 1)])


def usual_gap(steps: Ints) -> float:
    """Return the typical difference between successive steps, shape (n,); 1 for a single step."""
    if len(steps) < 2:
        return 1.0
    every = max((len(steps) - 1) // SUBSAMPLE_SIZE, 1)
    return median((steps[1:][::every] - steps[:-1][::every]).astype(np.float64))


def robust_sigma(x: Floats) -> float:
    """Return the median absolute deviation, scaled to estimate a normal's standard deviation.

    Hampel 1974, doi:10.1080/01621459.1974.10482962.

    Args:
        x: shape (n,), finite, n at least 1.
    """
    return MAD_TO_SIGMA * median(np.abs(x - median(x)))


def diff_sigma(x: Floats) -> float:
    """Return the robust deviation of single values, estimated from successive differences.

    Differences cancel a slope and vary sqrt(2) times as much as single values. For a long series, a
    sample of the differences is used.

    Args:
        x: shape (n,), finite, n at least 2.
    """
    every = max((len(x) - 1) // SUBSAMPLE_SIZE, 1)
    return robust_sigma(x[1:][::every] - x[:-1][::every]) / float(np.sqrt(2))


def median(x: Floats) -> float:
    """Return the median of finite values, shape (n,), n at least 1."""
    if len(x) > _MAX_SORTED:
        return float(medians(x[np.newaxis])[0])
    # This case is most of the calls for a small log, so it is written for single numbers.
    middle = len(x) // 2
    ordered = x.copy()
    ordered.sort()
    if len(x) % 2:
        return float(ordered[middle])
    return float((ordered[middle - 1] + ordered[middle]) / 2)


def medians(rows: Floats) -> Floats:
    """Return the median of each row of finite values: shape (rows, n), n at least 1."""
    middle = rows.shape[1] // 2
    ordered = rows.copy()
    if rows.shape[1] <= _MAX_SORTED:
        ordered.sort(axis=1)
        lower = ordered[:, max(middle - 1, 0)]
    else:
        ordered.partition(middle, axis=1)
        lower = ordered[:, :middle].max(axis=1)
    upper: Floats = ordered[:, middle]
    return upper if rows.shape[1] % 2 else (lower + upper) / 2


def quantiles(x: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of finite values, interpolated linearly.

    Args:
        x: shape (n,), n at least 1.
        shares: the quantiles, from 0 to 1. Pass only a few: partitioning a million values at 17
            positions takes NumPy three times as long as sorting them.
    """
    below = (np.asarray(shares) * (len(x) - 1)).astype(np.intp)
    above = np.minimum(below + 1, len(x) - 1)
    return quantiles_in_order(np.partition(x, np.append(below, above)), shares)


def quantiles_in_order(ordered: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of sorted finite values; see ``quantiles``."""
    at = np.asarray(shares) * (len(ordered) - 1)
    below = at.astype(np.intp)
    above = np.minimum(below + 1, len(ordered) - 1)
    part, step = at - below, ordered[above] - ordered[below]
    # Interpolate from the nearer end, as np.quantile does: the results are bit-identical.
    return np.where(part < 0.5, ordered[below] + step * part, ordered[above] - step * (1 - part))
