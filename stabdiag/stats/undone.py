"""Where a run loses all that it had gained: no noise that follows is an excuse for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import medians
from stabdiag.stats.rolling import MAD_TO_SIGMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Levels are medians of so many points. A run has to have shown so many of them, and a gain of so
# many deviations, before it can lose it; and it has lost it where the median of so many says so.
_BLOCK = 10
_BEFORE = 3
_GAIN = 1.5
_AFTER = 5


def undone_at(x: Floats) -> int | None:
    """Return a position just before a run is worse than it ever was, by all it had gained.

    The change itself follows within twice ten points.

    Args:
        x: shape (n,), finite.

    A run that is broken early is noisy ever after, and by that noise its break is nothing. So here
    only what was before counts: the levels that it had been through, and its widest noise. A climb
    that has taken half of the gain before it goes this far is no break.
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
