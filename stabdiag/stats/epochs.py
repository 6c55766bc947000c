"""Logs of epochs: few points, each the mean over many batches, with little noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import Baseline, rounding
from stabdiag.stats.excursions import ALONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# An epoch is odd if it lies this many times as far above so many before it as these lie apart,
# their trend taken out, and is that many times as high as the highest of them.
BEFORE = 5
_RANGES = 3.0
_TIMES = 1.5


def odd_epoch(x: Floats) -> int | None:
    """Return the position of the epoch whose mean rises unlike all others, or None.

    Args:
        x: shape (n,), finite.

    What was just before is enough to tell a loss that doubles. But if others rise nearly as much,
    it is what the run does.
    """
    if len(x) <= BEFORE or x.min() <= 0:
        return None
    before = np.lib.stride_tricks.sliding_window_view(x[:-1], BEFORE)
    highest = before.max(axis=1)
    up = x[BEFORE:] - highest
    place = int(np.argmax(up))
    spread = float(np.ptp(_off_their_line(before[place])))
    least = max(_RANGES * spread, (_TIMES - 1) * float(highest[place]))
    others = np.concatenate([up[: max(place - 2, 0)], up[place + BEFORE :]])
    unlike = up[place] > least and not (others >= ALONE * up[place]).any()
    return place + BEFORE if unlike else None


def baseline_of_epoch(x: Floats, at: int) -> Baseline:
    """Return the level and deviation to expect of an epoch, by those just before it.

    Args:
        x: shape (n,), finite.
        at: the position of the epoch, at least 5.

    Returns:
        The same for all positions. Over more epochs a descent would pass for noise.
    """
    before = x[at - BEFORE : at]
    sigma = max(float(before.std(ddof=1)), rounding(x), 1e-9 * float(np.ptp(x)))
    return Baseline(level=np.full(len(x), before.mean()), sigma=np.full(len(x), sigma))


def _off_their_line(x: Floats) -> Floats:
    """Return the residuals of a least-squares line over the positions."""
    t = np.arange(len(x)) - (len(x) - 1) / 2
    residuals: Floats = x - x.mean() - t * float(t @ x) / float(t @ t)
    return residuals
