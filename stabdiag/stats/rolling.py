"""What the points *before* each point tell to expect of it, fast enough for millions of points."""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import (
    MAD_TO_SIGMA,
    MIN_TREND_POINTS,
    RELATIVE_EPS,
    SUBSAMPLE_SIZE,
    medians,
    typical,
)

# A long log is taken in stretches of so many points, whose intermediate results stay in the cache.
_CACHED = 1 << 14

# On long logs, or over wide windows, each median holds for several points, so that no more values
# than this are sorted.
_MOST_SORTED = 500_000


def trailing_moments(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the ``window`` points before each point.

    Args:
        x: shape (n,), finite.
        window: number of points, at least 2.

    Returns:
        Two arrays of shape (n,), in units of ``x``; NaN for the first ``window`` points.

    Differences of cumulative sums over the whole log cancel badly, and running updates keep the
    trace of a value of 1e18 for ever. So each window is put together from its own points alone, by
    the pairwise merging of Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115,
    eq. 2.1): runs of 2, 4, 8, … points for all places at once, and of these the ones whose lengths
    add up to the window.
    """
    mean, deviation = np.full((2, len(x)), np.nan)
    stretch = max(_CACHED, window)
    for start in range(window, len(x), stretch):
        end = min(start + stretch, len(x))
        mean[start:end], m2 = _moments(x[start - window : end - 1], window)
        deviation[start:end] = np.sqrt(m2 / window)
    return mean, deviation


def _moments(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return mean and sum of squared deviations of each ``window`` points in a row."""
    windows = len(x) - window + 1
    runs, length = (x, np.zeros(len(x))), 1
    whole, covered = runs, 0
    while True:
        if window & length:
            end = _part(runs, slice(covered, covered + windows))
            whole = _merged(whole, covered, end, length) if covered else end
            covered += length
        if covered == window:
            return whole
        late, early = _part(runs, slice(length, None)), _part(runs, slice(None, -length))
        runs, length = _merged(early, length, late, length), 2 * length


def _part(moments: tuple[Floats, Floats], part: slice) -> tuple[Floats, Floats]:
    return moments[0][part], moments[1][part]


def _merged(
    one: tuple[Floats, Floats], count: int, other: tuple[Floats, Floats], others: int
) -> tuple[Floats, Floats]:
    """Return the moments of ``count`` points and ``others`` together."""
    gap = other[0] - one[0]
    mean = gap * (others / (count + others))
    mean += one[0]
    np.square(gap, out=gap)
    gap *= count * others / (count + others)
    gap += one[1]
    gap += other[1]
    return mean, gap


def trailing_median(x: Floats, window: int, hop: int = 1) -> Floats:
    """Return the median of the ``window`` points before each point.

    Args:
        x: shape (n,), finite.
        window: number of points; the first points take what there is, at least one.
        hop: from the first whole window on, the median is renewed every ``hop`` points and holds
            until then (a million points need no million medians).

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
        whole = window + (n - window) // hop * hop
        out[window:whole].reshape(-1, hop)[:] = middles[: (whole - window) // hop, np.newaxis]
        out[whole:] = middles[-1]
    return out


@frozen
class Baseline:
    """The level and deviation expected of each point: shape (n,) each, in units of the loss.

    ``level`` is a local median corrected for the trend, ``sigma`` a robust deviation from it.
    """

    level: Floats
    sigma: Floats


def baseline(x: Floats, window: int) -> Baseline:
    """Return level and deviation of the points before each point.

    Args:
        x: shape (n,), finite, n at least 2.
        window: points that the deviation is taken over; the level follows a quarter of them.

    Medians keep earlier spikes out of the baseline that judges the next one (Hampel 1974,
    doi:10.1080/01621459.1974.10482962). A trailing median lags behind a falling loss: the median
    of its own residuals is added, which takes a steady slope, up or down, out of them.
    """
    short = max(window // 4, MIN_TREND_POINTS)
    level = median_before(x, short)
    level[0] = x[0]
    lag = median_before(x - level, 2 * short)
    lag[0] = 0.0
    level += lag
    del lag  # of ten million points, each array is 80 MB
    sigma = median_before(np.abs(x - level), window)
    sigma *= MAD_TO_SIGMA
    floor = max(0.1 * typical(sigma[1:]), rounding(x), 1e-300)
    # A deviation is at least a share of what the level has spanned so far, or while it stood still
    # of the point's distance from it. What comes later tells nothing of the noise before.
    nought = np.maximum.accumulate(level)
    nought -= np.minimum.accumulate(level)
    stood = nought <= 0
    nought[stood] = np.abs(x[stood] - level[stood])
    nought *= RELATIVE_EPS
    np.maximum(nought, floor, out=nought)
    return Baseline(level=level, sigma=np.fmax(sigma, nought, out=sigma))


def rounding(x: Floats) -> float:
    """Return the step to which the values were rounded, or 0 if they were not.

    A loss that was logged to one digit stands still and then moves by a whole step: a deviation
    smaller than the step would make a spike of every move.
    """
    values, counts = np.unique(x[-SUBSAMPLE_SIZE:], return_counts=True)
    if 2 * len(values) > min(len(x), SUBSAMPLE_SIZE):
        return 0.0
    # What was seen once or twice may be a spike above a constant.
    usual = values[counts > 2]
    return float(np.diff(usual).min()) if len(usual) > 1 else 0.0


def median_before(x: Floats, window: int) -> Floats:
    """Return the median of the ``window`` points before each point, at a bounded cost."""
    return trailing_median(x, window, max(-(-len(x) * window // _MOST_SORTED), 1))
