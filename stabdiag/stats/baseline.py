"""The level and deviation to expect of each point, from the points before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import MAD_TO_SIGMA, typical
from stabdiag.stats.rolling import trailing_median

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# On long logs, or over wide windows, each median holds for several points, so that no more medians
# than this are taken, nor more values than this sorted for them.
_MOST_MEDIANS = 10_000
_MOST_SORTED = 1_000_000

# The level follows at least so many points: fewer are noisier than what they follow.
_SHORTEST = 12

# A deviation is at least this share of what the level has spanned so far, or while it stood still
# of the point's distance from it. What the run blows up to later tells nothing of the noise before.
NOUGHT = 1e-9

# Values were rounded if at most this share of the last so many are distinct.
_SAMPLE = 10_000
_FEW_VALUES = 0.2


@dataclass(frozen=True, kw_only=True, eq=False)
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
    short = max(window // 4, _SHORTEST)
    level = median_before(x, short)
    level[0] = x[0]
    lag = median_before(x - level, 2 * short)
    lag[0] = 0.0
    level = level + lag
    sigma = median_before(np.abs(x - level), window) * MAD_TO_SIGMA
    floor = max(0.1 * typical(sigma[1:]), rounding(x), 1e-300)
    so_far = np.maximum.accumulate(level) - np.minimum.accumulate(level)
    nought = NOUGHT * np.where(so_far > 0, so_far, np.abs(x - level))
    return Baseline(level=level, sigma=np.fmax(sigma, np.maximum(floor, nought)))


def rounding(x: Floats) -> float:
    """Return the step to which the values were rounded, or 0 if they were not.

    A loss that was logged to one digit stands still and then moves by a whole step: a deviation
    smaller than the step would make a spike of every move.
    """
    values, counts = np.unique(x[-_SAMPLE:], return_counts=True)
    if len(values) > _FEW_VALUES * min(len(x), _SAMPLE):
        return 0.0
    # What was seen once or twice may be a spike above a constant.
    usual = values[counts > 2]
    return float(np.diff(usual).min()) if len(usual) > 1 else 0.0


def median_before(x: Floats, window: int) -> Floats:
    """Return the median of the ``window`` points before each point, at a bounded cost."""
    hop = max(-(-len(x) // _MOST_MEDIANS), -(-len(x) * window // _MOST_SORTED), 1)
    return trailing_median(x, window, hop)
