"""How evenly a rise is spread over what goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import median

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# A rise is looked at in so many parts; a level is the median of the losses of half a part.
_PARTS = 10
_LEAST = 2


def lag_and_lead(x: Floats, course: Floats) -> tuple[float, float]:
    """Return how far a rise lags behind what goes with it, and how far it runs ahead.

    That are the largest distances, either way, between the share of the rise that is made and the
    share of the course that is gone by then, as Kolmogorov 1933 measures the distance of two
    distributions; but of levels, and at ten places. Both are 0 for a rise in proportion; one that
    goes with the square lags by 0.25, and one of which nothing is made in the first half by 0.5.
    Both are infinite if the levels do not rise, or by no finite number, or the course stands still.

    Args:
        x: shape (n,), finite, n at least 1: what rises.
        course: shape (n,), finite, rising: what it may rise with.
    """
    gone = np.linspace(0.0, 1.0, _PARTS + 1)
    length = float(course[-1] - course[0])
    at = np.minimum(np.searchsorted(course, course[0] + gone * length), len(x) - 1)
    near = max(len(x) // (4 * _PARTS), _LEAST)
    levels = np.array([median(x[max(place - near, 0) : place + near + 1]) for place in at.tolist()])
    made = levels - levels[0]
    if not 0 < made[-1] < np.inf or length <= 0:
        return float("inf"), float("inf")
    ahead = made / made[-1] - gone
    return float(-ahead.min()), float(ahead.max())
