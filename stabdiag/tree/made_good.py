"""A climb that the run has made good: no fault by the end of the log, but nobody should miss it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.blocks import block_levels
from stabdiag.stats.quantiles import diff_sigma

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# It is told of if it undid this share of the progress, and rose by so many deviations of single
# losses; half of it at least was made good.
_PART = 0.25
_SEEN = 4.0
_BACK = 0.5

# Levels are means of half a window, and of no fewer losses.
_FEWEST = 10


@dataclass(frozen=True, kw_only=True)
class MadeGood:
    """A level near a step, from which the loss rose to another one, before it came back."""

    low: float
    low_step: int
    high: float
    high_step: int


def made_good(case: Case) -> MadeGood | None:
    """Return the largest climb of the losses of section 4 that was made good; None if it is small.

    A descent at the beginning is none, and what lasts less than half a window is no climb.
    """
    x, size = case.loss.values[case.settled], max(case.rise_window // 2, _FEWEST)
    if len(x) < 2 * size:
        return None
    levels, starts = block_levels(x, size)
    up = levels - np.minimum.accumulate(levels)
    high = int(np.argmax(up))
    low = int(np.argmin(levels[: high + 1]))
    height, progress = float(up[high]), float(levels[0] - levels[: high + 1].min())
    back = float(levels[-1]) < float(levels[high]) - _BACK * height
    if not back or height <= max(_PART * progress, _SEEN * diff_sigma(x)):
        return None
    middle = case.settled.start + size // 2
    return MadeGood(
        low=float(levels[low]),
        low_step=case.at(middle + int(starts[low])),
        high=float(levels[high]),
        high_step=case.at(middle + int(starts[high])),
    )
