"""Where a run loses all the progress it had made, which the noise after it cannot excuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import MAD_TO_SIGMA, medians

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# Levels are medians of this many points. Progress shows in at least three levels, and is larger
# than this many deviations of the noise; it is lost where the median of the next levels says so.
_BLOCK = 10
_BEFORE = 3
_GAIN = 1.5
_AFTER = 5


def undone_at(x: Floats) -> int | None:
    """Return the position just before a run gets worse than it ever was, by all it had gained.

    The change itself follows within twenty points. None if there is no such place.

    Args:
        x: shape (n,), finite.

    A run that breaks early is noisy ever after, and against that noise its break is small. So here
    only what came before counts: the levels up to then, and the widest noise. A climb that has
    undone half of the gain before it goes this far is no break.
    """
    blocks = len(x) // _BLOCK
    if blocks < _BEFORE + _AFTER:
        return None
    rows = x[: blocks * _BLOCK].reshape(blocks, _BLOCK)
    levels = medians(rows)
    if levels.argmax() < _BEFORE:  # as of most runs: the rest need not be asked
        return None
    spreads = medians(np.abs(rows - levels[:, np.newaxis])) * MAD_TO_SIGMA
    ahead = medians(np.lib.stride_tricks.sliding_window_view(levels, _AFTER))[_BEFORE:]
    before = slice(_BEFORE - 1, -_AFTER)
    highest = np.maximum.accumulate(levels)[before]
    lowest = np.minimum.accumulate(levels)[before]
    gain = highest - lowest
    real = gain > _GAIN * np.maximum.accumulate(spreads)[before]
    kept = levels[before] < lowest + gain / 2
    places = np.flatnonzero(real & kept & (ahead > highest + gain))
    if not len(places):
        return None
    first = int(places[0]) + _BEFORE
    above = levels[first : first + _AFTER] > highest[places[0]]
    return (first + int(np.argmax(above)) - 1) * _BLOCK
