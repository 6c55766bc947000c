"""The shape of a spike: onset, height and recovery."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import median, medians
from stabdiag.stats.rolling import TrailingBaseline
from stabdiag.stats.standards import (
    CLEAR,
    CONTEXT_POINTS,
    FIFTH,
    MAJORITY,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    QUARTERS,
)

# A loss that grows by this factor has blown up.
BLOWUP_RATIO = 20.0

# The square of a value above this overflows in fp32; no healthy loss is as large.
FP32_SQUARE_OVERFLOW = math.sqrt(np.finfo(np.float32).max)

# A loss within this many times the recovery threshold of its base is not an outlier. The recovery
# is smoothed over this part of its window.
_OUTLIER_FACTOR = 4
_SMOOTHINGS = 5

# A loss recovered late if at least this fraction of its levels since then is low.
_MIN_LOW_FRACTION = MAJORITY


@frozen
class SearchWindows:
    """The lengths used by the search for spikes, in logged points.

    ``window`` is the length of the baseline and ``least`` its minimum. A spike recovers if it
    returns to within ``recovery_sigma`` standard deviations of its base in ``recovery`` points.
    """

    window: int
    least: int
    recovery: int
    recovery_sigma: float = 0.5


@frozen(eq=True)
class Spike:
    """A spike, as positions in the searched array.

    ``base`` and ``sigma`` are the mean and the deviation before the onset, ``level`` is the
    expected value at the onset. ``score`` is the height of the peak above that level in units of
    the local, robust deviation. ``recovered`` is None if the log ends too early. ``end`` is the
    point of recovery, or the last point of the recovery window.
    """

    onset: int
    peak: int
    end: int
    base: float
    sigma: float
    level: float
    height: float
    score: float
    recovered: bool | None

    @property
    def is_blowup(self) -> bool:
        """Whether the loss grew by a factor too large for a shift of the level."""
        return self.height > BLOWUP_RATIO * max(abs(self.base), self.sigma)


def describe(
    x: Floats, base: TrailingBaseline, at: int, reach: SearchWindows, atypical: Mask | None
) -> Spike:
    """Measure the spike that begins at a position.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        at: the onset.
        reach: the recovery window, in points.
        atypical: points, shape (n,), that are excluded from the level a spike has to return to.
    """
    mean, sigma = _frozen(x, base, at, reach, atypical)
    stop = min(at + reach.recovery, len(x))
    back = _recovery(x, at, mean, reach.recovery_sigma * sigma, reach.recovery)
    end = stop if back is None else back
    peak = at + int(np.argmax(x[at:end]))
    complete = at + reach.recovery <= len(x)
    recent = x[max(at - reach.window, 0) : at]
    return Spike(
        onset=at,
        peak=peak,
        end=end,
        base=mean,
        sigma=sigma,
        # An extrapolated trend may leave the range of the logged values.
        level=float(np.clip(base.level[at], recent.min(), recent.max())),
        height=float(x[peak] - mean),
        score=float((x[peak] - base.level[at]) / base.sigma[at]),
        recovered=True if back is not None else (False if complete else None),
    )


def _frozen(
    x: Floats, base: TrailingBaseline, at: int, reach: SearchWindows, atypical: Mask | None
) -> tuple[float, float]:
    """Return the mean and deviation of the window before the onset without earlier outliers."""
    before = x[:at] if atypical is None else x[:at][~atypical[:at]]
    before = (
        before[-reach.window :] if len(before) >= reach.least else x[max(at - reach.window, 0) : at]
    )
    usual = np.abs(before - median(before)) <= CLEAR * base.sigma[at]
    kept = before[usual] if usual.any() else before
    return float(kept.mean()), max(float(kept.std()), float(base.sigma[at]))


def _recovery(x: Floats, at: int, level: float, slack: float, reach: int) -> int | None:
    """Return the position after ``at`` where the loss recovers, or None.

    One lucky point is not a recovery: the median over a fifth of the recovery window has to be
    within bounds. The recovery is dated by the raw loss: the first point within bounds after the
    last outlier.
    """
    smooth = _smoothing(reach)
    majority = smooth // 2 + 1
    for back in range(at + 1, min(at + reach, len(x) - 1) + 1):
        ahead = x[back : back + smooth]
        if len(ahead) < min(majority, MIN_CONSECUTIVE) or x[back] > level + _OUTLIER_FACTOR * slack:
            continue
        # If only a few points are left at the end of the log, all of them have to be within bounds.
        height = median(ahead) if len(ahead) >= majority else float(ahead.max())
        if height <= level + slack:
            outside = np.flatnonzero(x[at:back] > level + _OUTLIER_FACTOR * slack)
            first = at + 1 + (int(outside[-1]) if len(outside) else 0)
            recovery = first + int(np.argmax(x[first : back + smooth] <= level + slack))
            return recovery if recovery <= at + reach else None
    return None


def _smoothing(reach: int) -> int:
    """Return the width of the median filter for a recovery within ``reach`` points."""
    return min(max(reach // _SMOOTHINGS, MIN_CONSECUTIVE), MIN_TREND_POINTS)


def late_recovery(x: Floats, spike: Spike, sigmas: float) -> int | None:
    """Return the position where a loss recovered after the recovery window, or None.

    Args:
        x: shape (n,), finite.
        spike: a spike that did not recover in its window.
        sigmas: the recovery threshold, in standard deviations above the base.

    The loss is smoothed by medians, as for a recovery in time, but over a fifth of the losses that
    follow. Most of the medians since the recovery have to be low as well.
    """
    after = x[spike.end :]
    width = _smoothing(len(after))
    skipped = len(after) % width
    smooth = medians(after[skipped:].reshape(-1, width))
    low = smooth <= spike.base + sigmas * spike.sigma
    first = int(np.argmax(low)) if low.any() else 0
    if not low.any() or not low[-1] or low[first:].mean() < _MIN_LOW_FRACTION:
        return None
    return spike.end + skipped + (first + 1) * width - 1


def blowup_start(x: Floats, at: int) -> int:
    """Return the position where a loss rose far above everything before it, and stayed there.

    Args:
        x: shape (n,), finite.
        at: the position of a detected problem, which an earlier blow-up may have hidden by raising
            the level. It is returned if the loss did not blow up before.

    The loss has to exceed the maximum of the points before by BLOWUP_RATIO, within twice their
    number of points.
    """
    before = x[:at]
    if len(before) < 2 * MIN_CONSECUTIVE or before.min() <= 0:
        return at
    highest, lowest = np.maximum.accumulate(before), np.minimum.accumulate(before[::-1])[::-1]
    count, start = np.arange(1, at + 1), np.searchsorted(lowest, BLOWUP_RATIO * highest, "right")
    is_far = (count >= MIN_CONSECUTIVE) & (start <= 2 * count) & (at - start >= MIN_CONSECUTIVE)
    return int(start[is_far.argmax()]) if is_far.any() else at


def rise_points(x: Floats, at: int, reach: SearchWindows) -> int:
    """Return the number of points that the loss took to rise from 20% to 60% of its peak height.

    Args:
        x: shape (n,), finite.
        at: the position where the rise was detected.
        reach: the windows to search for the start of the rise and its peak.

    The height is measured from the lowest level before ``at`` to the peak after it. A spike rises
    immediately, a climb gradually. The loss is smoothed by medians of 5; a peak that disappears is
    a spike of a few points. The logarithm is used for a loss that blows up: from 2 to 9,000 is a
    jump even if the loss then grows to a million.
    """
    first, last = max(at - 2 * reach.window, 0), min(at + QUARTERS * reach.recovery, len(x))
    part = x[first:last]
    if part.min() > 0 and part.max() > BLOWUP_RATIO * median(part[: at - first + 1]):
        x, first, last, at = np.log(part), 0, last - first, at - first
    smooth = centered_median(x[first:last], CONTEXT_POINTS)
    before, after = smooth[: at - first + 1], smooth[at - first :]
    low = min(
        median(part) for part in np.array_split(before, max(len(before) // MIN_TREND_POINTS, 1))
    )
    peak = at - first + int(np.argmax(after))
    height = float(smooth[peak]) - low
    if height < 0.5 * (float(x[at:last].max()) - low):
        return 1
    below = np.flatnonzero(smooth[:peak] <= low + FIFTH * height)
    foot = int(below[-1]) if len(below) else 0
    upper = foot + int(np.argmax(smooth[foot : peak + 1] >= low + 0.6 * height))
    return max(upper - foot, 1)


def centered_median(x: Floats, width: int) -> Floats:
    """Return the median of the ``width`` points around each point, for an odd width."""
    padded = np.pad(x, width // 2, mode="edge")
    return medians(np.lib.stride_tricks.sliding_window_view(padded, width))
