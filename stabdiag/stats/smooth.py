"""Smooth series: the turn from slow to fast change, and slow waves."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.standards import HALF, MIN_CONSECUTIVE, MIN_SAMPLE, NEARLY_ALL

# Slopes are taken over consecutive points; in a dense series, over this fraction of the span.
_SLOPE_FRACTION = 1 / 8

# Below this fraction of the highest slope, a series is still slow.
_SLOW = HALF

# A rise belongs to a wave if it has enough points and its net height is at least this fraction of
# the total variation. Noise rises within one point or goes back and forth.
_STRAIGHT = NEARLY_ALL


def turning_point(at: Floats, x: Floats, span: float, first: float = -np.inf) -> float | None:
    """Return the position where a series turned to its largest rise.

    Args:
        at: shape (n,), the positions of the points, rising.
        x: shape (n,), finite, with little noise.
        span: the length over which the rise is measured, in units of ``at``.
        first: rises before this position do not count; the turn may be before it.

    Returns:
        The intersection of the line through the slow points before the turn with the line through
        the fast points after it (Hinkley 1969, doi:10.1093/biomet/56.3.495), in units of ``at``.
        None if the series is fast from its start, accelerates gradually or is too short.
    """
    before = np.searchsorted(at, np.maximum(at - span, first))
    before = np.minimum(before, np.arange(len(at)))
    top = int(np.argmax(x - x[before]))
    width = max(round(_SLOPE_FRACTION * (top - int(before[top]))), MIN_CONSECUTIVE)
    slopes = (x[width:] - x[:-width]) / (at[width:] - at[:-width])
    begin, end = int(before[top]), min(top, len(slopes))
    if begin >= end:
        return None
    fastest = begin + int(np.argmax(slopes[begin:end]))
    last = int(np.flatnonzero(slopes[:fastest] < _SLOW * slopes[fastest]).max(initial=0))
    # Slopes of the next ``width`` points mix both parts.
    fast_from = last + width
    if last < 1 or len(x) < fast_from + 2:
        return None
    offsets = at - at[last]
    slow_slope, slow_level = _line(offsets, x, max(last - width, 0), last + 1)
    fast_slope, fast_level = _line(offsets, x, fast_from, fast_from + width + 1)
    if slow_slope >= _SLOW * fast_slope:
        return None
    crossing = (slow_level - fast_level) / (fast_slope - slow_slope)
    return float(at[last] + np.clip(crossing, 0.0, offsets[fast_from + 1]))


def _line(at: Floats, x: Floats, first: int, end: int) -> tuple[float, float]:
    """Return the slope and the value at 0 of the least-squares line through some points."""
    slope, level = np.polyfit(at[first:end], x[first:end], 1)
    return float(slope), float(level)


def count_waves(x: Floats, height: float) -> int:
    """Count the rises of at least ``height`` that reverse, each over several points.

    Args:
        x: shape (n,), finite, the series or its levels.
        height: in the unit of x, positive.
    """
    return sum(_is_smooth(x[low : high + 1]) for low, high in _rises(x, height))


def _rises(x: Floats, height: float) -> list[tuple[int, int]]:
    """Return the first and last position of each rise between turning points ``height`` apart."""
    rises: list[tuple[int, int]] = []
    low = high = 0
    rising = False
    values = x.tolist()
    for i, value in enumerate(values):
        if rising:
            if value >= values[high]:
                high = i
            elif values[high] - value >= height:
                rises.append((low, high))
                low, rising = i, False
        elif value <= values[low]:
            low = i
        elif value - values[low] >= height:
            high, rising = i, True
    return rises


def _is_smooth(rise: Floats) -> bool:
    variation = float(np.abs(np.diff(rise)).sum())
    return len(rise) > MIN_SAMPLE and float(rise[-1] - rise[0]) >= _STRAIGHT * variation
