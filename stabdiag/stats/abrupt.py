"""Rises so abrupt that the few points just before them are enough to tell them by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import NOUGHT, Baseline, rounding
from stabdiag.stats.excursions import ALONE
from stabdiag.stats.shape import Reach, Spike, describe
from stabdiag.stats.trend import without_line

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Mask

# An abrupt rise begins so many times as far above so many points before it as any of the last ten
# such windows spans beside its trend, and is that many times as high as the highest of them.
BEFORE = 5
_WINDOWS = 10
_RANGES = 3.0
_TIMES = 1.5


def abrupt_rise(x: Floats, together: int) -> int | None:
    """Return the position where a positive series rises abruptly, as it does nowhere else, or None.

    Args:
        x: shape (n,), finite.
        together: so many points in a row have to be as high.

    On a descent the noise over a long window is that of the way down: what was just before tells
    more. But if other rises are nearly as high, it is what the run does.
    """
    if len(x) < BEFORE + together or x.min() <= 0:
        return None
    windows = np.lib.stride_tricks.sliding_window_view
    before = windows(x[:-together], BEFORE)
    highest = before.max(axis=1)
    up = windows(x[BEFORE:], together).min(axis=1) - highest
    place = int(np.argmax(up))
    lately = before[max(place - _WINDOWS + 1, 0) : place + 1]
    spread = max(float(np.ptp(without_line(row))) for row in lately)
    least = max(_RANGES * spread, (_TIMES - 1) * float(highest[place]))
    others = np.concatenate([up[: max(place - 1 - together, 0)], up[place + BEFORE :]])
    unlike = up[place] > least and not (others >= ALONE * up[place]).any()
    return place + BEFORE if unlike else None


def abrupt_spikes(
    x: Floats, reach: Reach, sigmas: float, together: int, atypical: Mask | None
) -> tuple[Spike, ...]:
    """Return the spike that the points just before it are enough to tell, if there is one.

    Args:
        x: shape (n,), finite.
        reach: how long to watch, in points.
        sigmas: its peak lies more than so many deviations of these points above their mean.
        together: so many points in a row have to be as high.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.
    """
    at = abrupt_rise(x, together)
    if at is None:
        return ()
    before, same = x[at - BEFORE : at], np.ones(len(x))
    sigma = max(float(before.std(ddof=1)), rounding(x), NOUGHT * float(np.ptp(x[: at + 1])))
    base = Baseline(level=before.mean() * same, sigma=sigma * same)
    spike = describe(x, base, at, replace(reach, window=BEFORE, least=BEFORE), atypical)
    return (spike,) if spike.score > sigmas else ()
