"""Causal rolling baseline: the level and scale before each point, for millions of points."""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import MAD_TO_SIGMA, medians, typical
from stabdiag.stats.standards import (
    CACHED_POINTS,
    MIN_TREND_POINTS,
    QUARTERS,
    RELATIVE_EPS,
    SUBSAMPLE_SIZE,
    TENTH,
    TINY,
)

# On long logs or over wide windows, each median is reused for several points, so that at most this
# many values are sorted.
_MOST_SORTED = 500_000


def trailing_moments(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the ``window`` points before each point.

    Args:
        x: shape (n,), finite.
        window: number of points, at least 2.

    Returns:
        Two arrays of shape (n,), in units of ``x``; NaN for the first ``window`` points.

    Cumulative sums over the whole log lose precision to cancellation, and running updates never
    forget a value of 1e18. So each window is computed from its own points by the pairwise merging
    of Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115, eq. 2.1): runs of 2, 4, 8, …
    points for all positions, and then the runs whose lengths add up to the window.
    """
    mean, deviation = np.full((2, len(x)), np.nan)
    stretch = max(CACHED_POINTS, window)
    for start in range(window, len(x), stretch):
        end = min(start + stretch, len(x))
        mean[start:end], m2 = _moments(x[start - window : end - 1], window)
        deviation[start:end] = np.sqrt(m2 / window)
    return mean, deviation


def _moments(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return the mean and the sum of squared deviations of each ``window`` consecutive points."""
    windows = len(x) - window + 1
    runs, length = (x, np.zeros(len(x))), 1
    merged, covered = runs, 0
    while True:
        if window & length:
            end = _part(runs, slice(covered, covered + windows))
            merged = _merged(merged, covered, end, length) if covered else end
            covered += length
        if covered == window:
            return merged
        late, early = _part(runs, slice(length, None)), _part(runs, slice(None, -length))
        runs, length = _merged(early, length, late, length), 2 * length


def _part(moments: tuple[Floats, Floats], part: slice) -> tuple[Floats, Floats]:
    return moments[0][part], moments[1][part]


def _merged(
    left: tuple[Floats, Floats], left_count: int, right: tuple[Floats, Floats], right_count: int
) -> tuple[Floats, Floats]:
    """Return the combined moments of two sets of points."""
    gap = right[0] - left[0]
    mean = gap * (right_count / (left_count + right_count))
    mean += left[0]
    np.square(gap, out=gap)
    gap *= left_count * right_count / (left_count + right_count)
    gap += left[1]
    gap += right[1]
    return mean, gap


def trailing_median(x: Floats, window: int, hop: int = 1) -> Floats:
    """Return the median of the ``window`` points before each point.

    Args:
        x: shape (n,), finite.
        window: number of points; the first points use all points before them.
        hop: after the first full window, the median is updated every ``hop`` points.

    Returns:
        Shape (n,), in units of ``x``; NaN for the first point.
    """
    n = len(x)
    out = np.empty(n)
    out[:1] = np.nan
    ordered: list[float] = []
    for end, value in enumerate(x[: min(window, n) - 1].tolist(), start=1):
        insort(ordered, value)
        half = end // 2
        out[end] = ordered[half] if end % 2 else (ordered[half - 1] + ordered[half]) / 2
    if n > window:
        middles = medians(sliding_window_view(x, window)[:-1:hop])
        stop = window + (n - window) // hop * hop
        out[window:stop].reshape(-1, hop)[:] = middles[: (stop - window) // hop, np.newaxis]
        out[stop:] = middles[-1]
    return out


@frozen
class TrailingBaseline:
    """The expected level and deviation of each point: shape (n,) each, in units of the loss.

    ``level`` is a local median corrected for the trend, ``sigma`` a robust deviation from it.
    """

    level: Floats
    sigma: Floats


def baseline(x: Floats, window: int) -> TrailingBaseline:
    """Return the level and deviation of the points before each point.

    Args:
        x: shape (n,), finite, n at least 2.
        window: points used for the deviation; the level uses a quarter of them.

    Medians keep earlier spikes out of the baseline that judges the next one (Hampel 1974,
    doi:10.1080/01621459.1974.10482962). A trailing median lags behind a falling loss. Adding
    the median of its residuals corrects the lag for any steady slope.
    """
    short = max(window // QUARTERS, MIN_TREND_POINTS)
    level = preceding_median(x, short)
    level[0] = x[0]
    lag = preceding_median(x - level, 2 * short)
    lag[0] = 0.0
    level += lag
    del lag  # an array of ten million points takes 80 MB
    sigma = preceding_median(np.abs(x - level), window)
    sigma *= MAD_TO_SIGMA
    floor = max(TENTH * typical(sigma[1:]), rounding(x), TINY)
    # The deviation is at least a fraction of the level's range so far, or of the point's distance
    # from a constant level. Later points say nothing about earlier noise.
    sigma_floor = np.maximum.accumulate(level)
    sigma_floor -= np.minimum.accumulate(level)
    constant = sigma_floor <= 0
    sigma_floor[constant] = np.abs(x[constant] - level[constant])
    sigma_floor *= RELATIVE_EPS
    np.maximum(sigma_floor, floor, out=sigma_floor)
    return TrailingBaseline(level=level, sigma=np.fmax(sigma, sigma_floor, out=sigma))


def rounding(x: Floats) -> float:
    """Return the step that the values were rounded to, or 0 if they were not rounded.

    A loss logged with few digits is constant and then changes by a full step. With a deviation
    smaller than the step, every change would look like a spike.
    """
    values, counts = np.unique(x[-SUBSAMPLE_SIZE:], return_counts=True)
    if 2 * len(values) > min(len(x), SUBSAMPLE_SIZE):
        return 0.0
    # A value that occurs once or twice may be a spike above a constant.
    usual = values[counts > 2]
    return float(np.diff(usual).min()) if len(usual) > 1 else 0.0


def preceding_median(x: Floats, window: int) -> Floats:
    """Return the median of the ``window`` points before each point, at a bounded cost."""
    return trailing_median(x, window, max(-(-len(x) * window // _MOST_SORTED), 1))
