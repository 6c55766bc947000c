"""Abrupt rises, judged by the few points just before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.stats.rise import MIN_RANGE_MULTIPLE
from stabdiag.stats.rolling import TrailingBaseline, rounding
from stabdiag.stats.shape import SearchWindows, Spike, describe
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    CONTEXT_POINTS,
    HALF,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    RELATIVE_EPS,
)
from stabdiag.stats.trend import without_line

# The search of the whole log misses obvious rises in a log shorter than two windows. There a rise
# is abrupt if it exceeds the points before it by MIN_RANGE_MULTIPLE times the detrended range of
# recent windows, and their highest point by this factor. Unless losses are means over an epoch,
# MIN_CONSECUTIVE points have to be as high: a single hard batch is not a rise.
MIN_LEVEL_RATIO = CLEAR_RATIO


def abrupt_spikes(
    x: Floats, reach: SearchWindows, sigmas: float, together: int, atypical: Mask | None
) -> tuple[Spike, ...]:
    """Return the abrupt spike of a series, if there is one.

    Args:
        x: shape (n,), finite.
        reach: the time to recover, in points, and the recovery threshold.
        sigmas: minimum height of the peak above the points before it, in standard deviations.
        together: the number of consecutive points that have to be as high.
        atypical: points, shape (n,), that are excluded from the level a spike has to return to.
    """
    at = _abrupt_rise(x, together)
    if at is None:
        return ()
    context = context_size(len(x))
    before, same = x[at - context : at], np.ones(len(x))
    sigma = max(float(before.std(ddof=1)), rounding(x), RELATIVE_EPS * float(np.ptp(x[: at + 1])))
    base = TrailingBaseline(level=before.mean() * same, sigma=sigma * same)
    spike = describe(x, base, at, replace(reach, window=context, least=context), atypical)
    has_returned = together == 1 and _has_returned(x, spike, reach.recovery_sigma)
    return (spike,) if spike.score > sigmas and not has_returned else ()


def _has_returned(x: Floats, spike: Spike, sigmas: float) -> bool:
    """Return True if the few losses between a peak and the end of the log are low again.

    That may be a single noisy epoch. A blow-up is a spike in any case.
    """
    after = x[spike.peak + 1 :]
    is_low = bool(len(after) and (after <= spike.base + sigmas * spike.sigma).all())
    return is_low and spike.recovered is None and not spike.is_blowup


def _abrupt_rise(x: Floats, together: int) -> int | None:
    """Return the position of the only abrupt rise of a positive series, or None.

    On a descent, a long window mistakes the slope for noise, so only the last few points are used.
    If other rises are at least half as high, the rise is usual for the run.
    """
    context = context_size(len(x))
    if len(x) < context + together or x.min() <= 0:
        return None
    windows = np.lib.stride_tricks.sliding_window_view
    before = windows(x[:-together], context)
    highest = before.max(axis=1)
    heights = windows(x[context:], together).min(axis=1) - highest

    def is_abrupt(position: int) -> bool:
        recent = before[max(position - MIN_TREND_POINTS + 1, 0) : position + 1]
        spread = max(float(np.ptp(without_line(row))) for row in recent)
        bar = max(MIN_RANGE_MULTIPLE * spread, (MIN_LEVEL_RATIO - 1) * float(highest[position]))
        return bool(heights[position] > bar)

    top = int(np.argmax(heights))
    others = np.concatenate([heights[: max(top - 1 - together, 0)], heights[top + context :]])
    if not is_abrupt(top) or (others >= HALF * heights[top]).any():
        return None
    # A blow-up keeps rising: its onset is the first abrupt point before the highest rise.
    return context + next(p for p in range(max(top - context, 0), top + 1) if is_abrupt(p))


def multiplies(x: Floats, spike: Spike) -> bool:
    """Return True if a loss that blows up multiplied at each of several points up to its peak.

    Args:
        x: shape (n,), finite.
        spike: an unrecovered spike.

    A bad batch raises a loss only once.
    """
    last = x[max(spike.peak - MIN_CONSECUTIVE, 0) : spike.peak + 1]
    multiplied = (last[:-1] > 0) & (last[1:] > MIN_LEVEL_RATIO * last[:-1])
    return spike.is_blowup and len(multiplied) == MIN_CONSECUTIVE and bool(multiplied.all())


def context_size(count: int) -> int:
    """Return the number of points before a rise that define its level; fewer in a short log."""
    return CONTEXT_POINTS if count >= 2 * CONTEXT_POINTS else MIN_CONSECUTIVE
