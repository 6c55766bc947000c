"""The gaps between the steps of a run, collected as the log is gone through."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Ints


class Median:
    """The median of whole numbers that arrive bit by bit and take few different values."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: Counter[int] = Counter()

    def add(self, values: Ints) -> None:
        """Take in more numbers."""
        found, counts = np.unique(values, return_counts=True)
        self._counts.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))

    @property
    def value(self) -> float | None:
        """The median, None if there are no numbers."""
        if not self._counts:
            return None
        values = sorted(self._counts)
        upto = list(accumulate(self._counts[value] for value in values))
        middles = ((upto[-1] - 1) // 2, upto[-1] // 2)
        low, high = (values[bisect_right(upto, middle)] for middle in middles)
        return (low + high) / 2


class Strides:
    """The gaps between the training records of one run.

    What is asked of a run of many parts takes time for the part that is new alone.
    """

    def __init__(self) -> None:
        """Begin a run."""
        self._gaps = Median()
        self._rising = Median()
        self._last: int | None = None
        self._last_gap = 0

    def add(self, steps: Ints) -> None:
        """Take in the steps of the next part of the run, which is not empty."""
        gaps = np.diff(steps) if self._last is None else np.diff(steps, prepend=self._last)
        self._last = int(steps[-1])
        if len(gaps):
            self._last_gap = int(gaps[-1])
            self._gaps.add(gaps)
            self._rising.add(gaps[gaps > 0])

    def next_one(self) -> int:
        """Return how far on a counter would have gone, had it not started again.

        An epoch's last step is often logged whatever the stride, and the next epoch follows at
        once.
        """
        usual = self._gaps.value
        if usual is None or self._last_gap < usual:
            return 1
        return max(int(usual), 1)

    def other_than(self, steps: Ints) -> int | None:
        """Return the stride of some new steps if it differs from the run's by a factor of two."""
        gaps = np.diff(steps)
        gaps = gaps[gaps > 0]
        before = self._rising.value
        if before is None or not len(gaps):
            return None
        after = float(np.median(gaps))
        return int(after) if max(before, after) >= 2 * min(before, after) else None
