"""Rolling statistics of the points *before* each point, fast enough for millions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stabdiag.stats.quantiles import median, medians

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# A long log is taken in stretches of so many points, whose intermediate results stay in the cache.
_CACHED = 1 << 14


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
    for end in range(1, min(window, n)):
        out[end] = median(x[:end])
    if n > window:
        middles = medians(sliding_window_view(x, window)[:-1:hop])
        whole = window + (n - window) // hop * hop
        out[window:whole].reshape(-1, hop)[:] = middles[: (whole - window) // hop, np.newaxis]
        out[whole:] = middles[-1]
    return out
