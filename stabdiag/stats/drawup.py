"""The largest rise of a series that came back to its earlier level."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import block_levels, level_noise
from stabdiag.stats.standards import CONTEXT_POINTS, MIN_SAMPLE, QUARTER

# A rise has recovered where the level is within this fraction of its height of the best level.
_RECOVERED = QUARTER

# The noise of a level is measured over at least this many levels before the rise.
_MIN_LEVELS = CONTEXT_POINTS


@frozen
class RecoveredRise:
    """A rise of the level and its return.

    ``foot``, ``crest`` and ``end`` are the positions of the best level before the rise, of the
    highest level, and of the first level that is near the best again. ``low`` and ``high`` are the
    levels at the foot and at the crest; ``noise`` is the standard deviation of a level before the
    rise, and ``other`` is the largest rise before or after it, in units of the series.
    """

    foot: int
    crest: int
    end: int
    low: float
    high: float
    noise: float
    other: float

    @property
    def height(self) -> float:
        """The height of the rise, in units of the series."""
        return self.high - self.low


def recovered_rise(x: Floats, size: int) -> RecoveredRise | None:
    """Return the highest rise that recovered, by medians of blocks.

    Args:
        x: shape (n,), finite.
        size: the number of points in a block.

    Returns:
        None if the series has fewer than twice ``_MIN_LEVELS`` blocks, or if no rise recovered.
    """
    levels, starts = block_levels(x, size)
    if len(levels) < 2 * _MIN_LEVELS:
        return None
    best = np.minimum.accumulate(levels)
    # The level never returns below what it was at the end of the series, so a rise that lasts to
    # the end is not one that recovered.
    later = np.minimum.accumulate(levels[::-1])[::-1]
    height = levels - best
    recovered = later <= best + _RECOVERED * height
    height = np.where(recovered, height, 0.0)
    height[:_MIN_LEVELS] = 0.0
    crest = int(np.argmax(height))
    if height[crest] <= 0:
        return None
    foot = int(np.flatnonzero(levels[: crest + 1] <= best[crest])[-1])
    back = levels[crest:] <= best[crest] + _RECOVERED * height[crest]
    end = crest + int(np.argmax(back))
    before = levels[max(foot + 1 - MIN_SAMPLE * _MIN_LEVELS, 0) : foot + 1]
    noise = level_noise(before if len(before) >= _MIN_LEVELS else levels)
    return RecoveredRise(
        foot=int(starts[foot]),
        crest=int(starts[crest]),
        end=int(starts[end]),
        low=float(best[crest]),
        high=float(levels[crest]),
        noise=noise,
        other=max(_largest_rise(levels[: foot + 1]), _largest_rise(levels[end:])),
    )


def _largest_rise(levels: Floats) -> float:
    return float((levels - np.minimum.accumulate(levels)).max())
