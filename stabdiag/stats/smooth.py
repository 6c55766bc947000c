"""Smooth series: when one turned from moving slowly to moving fast, and its slow waves."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import MIN_SAMPLE

# Slopes are taken over some points in a row, of a dense series over this share of the span.
_SHARE = 1 / 8

# Below this share of the highest slope a series does not move fast yet.
_SLOW = 0.5

# A rise is a wave's if it takes enough points to tell, and its net height is this share of the
# way that the series goes up and down in it. Noise takes one point, or goes back and forth.
_STRAIGHT = 0.9


def turn(at: Floats, x: Floats, span: float, first: float = -np.inf) -> float | None:
    """Return where a series turned to its largest rise.

    Args:
        at: shape (n,), where the points lie, rising.
        x: shape (n,), finite, with little noise.
        span: the rise is the largest over so much of ``at``,
        first: from this place on; the turn may lie before it.

    Returns:
        A place between two points, in units of ``at``: where the line of the slow points before and
        that of the fast points after cross (Hinkley 1969, doi:10.1093/biomet/56.3.495).
        None for a series that moves fast from its beginning on, that gets faster by and by, or that
        is too short to tell.
    """
    before = np.searchsorted(at, np.maximum(at - span, first))
    before = np.minimum(before, np.arange(len(at)))
    top = int(np.argmax(x - x[before]))
    width = max(round(_SHARE * (top - int(before[top]))), MIN_CONSECUTIVE)
    slopes = (x[width:] - x[:-width]) / (at[width:] - at[:-width])
    begin, end = int(before[top]), min(top, len(slopes))
    if begin >= end:
        return None
    fastest = begin + int(np.argmax(slopes[begin:end]))
    last = int(np.flatnonzero(slopes[:fastest] < _SLOW * slopes[fastest]).max(initial=0))
    # The slopes from there on are of both parts, until so many points later.
    fast_from = last + width
    if last < 1 or len(x) < fast_from + 2:
        return None
    near = at - at[last]
    slow_slope, slow_level = _line(near, x, max(last - width, 0), last + 1)
    fast_slope, fast_level = _line(near, x, fast_from, fast_from + width + 1)
    if slow_slope >= _SLOW * fast_slope:
        return None
    crossing = (slow_level - fast_level) / (fast_slope - slow_slope)
    return float(at[last] + np.clip(crossing, 0.0, near[fast_from + 1]))


def _line(at: Floats, x: Floats, first: int, end: int) -> tuple[float, float]:
    """Return slope and level, at 0, of the least-squares line of some points."""
    slope, level = np.polyfit(at[first:end], x[first:end], 1)
    return float(slope), float(level)


def count_waves(x: Floats, height: float) -> int:
    """Count the rises of at least ``height`` that are undone again, each over several points.

    Args:
        x: shape (n,), finite, the series or its levels.
        height: in the unit of x, positive.
    """
    return sum(_is_smooth(x[low : high + 1]) for low, high in _rises(x, height))


def _rises(x: Floats, height: float) -> list[tuple[int, int]]:
    """Return where each rise begins and ends: between turns that are ``height`` apart."""
    found: list[tuple[int, int]] = []
    low = high = 0
    rising = False
    for i, value in enumerate(x.tolist()):
        if rising:
            if value >= x[high]:
                high = i
            elif x[high] - value >= height:
                found.append((low, high))
                low, rising = i, False
        elif value <= x[low]:
            low = i
        elif value - x[low] >= height:
            high, rising = i, True
    return found


def _is_smooth(rise: Floats) -> bool:
    way = float(np.abs(np.diff(rise)).sum())
    return len(rise) > MIN_SAMPLE and float(rise[-1] - rise[0]) >= _STRAIGHT * way
