"""Rolling statistics of the points *before* each point, fast enough for millions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stabdiag.stats.quantiles import median, medians

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# A normal distribution's standard deviation in units of its median absolute deviation.
MAD_TO_SIGMA = 1.4826

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
    trace of a value of 1e18 for ever. So the points are cut in blocks of ``window``: every window
    is the end of one block and the beginning of the next, and the moments of the two are merged by
    Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115, eq. 2.1). Each block is shifted
    first by the middle one of three of its points, which keeps the squares small where they matter.
    """
    mean, deviation = np.full((2, len(x)), np.nan)
    stretch = max(_CACHED // window, 1) * window
    for start in range(0, len(x) - window, stretch):
        part = x[start : start + window + stretch]
        done = slice(start + window, start + len(part))
        mean[done], deviation[done] = _moments(part, window)
    return mean, deviation


def _moments(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return the trailing moments of all points but the first ``window``, which have none."""
    n = len(x)
    blocks = -(-n // window)
    padded = np.append(x, np.full(blocks * window - n, x[-1]))
    grid = padded.reshape(blocks, window)
    shift = medians(grid[:, [0, window // 2, -1]])[:, np.newaxis]
    grid = grid - shift
    head_mean, head_m2 = _prefix_moments(grid, shift)
    tail_mean, tail_m2 = (part[:, ::-1] for part in _prefix_moments(grid[:, ::-1], shift))
    # The window before point (b, j) is block b-1 from j on (window - j points) and block b up to
    # j (j points); for j = 0 it is the whole of block b-1.
    in_head = np.arange(1, window)
    in_tail = window - in_head
    gap = head_mean[1:, :-1] - tail_mean[:-1, 1:]
    merged_mean = tail_mean[:-1, 1:] + gap * (in_head / window)
    merged_m2 = head_m2[1:, :-1] + tail_m2[:-1, 1:] + gap**2 * (in_head * in_tail / window)
    mean = np.concatenate([tail_mean[:-1, :1], merged_mean], axis=1).ravel()
    m2 = np.concatenate([tail_m2[:-1, :1], merged_m2], axis=1).ravel()
    return mean[: n - window], np.sqrt(m2[: n - window] / window)


def _prefix_moments(centred: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Return mean and sum of squared deviations of each row's first 1, 2, … entries."""
    count = np.arange(1, centred.shape[1] + 1)
    total = np.cumsum(centred, axis=1)
    squares = np.square(centred)
    m2 = np.cumsum(squares, axis=1, out=squares)
    # In place: m2 - total² / count, total / count.
    mean = total / count
    np.multiply(total, mean, out=total)
    np.subtract(m2, total, out=m2)
    np.maximum(m2, 0.0, out=m2)
    mean += shift
    return mean, m2


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
