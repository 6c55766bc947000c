"""Coincidences: changes close to an onset, and values that recur."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import distinct
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    FEW_EVENTS,
    MIN_CONSECUTIVE,
    NEARLY_ALL,
    TENTH,
)

# Changes in more than this fraction of the records are frequent. Frequent batch ids come from the
# loader's numbering, and a setting that changes this often does not change in steps.
FREQUENT_RATE = TENTH

# Ids that rise at nine of ten records are read in order.
_IN_ORDER = NEARLY_ALL

# This many changes are never frequent, even in a short log.
FEW_CHANGES = FEW_EVENTS


@frozen
class NearestChange:
    """The change nearest to an onset: its index, and its distance in points.

    ``chance`` is the probability that some change is this close by coincidence.
    """

    number: int
    off: int
    chance: float


@frozen
class Onset:
    """The range of positions where something may have begun, in a log of ``points`` points.

    Its cause is inside the range or up to ``late`` points before it.
    """

    first: int
    last: int
    late: int
    points: int


def nearest(low: Ints, high: Ints, onset: Onset) -> NearestChange | None:
    """Return the nearest change from one constant value to another, or None.

    The chance is the fraction of positions in the log that are as close to a change. It is bounded
    by the sum over the changes (Boole's inequality).

    Args:
        low: shape (n,), the first point where each change may have happened.
        high: shape (n,), the last point, in rising order.
        onset: the onset of a possible consequence.
    """
    off = np.maximum(onset.first - high, 0)
    is_close = (off <= onset.late) & (low <= onset.last) & _is_step(low, high)
    if not is_close.any():
        return None
    number = int(np.flatnonzero(is_close & (off == off[is_close].min()))[-1])
    distance = int(off[number])
    width = onset.last - onset.first + 1 + int(high[number] - low[number]) + distance
    return NearestChange(number=number, off=distance, chance=len(high) * width / onset.points)


def _is_step(low: Ints, high: Ints) -> Mask:
    """Return the mask of changes between two constant values; the last may be at the end."""
    # A value is constant if it does not change for some points before and after a change.
    before = np.diff(high, prepend=0) >= MIN_CONSECUTIVE
    after = np.append(np.diff(low) >= MIN_CONSECUTIVE, True)
    both: Mask = before & after
    return both


def changes_frequently(values: Floats, points: int) -> bool:
    """Return True if a setting, shape (n,), changes frequently in a log of ``points`` points."""
    changes = np.count_nonzero(values[1:] != values[:-1])
    return bool(changes > max(FREQUENT_RATE * points, FEW_CHANGES))


def steps_since_seen(steps: Ints, values: Floats) -> Floats:
    """Return the steps since each value was last seen, inf for new values: shape (n,).

    Args:
        steps: shape (n,), rising.
        values: shape (n,); NaN is never equal to another value.
    """
    since = np.full(len(values), np.inf)
    if distinct(values) < len(values):  # counting is ten times as fast as sorting
        order = np.argsort(values, kind="stable")
        repeats = np.append(False, values[order][1:] == values[order][:-1])
        gaps = np.append(np.inf, np.diff(steps[order]).astype(np.float64))
        since[order[repeats]] = gaps[repeats]
    return since


def max_chance_repeats(ids: Floats, since: Floats, lookback: float, gaps: Floats) -> Floats:
    """Return the largest number of repeats within each of some gaps, if the order is random.

    Args:
        ids: shape (n,); NaN is ignored.
        since: the steps since each id was last seen, inf for new ones: shape (n,).
        lookback: the longest gap of a repeat, in steps.
        gaps: shape (m,), in steps, at most ``lookback``.

    The number is a Poisson count with three standard deviations on top. Its rate is the rate for
    draws from the range of the ids, or for all repeats within ``lookback`` if it is lower, as in
    shuffled epochs. It is 0 if the order is not random: the ids rise at nine of ten records, or
    none repeats later.
    """
    ids = ids[np.isfinite(ids)]
    is_in_order = len(ids) < 2 or float((np.diff(ids) > 0).mean()) > _IN_ORDER
    repeats_later = np.isfinite(since) & (since > lookback)
    if is_in_order or np.ptp(ids) == 0 or not repeats_later.any():
        return np.zeros(len(gaps))
    rate = min(len(ids) / (float(np.ptp(ids)) + 1), np.count_nonzero(since <= lookback) / lookback)
    expected = rate * np.minimum(gaps, len(ids))
    # In a random order, a single repeat is never unlikely.
    return np.maximum(expected + BEYOND_CHANCE * np.sqrt(expected), 1.0)


def unlikely_repeats(ids: Floats, since: Floats, lookback: float) -> Mask:
    """Return the mask of the repeats within ``lookback`` that a random order does not explain.

    A repeat counts if more ids repeat within as few steps than a random order explains.
    """
    within = since <= lookback
    gaps = since[within]
    ordered = np.sort(gaps)
    counts = np.searchsorted(ordered, gaps, side="right")
    unlikely = within.copy()
    unlikely[within] = counts > max_chance_repeats(ids, since, lookback, gaps)
    return unlikely
