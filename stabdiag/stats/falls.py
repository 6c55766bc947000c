"""Whether a series ends lower than it began, beyond its noise."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.course import end_level, late_spread, level_error, second_half
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import diff_sigma, median, normal_quantile, quantiles
from stabdiag.stats.smoothing import MovingAverage
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    FAR_RATIO,
    MAX_CHANCE_OF_MANY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    QUARTERS,
    RELATIVE_EPS,
    SUBSAMPLE_SIZE,
    TENTHS,
    TWENTIETHS,
)
from stabdiag.stats.trend import kendall_score, mann_kendall

# The first of 20 levels are compared with the last 10. A t of 4.3 with nine degrees of freedom and
# a trend of 3.1 standard deviations each have a chance of 1 in 1,000. The first three of 40 levels
# exceed each of the last 20 with a chance of 1 in 1,771.
_EARLY_LEVELS: Final = 2
_T_LEVELS: Final = 4.3
_TREND_SIGMAS: Final = normal_quantile(MAX_CHANCE_OF_MANY)

# A start is above the later losses if its first three values are in the highest twentieth of the
# second half (chance 1 in 8,000). The distance in standard deviations guards against
# autocorrelated noise.
_HIGHEST: Final = 1 - NEGLIGIBLE

# A single first value has to exceed the whole second half, by more standard deviations.
_ONE_FAR: Final = CLEAR


def falls(x: Floats, average: MovingAverage | None, spread: float) -> bool:
    """Return True if a series ends lower than it began, beyond its noise.

    Args:
        x: shape (n,), finite, n at least 4.
        average: the moving average that it is, or None.
        spread: its spread in the second half, see ``late_spread``.

    Its first values or levels are far above its second half, or it has a falling trend. The values
    of a moving average are not independent: it falls if it loses far more than a single value
    varies, or if the single values fall.
    """
    if not _is_lower_at_end(x, spread):
        # A log that leaves out its middle shows a descent in its last few values alone.
        last = float(x[-MIN_CONSECUTIVE:].max())
        return 0 < last < float(x[: len(x) // 2].min()) / FAR_RATIO
    # An average may begin with a single value, but usual noise is not that far above its mean.
    if 0 < end_level(x) < float(x[0]) / FAR_RATIO:
        return True
    if average is None or float(x[0]) - end_level(x) > BEYOND_CHANCE * average.value_sigma:
        return True
    return _is_lower_at_end(average.values, late_spread(average.values, diff_sigma(average.values)))


def _is_lower_at_end(x: Floats, spread: float) -> bool:
    """Return True if independent values end lower than they began."""
    every = max(len(x) // SUBSAMPLE_SIZE, 1)
    late, last = second_half(x)[::every], end_level(x)
    high = float(quantiles(late, (_HIGHEST,))[0])
    start = float(x[:MIN_CONSECUTIVE].min())
    if start > high and start - last > BEYOND_CHANCE * spread:
        return True
    highest = late.max()
    if x[0] > highest and x[0] - last > _ONE_FAR * spread:
        return True
    parts = levels(x, TWENTIETHS)
    fine = levels(x, 2 * TWENTIETHS) if len(x) >= QUARTERS * TWENTIETHS else parts[:0]
    if _levels_fall(parts, fine) or mann_kendall(-x) < MAX_CHANCE_OF_MANY:
        return True
    # The noise of a positive loss is often proportional to its level.
    if parts.min() > 0 and _levels_fall(np.log(parts), fine):
        return True
    return _starts_higher(x)


def _starts_higher(x: Floats) -> bool:
    """Return True if the first tenth is above the second half, by more than its noise.

    Neighboring values that are alike count for fewer: n (1 - r) / (1 + r) of n values with the
    autocorrelation r are independent (Bayley and Hammersley 1946, doi:10.2307/2983560).
    """
    early, late = x[: max(len(x) // TENTHS, MIN_SAMPLE)], second_half(x)
    if len(late) < QUARTERS * MIN_SAMPLE:
        return False
    centered = late - late.mean()
    variance = float(np.mean(centered**2))
    if variance <= 0:
        return False
    alike = min(max(float(np.mean(centered[1:] * centered[:-1])) / variance, 0.0), 1 - NEGLIGIBLE)
    sigma = math.sqrt(variance * (1 + alike) / (1 - alike))
    return median(early) - median(late) > _T_LEVELS * level_error(sigma, len(early), len(late))


def _levels_fall(parts: Floats, fine: Floats) -> bool:
    """Return True if the first levels of a series are above the later ones, or levels have a trend.

    Args:
        parts: the levels of 20 stretches, of fewer in a short log.
        fine: the levels of 40 stretches; empty in a short log.
    """
    early, later = parts[:_EARLY_LEVELS], parts[len(parts) // 2 :]
    error = float(later.std(ddof=1)) * (1 / len(early) + 1 / len(later)) ** 0.5
    smallest = RELATIVE_EPS * float(np.abs(parts).max())
    if float(early.mean() - later.mean()) > _T_LEVELS * max(error, smallest):
        return True
    if len(fine) and fine[:MIN_CONSECUTIVE].min() > fine[len(fine) // 2 :].max():
        return True
    score, variance = kendall_score(-parts)
    return score > _TREND_SIGMAS * math.sqrt(variance)
