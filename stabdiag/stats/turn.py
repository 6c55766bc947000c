"""Where a smooth series turned: from moving slowly to moving fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Slopes are taken over at least so many points, of a dense series over this share of the span.
_LEAST = 3
_SHARE = 1 / 8

# Below this share of the highest slope a series does not move fast yet.
_SLOW = 0.5


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
    width = max(round(_SHARE * (top - int(before[top]))), _LEAST)
    slopes = (x[width:] - x[:-width]) / (at[width:] - at[:-width])
    begin, end = int(before[top]), min(top, len(slopes))
    if begin >= end:
        return None
    fastest = begin + int(np.argmax(slopes[begin:end]))
    last = int(np.flatnonzero(slopes[:fastest] < _SLOW * slopes[fastest]).max(initial=0))
    # The slopes from there on are of both parts, until so many points later.
    fast_from = last + width
    slow_part, fast_part = (
        slice(max(last - width, 0), last + 1),
        slice(fast_from, fast_from + width + 1),
    )
    if last < 1 or len(x) < fast_from + 2:
        return None
    slow_slope, slow_level = np.polyfit(at[slow_part], x[slow_part], 1)
    fast_slope, fast_level = np.polyfit(at[fast_part], x[fast_part], 1)
    if slow_slope >= _SLOW * fast_slope:
        return None
    crossing = (slow_level - fast_level) / (fast_slope - slow_slope)
    return float(np.clip(crossing, at[last], at[min(fast_from + 1, len(at) - 1)]))
