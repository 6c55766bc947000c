"""What the recorder costs, and how often it may measure within its budget."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from statistics import median
from time import perf_counter

# The cadence is set again after this many steps.
_REVIEW_EVERY = 25

# Times are medians of this many: a machine that others use as well has outliers.
_WINDOW = 15

# Parts of the budget for what is done at each row, at each cadence, and at each probe.
_BUDGET_SHARES = {"row": 0.4, "layers": 0.4, "probe": 0.2}

# At least this part of the budget is left for measuring, if the hooks alone take more than all.
_MIN_ALLOWED = 0.2

# The first steps compile, allocate and load: they say nothing about the rest.
_WARM_UP_STEPS = 3


class Cost:
    """Times the recorder's own work against the steps of the run, and widens the cadence.

    ``every``, ``probe_every`` and ``row_every`` are in steps. They are never below what the user
    asked for, and come down to it again where steps get longer.
    """

    def __init__(self, every: int, probe_every: int, budget: float) -> None:
        self.budget = budget
        self._asked = {"row": 1, "layers": max(every, 1), "probe": max(probe_every, 1)}
        self._every = dict(self._asked)
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_WINDOW))
        self._current = 0.0
        self._total = self._elapsed = 0.0
        self._step_seconds = deque[float](maxlen=_WINDOW)
        self._floor_seconds = deque[float](maxlen=_WINDOW)
        self._last: float | None = None
        self._steps, self._next_review = 0, _REVIEW_EVERY
        self._skipped, self._between_rows = 0, 0.0

    @property
    def row_every(self) -> int:
        """Steps between two rows."""
        return self._every["row"]

    @property
    def every(self) -> int:
        """Steps between two measurements of all layers."""
        return self._every["layers"]

    @property
    def probe_every(self) -> int:
        """Steps between two forward passes of the held batch."""
        return self._every["probe"]

    @property
    def fraction(self) -> float:
        """The fraction of the run's time that the recorder took so far."""
        return self._total / self._elapsed if self._elapsed > 0 else 0.0

    @property
    def step_time(self) -> float | None:
        """The mean time of the steps since the last row, None in the first one."""
        if self._last is None:
            return None
        return (perf_counter() - self._last) / (self._skipped + 1)

    def add(self, seconds: float) -> None:
        """Count time that the recorder took in this step."""
        self._current += seconds

    def skip_step(self) -> None:
        """End a step without a row."""
        self._skipped += 1
        self._between_rows += self._current
        self._current = 0.0

    def end_step(self, part: str) -> None:
        """End a step in which ``part`` was done."""
        now, before = perf_counter(), self._last
        self._last = now
        own, between_rows, steps = self._current, self._between_rows, self._skipped + 1
        self._current = self._between_rows = 0.0
        self._skipped = 0
        if before is None:
            return
        self._steps += steps
        if self._steps <= _WARM_UP_STEPS:
            return
        self._total += own + between_rows
        self._elapsed += now - before
        self._step_seconds.append(max(now - before - own - between_rows, 0.0) / steps)
        if steps > 1:
            self._floor_seconds.append(between_rows / (steps - 1))
        self._seconds[part].append(own)
        if self._steps >= self._next_review:
            self._next_review = self._steps + _REVIEW_EVERY
            self._review()

    def _review(self) -> None:
        budget = self.budget * median(self._step_seconds)
        # The hooks take some time in each step, which no cadence can lower.
        floor = median(self._floor_seconds) if self._floor_seconds else 0.0
        allowed = max(budget - floor, _MIN_ALLOWED * budget)
        costs = {part: median(seconds) for part, seconds in self._seconds.items()}
        for part, share in _BUDGET_SHARES.items():
            own = costs.get(part, 0.0) - (costs.get("row", 0.0) if part != "row" else 0.0)
            if own <= 0 or allowed <= 0:
                continue
            ratio = own / (share * allowed) / self._asked[part]
            # Doubled cadences share steps, among the processes of a job and with each other.
            self._every[part] = self._asked[part] * 2 ** max(math.ceil(math.log2(ratio)), 0)
        # What is not due with a row is never due.
        rows = self._every["row"]
        for part in ("layers", "probe"):
            self._every[part] = math.lcm(self._every[part], rows)
