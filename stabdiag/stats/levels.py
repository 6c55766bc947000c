"""The level of a series over stretches of its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import medians

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# A median needs no more points than this: of longer stretches every so many-th is taken.
_ENOUGH = 1000

# The level at which a run began is the highest of so many losses: it soon falls.
_BEGIN = 5


def beginning(x: Floats) -> float:
    """Return the level at which a series began, shape (n,), finite, n at least 1, in its unit."""
    return float(x[:_BEGIN].max())


def levels(x: Floats, stretches: int) -> Floats:
    """Return the medians of equal stretches of a series, in its own unit.

    Args:
        x: shape (n,), finite, n at least 1.
        stretches: how many, at least 1; fewer where there are fewer points.

    Returns:
        Shape (min(stretches, n),). The points that do not fill the stretches evenly are left out at
        the beginning: the end is what counts.
    """
    count = min(stretches, len(x))
    size = len(x) // count
    grid = x[len(x) - count * size :].reshape(count, size)
    return medians(grid[:, :: max(size // _ENOUGH, 1)])
