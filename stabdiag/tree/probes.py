"""The probes of a loss scaler: how often it tries a higher scale, as the log shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import median

if TYPE_CHECKING:
    from stabdiag.model.arrays import Ints
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# Overflows so many steps apart do not belong to one decline of the scale.
PAUSE = 25

# From 2^32 to 2^-32 a scale is halved so often; what falls farther is no scale.
_MOST = 64

# The rhythm of probes of which the scale shows nothing takes so many to be seen.
_FEW_PROBES = 3


def changes(scale: Series) -> tuple[Ints, Ints, Ints]:
    """Return the steps at which the scale was seen to have fallen, how often, and to have grown.

    It is halved at one step after another, of which a sparse log shows the last alone.
    """
    finite = scale.finite()
    ratio = finite.values[1:] / finite.values[:-1]
    halvings = np.round(-np.log2(ratio))
    fell = ratio <= 0.75
    # What fell below 0 is no scale, and was halved no number of times.
    halvings = np.nan_to_num(halvings, nan=1.0)
    times = np.clip(halvings[fell], 1, np.clip(np.diff(finite.steps)[fell], 1, _MOST)).astype(
        np.int64
    )
    return finite.steps[1:][fell], times, finite.steps[1:][ratio >= 1.5]


def interval_of(
    case: Case, doublings: Ints, scale: Series | None, overflowed: Ints
) -> tuple[float, str]:
    """Return the steps between two probes: the manifest's, the log's own, or the default."""
    if case.manifest.loss_scale_window:
        return float(case.manifest.loss_scale_window), "from the manifest"
    if len(doublings) >= 2 and scale is not None:
        # From the last change of the scale to the doubling.
        fell, _, grew = changes(scale)
        moved = np.union1d(fell, grew)
        place = np.searchsorted(moved, grew)
        waits = (grew - moved[np.maximum(place - 1, 0)])[place > 0]
        seen = max(median(waits.astype(np.float64)), 1.0)
        return min(seen, _unseen(scale, overflowed, case.stride)), "read off the log"
    return float(case.limits.precision.growth_interval), "by default"


def _unseen(scale: Series, overflowed: Ints, stride: float) -> float:
    """Return the steps between probes that a sparse log may not show, infinite where there are few.

    A scale that is the same after one overflow and after the next has grown in between.
    """
    steps, finite = np.unique(overflowed), scale.finite()
    apart = np.diff(steps) > max(PAUSE, 3 * stride)
    ends = steps[np.append(apart, True)] if len(steps) else steps
    place = np.searchsorted(finite.steps, ends + stride)
    after = finite.values[np.minimum(place, len(finite) - 1)]
    same = np.diff(after) == 0
    gaps = np.diff(ends)[same].astype(np.float64)
    return median(gaps) if len(gaps) >= _FEW_PROBES else float("inf")
