"""Events that go together: a change near something else by chance, and values that come again."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import distinct

# What happens with this share of the records happens all along: ids that come back are how the
# loader numbers its batches, and a setting that changes is no step.
FREQUENT_RATE = 0.1

# A setting may change so often however short the log is.
FEW_CHANGES = 3


@frozen
class NearestChange:
    """The change that lies nearest to an onset: its number, and by how many points it is off.

    ``chance`` is that of so near a change by mere chance.
    """

    number: int
    off: int
    chance: float


@frozen
class Onset:
    """The points, of ``points`` in all, at one of which something began.

    A cause lies at one of them, or up to ``late`` points before the first.
    """

    first: int
    last: int
    late: int
    points: int


def nearest(low: Ints, high: Ints, onset: Onset) -> NearestChange | None:
    """Return the nearest change from one constant value to another; None if none is near.

    The chance is that of a place thrown anywhere in the log: the share of its points that lie as
    near to one of the changes. It is bounded by their sum (Boole's inequality).

    Args:
        low: shape (n,), the first point at which each change may have happened.
        high: shape (n,), the last one, rising.
        onset: where what may be its consequence began.
    """
    off = np.maximum(onset.first - high, 0)
    near = (off <= onset.late) & (low <= onset.last) & _is_step(low, high)
    if not near.any():
        return None
    number = int(np.flatnonzero(near & (off == off[near].min()))[-1])
    least = int(off[number])
    width = onset.last - onset.first + 1 + int(high[number] - low[number]) + least
    return NearestChange(number=number, off=least, chance=len(high) * width / onset.points)


def _is_step(low: Ints, high: Ints) -> Mask:
    """Tell which changes part two constant values; the last one may lie at the very end."""
    # A value is constant if it stays for some points, before a change and after it.
    before = np.diff(high, prepend=0) >= MIN_CONSECUTIVE
    after = np.append(np.diff(low) >= MIN_CONSECUTIVE, True)
    both: Mask = before & after
    return both


def changes_frequently(values: Floats, points: int) -> bool:
    """Tell whether a setting, shape (n,), changes all along a log of so many points."""
    changes = np.count_nonzero(values[1:] != values[:-1])
    return bool(changes > max(FREQUENT_RATE * points, FEW_CHANGES))


def steps_since_seen(steps: Ints, values: Floats) -> Floats:
    """Return how many steps ago each value was seen last, inf where never: shape (n,).

    Args:
        steps: shape (n,), rising.
        values: shape (n,); compared for equality, NaN equals nothing.
    """
    since = np.full(len(values), np.inf)
    if distinct(values) < len(values):  # to count is ten times as fast as to find the order
        order = np.argsort(values, kind="stable")
        again = np.append(False, values[order][1:] == values[order][:-1])
        gaps = np.append(np.inf, np.diff(steps[order]).astype(np.float64))
        since[order[again]] = gaps[again]
    return since
