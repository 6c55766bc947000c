"""The learning-rate range test: which rate it suggests, and its picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

# The loss must fall over this many steps.
_FALL_STEPS = 5

_HEIGHT = 8


def steepest_rate(rates: Sequence[float], losses: Sequence[float]) -> float | None:
    """Return the rate of the fastest fall of the loss per step (Smith 2017), smoothed."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    falls = [finite[at] - finite[at + _FALL_STEPS] for at in range(len(finite) - _FALL_STEPS)]
    if not falls or max(falls) <= 0:
        return None
    return rates[falls.index(max(falls)) + _FALL_STEPS // 2]


def draw_range_test(rates: Sequence[float], losses: Sequence[float]) -> list[str]:
    """Return the range test as a plot of characters, from the lowest rate to the highest."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    if len(finite) < 2:
        return []
    low = min(finite)
    high = min(max(finite), low + 2 * max(finite[0] - low, 1e-9))
    rows = [[" "] * len(rates) for _ in range(_HEIGHT)]
    for place, loss in enumerate(losses):
        if math.isfinite(loss):
            level = min((loss - low) / (high - low or 1.0), 1.0)
            rows[_HEIGHT - 1 - round(level * (_HEIGHT - 1))][place] = "*"
    body = ["  |" + "".join(row).rstrip() for row in rows]
    ends = f"   {rates[0]:.0e}{'':{max(len(rates) - 12, 1)}}{rates[-1]:.0e}"
    return ["", "loss by learning rate", *body, "  +" + "-" * len(rates), ends]
