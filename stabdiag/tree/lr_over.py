"""What the learning rate did over a range of steps in which the loss rose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.tree.case import Case


@dataclass(frozen=True, kw_only=True)
class LrOver:
    """The learning rate over a range of steps: at both ends, and the highest before them.

    ``first`` is where the range begins. ``rises`` says that the rate went up all along, beyond
    where it had been.
    """

    first: int
    begin: float
    end: float
    highest_before: float
    rises: bool

    @property
    def again(self) -> bool:
        """Whether it stayed within what it had been before, when the loss was falling."""
        return self.end <= self.highest_before


def lr_over(case: Case, first: int, last: int) -> LrOver | None:
    """Return what the learning rate did over a climb, and before it where the climb is short.

    The range is no shorter than the window of §4. None if too few rates were logged in it.
    """
    lr, limits = case.history.finite("lr"), case.limits.divergence
    climbing = lr.between(first, last).values
    first = min(first, last - limits.window)
    over = lr.between(first, last)
    if len(over) < 3 or not len(climbing):
        return None
    begin, middle, end = (float(over.values[i]) for i in (0, len(over) // 2, -1))
    before = lr.values[lr.steps < first]
    highest = -np.inf if case.literal else float(before.max(initial=-np.inf))
    rises = end > begin * limits.lr_rise
    # A warm-up that ends before the climb, or early in it, is no schedule that never ends.
    rises &= case.literal or (begin < middle < end and float(climbing[0]) < end)
    return LrOver(
        first=int(over.steps[0]),
        begin=begin,
        end=end,
        highest_before=highest,
        rises=rises and end > highest,
    )
