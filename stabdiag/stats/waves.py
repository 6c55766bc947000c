"""Slow waves in a series, as against noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# A rise is a wave's if it takes more than so many points, and its net height is this share of the
# way that the series goes up and down in it. Noise takes one point, or goes back and forth.
_LEAST_POINTS = 8
_STRAIGHT = 0.9


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
    return len(rise) > _LEAST_POINTS and float(rise[-1] - rise[0]) >= _STRAIGHT * way
