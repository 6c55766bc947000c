"""The period of a series that repeats its course."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.quantiles import robust_sigma
from stabdiag.stats.standards import (
    CLEAR,
    HALF,
    NEARLY_ALL,
    QUARTERS,
    SUBSAMPLE_SIZE,
    THIRD,
    THIRDS,
)

# The course is compared after a cubic trend is removed. Noise and drift have no correlation as high
# as HALF at a long lag. Between two periods it falls by more than this.
_TREND_DEGREE: Final = 3
_MIN_DROP: Final = THIRD


def find_period(x: Floats, shortest: int) -> int | None:
    """Return the period of a series in points, or None.

    Args:
        x: shape (n,), finite. Its first third, which has the initial descent, is not used.
        shortest: the minimum period in points.

    The autocorrelation (Box and Jenkins 1970, section 2.1) has its highest peak at the period, and
    the values of half of it differ. A smooth wave has a period as well: most of its power is in one
    harmonic. It is not the order of the data, so it does not count.
    """
    y = x[len(x) // THIRDS :]
    n = len(y)
    if n < QUARTERS * shortest or len(x) > SUBSAMPLE_SIZE:
        return None
    at = np.linspace(-1.0, 1.0, n)
    y = y - np.polyval(np.polyfit(at, y, _TREND_DEGREE), at)
    bound = CLEAR * robust_sigma(y)
    y = np.clip(y, -bound, bound)
    power = float(y @ y) / n
    if power <= 0:
        return None
    # A power of two is fast to transform; the zeros behind the values keep the ends apart.
    spectrum = np.abs(np.fft.rfft(y, 2 << n.bit_length())) ** 2
    last = n // THIRDS
    correlations = np.fft.irfft(spectrum)[: last + 1] / (n - np.arange(last + 1)) / power
    highest = float(correlations[shortest:].max())
    if highest < HALF:
        return None
    # Multiples of the period have peaks as well.
    period = shortest + int(np.argmax(correlations[shortest:] >= NEARLY_ALL * highest))
    period += int(np.argmax(correlations[period : period + max(period // QUARTERS, 1)]))
    valley = float(correlations[period // QUARTERS : period].min())
    if highest - valley < _MIN_DROP or n < THIRDS * period:
        return None
    course = y[: n // period * period].reshape(-1, period).mean(axis=0)
    harmonics = np.abs(np.fft.rfft(course - course.mean())) ** 2
    return period if harmonics[1] <= HALF * harmonics.sum() else None
