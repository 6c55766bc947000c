"""Rises that the few points just before them are enough to tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.stats.levels import CONTEXT_POINTS, MIN_CONSECUTIVE
from stabdiag.stats.peaks import HALF
from stabdiag.stats.quantiles import MIN_TREND_POINTS, RELATIVE_EPS
from stabdiag.stats.rise import MIN_RANGE_MULTIPLE
from stabdiag.stats.rolling import Baseline, rounding
from stabdiag.stats.shape import SearchWindows, Spike, describe
from stabdiag.stats.trend import without_line

# In a log shorter than two windows the search of the whole log is blind to much that is plain to
# see. There a rise is abrupt that begins so many times as far above so many points before it as any
# of the last few such windows spans beside its trend, and is that many times as high as the highest
# of them. Of losses that are no means over an epoch, so many in a row are no single hard batch.
MIN_LEVEL_RATIO = 1.5


def abrupt_spikes(
    x: Floats, reach: SearchWindows, sigmas: float, together: int, atypical: Mask | None
) -> tuple[Spike, ...]:
    """Return the spike that the points just before it are enough to tell, if there is one.

    Args:
        x: shape (n,), finite.
        reach: the time to recover, in points, and how near.
        sigmas: its peak lies more than so many deviations of these points above their mean.
        together: so many points in a row have to be as high.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.
    """
    at = _abrupt_rise(x, together)
    if at is None:
        return ()
    beside = context_size(len(x))
    before, same = x[at - beside : at], np.ones(len(x))
    sigma = max(float(before.std(ddof=1)), rounding(x), RELATIVE_EPS * float(np.ptp(x[: at + 1])))
    base = Baseline(level=before.mean() * same, sigma=sigma * same)
    spike = describe(x, base, at, replace(reach, window=beside, least=beside), atypical)
    return (spike,) if spike.score > sigmas else ()


def _abrupt_rise(x: Floats, together: int) -> int | None:
    """Return the position where a positive series rises abruptly, as it does nowhere else, or None.

    On a descent the noise over a long window is that of the way down: what was just before tells
    more. But if other rises are nearly as high, it is what the run does.
    """
    beside = context_size(len(x))
    if len(x) < beside + together or x.min() <= 0:
        return None
    windows = np.lib.stride_tricks.sliding_window_view
    before = windows(x[:-together], beside)
    highest = before.max(axis=1)
    up = windows(x[beside:], together).min(axis=1) - highest

    def is_abrupt(place: int) -> bool:
        lately = before[max(place - MIN_TREND_POINTS + 1, 0) : place + 1]
        spread = max(float(np.ptp(without_line(row))) for row in lately)
        least = max(MIN_RANGE_MULTIPLE * spread, (MIN_LEVEL_RATIO - 1) * float(highest[place]))
        return bool(up[place] > least)

    top = int(np.argmax(up))
    others = np.concatenate([up[: max(top - 1 - together, 0)], up[top + beside :]])
    if not is_abrupt(top) or (others >= HALF * up[top]).any():
        return None
    # What explodes goes on rising: it began where it first did so.
    return beside + next(p for p in range(max(top - beside, 0), top + 1) if is_abrupt(p))


def multiplies(x: Floats, spike: Spike) -> bool:
    """Tell whether a loss that explodes multiplied at each of several points up to its peak.

    Args:
        x: shape (n,), finite.
        spike: one that had not recovered.

    A bad batch lifts a loss once.
    """
    last = x[max(spike.peak - MIN_CONSECUTIVE, 0) : spike.peak + 1]
    grew = (last[:-1] > 0) & (last[1:] > MIN_LEVEL_RATIO * last[:-1])
    return spike.is_blowup and len(grew) == MIN_CONSECUTIVE and bool(grew.all())


def context_size(count: int) -> int:
    """Return how many points before a rise tell its level: fewer in a log of a few lines."""
    return CONTEXT_POINTS if count >= 2 * CONTEXT_POINTS else MIN_CONSECUTIVE
