"""Where a climb of the loss had begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.blocks import CALM_LEVELS, block_levels, level_noise, moving_means

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.stats.rise import Rise

# A climb has begun where this share of it was made: by means whose deviation is less than that by
# this factor.
_BEGUN = 0.1
_STANDS_OUT = 2.0


def climb_onset(x: Floats, rise: Rise, size: int) -> int:
    """Return where a climb had begun, as a position: where a tenth of it was made.

    Args:
        x: shape (n,), finite.
        rise: the climb in it.
        size: how many losses make the shortest level.

    After the last time that the loss was near its best, which is told by means of so many losses
    that a tenth of the rise stands out of their noise, means of ``size`` losses tell it closer.
    """
    if rise.amount <= rise.bar:
        return rise.onset
    climbing = x[rise.best : rise.crest + 1]
    # What ends a million times as high had left its level long before a tenth of that.
    share = min(_BEGUN * rise.amount, max(_BEGUN * rise.progress, rise.bar))
    # The noise of a run that diverges grows with it.
    noise = level_noise(block_levels(x[: max(rise.onset, CALM_LEVELS * size)], size)[0])
    wide = round(size * min(_STANDS_OUT * noise / share, len(climbing)) ** 2)
    levels = moving_means(climbing, max(min(wide, len(climbing) // 4), size))
    bar = levels.min() + share
    near = int(np.flatnonzero(levels <= bar)[-1])
    above = moving_means(climbing, size)[near:] > bar
    return rise.best + near + int(np.argmax(above)) + size - 1 if above.any() else rise.onset
