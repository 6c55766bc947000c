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
_SHARES = {"row": 0.4, "layers": 0.4, "probe": 0.2}

# The first steps compile, allocate and load: they say nothing about the rest.
_WARM_UP = 3


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
        self._last: float | None = None
        self._steps = 0

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

    def add(self, seconds: float) -> None:
        """Count time that the recorder took in this step."""
        self._current += seconds

    def end_step(self, part: str | None) -> float | None:
        """End a step in which ``part`` was done, None for a step without a row; its seconds.

        The time of the step includes the recorder's own.
        """
        now, before = perf_counter(), self._last
        self._last = now
        own, self._current = self._current, 0.0
        if before is None:
            return None
        self._steps += 1
        seconds = now - before
        if self._steps > _WARM_UP:
            self._total += own
            self._elapsed += seconds
            self._step_seconds.append(max(seconds - own, 0.0))
            if part is not None:
                self._seconds[part].append(own)
            if self._steps % _REVIEW_EVERY == 0:
                self._review()
        return seconds

    def _review(self) -> None:
        allowed = self.budget * median(self._step_seconds)
        costs = {part: median(seconds) for part, seconds in self._seconds.items()}
        for part, share in _SHARES.items():
            own = costs.get(part, 0.0) - (costs.get("row", 0.0) if part != "row" else 0.0)
            if own <= 0 or allowed <= 0:
                continue
            wanted = math.ceil(own / (share * allowed))
            self._every[part] = max(self._asked[part], wanted)
        # What is not due with a row is never due.
        self._every["layers"] = max(self._every["layers"], self._every["row"])
