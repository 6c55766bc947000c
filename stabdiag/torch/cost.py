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

# At least this part of the budget is left for measuring, if counting the steps takes more than all.
_MIN_ALLOWED = 0.2

# The time of a timed call outside its own measurement.
_CALL_SECONDS = 5e-7

# The recorder's time per step while it sleeps and counts reported losses, and while it is idle and
# counts optimizer steps. The training pushes these calls out of the caches.
_SLEEP_SECONDS, _IDLE_SECONDS = 5e-6, 3e-5

# The recorder takes this much time before it begins to save it: a run of seconds gets all its rows.
_FREE_SECONDS = 1.0

# The first steps compile, allocate and load: they say nothing about the rest.
_WARM_UP_STEPS = 3


class Cost:
    """Times the recorder's own work against the steps of the run, and widens the cadence.

    ``every``, ``probe_every`` and ``row_every`` are in steps. They are never below what the user
    asked for, and come down to it again where steps get longer.

    The recorder times its own calls. If it is idle between rows, a row costs at least as much as
    the steps around it are longer than idle ones: its hooks, and what it pushes out of the caches,
    count as well.
    """

    def __init__(self, every: int, probe_every: int, budget: float) -> None:
        self.budget = budget
        self._requested = {"row": 1, "layers": max(every, 1), "probe": max(probe_every, 1)}
        self._every = dict(self._requested)
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_WINDOW))
        self._own = 0.0
        self._total = self._elapsed = 0.0
        self._step_seconds = deque[float](maxlen=_WINDOW)
        self._idle_step_seconds = deque[float](maxlen=_WINDOW)
        self._entered: float | None = None
        self._last_row: float | None = None
        self._last_step: float | None = None
        self._is_timed = True
        self._idle_until: float | None = None
        self._steps, self._next_review = 0, _REVIEW_EVERY
        # Steps since the last row; the number of idle steps among them, and of those asleep.
        self.skipped = self._idle_steps = self.slept = 0
        self._idle_seconds = 0.0  # of an idle step, since the last row

    def request(self, part: str, steps: int) -> None:
        """Set the shortest cadence of a part."""
        self._requested[part] = self._every[part] = steps
        self._align()

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
        """Steps between two forward passes of the held-out batch."""
        return self._every["probe"]

    @property
    def fraction(self) -> float:
        """The fraction of the run's time that the recorder took so far."""
        return self._total / self._elapsed if self._elapsed > 0 else 0.0

    @property
    def step_time(self) -> float | None:
        """The time since the last step ended, None in the first one."""
        return None if self._last_step is None else perf_counter() - self._last_step

    def enter(self) -> None:
        """Begin to time a call of the recorder."""
        self._entered = perf_counter()

    def leave(self) -> None:
        """Count the time of a call."""
        if self._entered is not None:
            self._own += perf_counter() - self._entered + _CALL_SECONDS
            self._entered = None

    def skip_step(self) -> None:
        """End a step without a row."""
        self.skipped += 1
        if self._is_timed:
            self._last_step = perf_counter()

    def set_idle(self, is_idle: bool) -> None:
        """Note that the next steps are idle, from a row on, or that this has ended."""
        self._is_timed = not is_idle
        if is_idle:
            self._idle_until = None
        elif self._last_row is not None and self.skipped:
            self._idle_until, self._idle_steps = perf_counter(), self.skipped
            seconds = self._idle_until - self._last_row
            self._idle_step_seconds.append(seconds / self._idle_steps)

    def end_step(self, part: str) -> None:
        """End a step that did ``part``."""
        now, before = perf_counter(), self._last_row
        if self._entered is not None:
            self._own += now - self._entered
            self._entered = now
        own, idle_until = self._own, self._idle_until
        steps, idle_steps = self.skipped + 1, self._idle_steps
        self._last_row = self._last_step = now
        self._idle_until = None
        slept = min(self.slept, idle_steps)
        self._own, self.skipped, self._idle_steps, self.slept = 0.0, 0, 0, 0
        if before is None:
            return
        self._steps += steps
        if self._steps <= _WARM_UP_STEPS:
            return
        if idle_until is not None:
            usual = median(self._idle_step_seconds) * (steps - idle_steps)
            self._seconds[part].append(max(own, now - idle_until - usual))
            self._total += median(self._seconds[part])
        else:
            self._seconds[part].append(own)
            self._total += own
        idle_seconds = slept * _SLEEP_SECONDS + (idle_steps - slept) * _IDLE_SECONDS
        self._idle_seconds = idle_seconds / max(idle_steps, 1)
        self._total += idle_seconds
        self._elapsed += now - before
        self._step_seconds.append(max(now - before - own - idle_seconds, 0.0) / steps)
        if self._steps >= self._next_review:
            self._next_review = self._steps + _REVIEW_EVERY
            if self._total > _FREE_SECONDS:
                self._review()

    def _review(self) -> None:
        budget = self.budget * median(self._step_seconds)
        # No cadence lowers the time of idle steps.
        allowed = max(budget - self._idle_seconds, _MIN_ALLOWED * budget)
        costs = {part: median(seconds) for part, seconds in self._seconds.items()}
        for part, share in _BUDGET_SHARES.items():
            own = costs.get(part, 0.0) - (costs.get("row", 0.0) if part != "row" else 0.0)
            if own <= 0 or allowed <= 0:
                continue
            ratio = own / (share * allowed) / self._requested[part]
            # Doubled cadences share steps, among the processes of a job and with each other.
            self._every[part] = self._requested[part] * 2 ** max(math.ceil(math.log2(ratio)), 0)
        self._align()

    def _align(self) -> None:
        """Align all cadences with rows: work is only done at a row."""
        rows = self._every["row"]
        for part in ("layers", "probe"):
            self._every[part] = math.lcm(self._every[part], rows)
