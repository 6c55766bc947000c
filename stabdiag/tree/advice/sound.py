"""Until when a loss that climbs was still at its best: what a sound checkpoint is from before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import diff_sigma, medians
from stabdiag.tree.changes import changes_near
from stabdiag.tree.rises import found_rise

if TYPE_CHECKING:
    from stabdiag.tree.case import Case
    from stabdiag.tree.changes import Change

# A level is the median of so many losses, and the noise is taken from so many before the best.
LEVEL = 21
_NOISE = 200


def left_its_best(case: Case) -> int:
    """Return the last step before a climb was told at which the loss was no higher than its best.

    A climb is told once it stands out from all the run's ups and downs; a slow one has come a good
    way by then. Here a level is high if it lies above the best by a deviation of single losses.
    """
    rise, x = found_rise(case), case.loss.values
    if rise.onset - rise.best < LEVEL:
        return case.at(rise.onset)
    before = x[max(rise.best - _NOISE, case.settled.start) : rise.best + 1]
    if len(before) < 2:
        return case.at(rise.onset)
    smooth = medians(np.lib.stride_tricks.sliding_window_view(x[rise.best : rise.onset], LEVEL))
    low = np.flatnonzero(smooth <= rise.best_level + diff_sigma(before))
    last = rise.best + (int(low[-1]) + LEVEL // 2 if len(low) else 0)
    return case.at(last)


def near_climb(case: Case, began: int, first: int) -> tuple[Change, ...]:
    """Return the settings that changed where a climb began.

    That is somewhere between ``began``, where the loss left its best level or its cause turned, and
    ``first``, where it stands out; medians of so many losses know both to half as many.
    """
    slack = round(LEVEL // 2 * case.stride)
    return changes_near(case, min(began, first) - slack, max(began, first) + slack)
