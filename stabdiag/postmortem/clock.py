"""When a step was trained: the time stamps of the log, if it has some."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.arrays import Floats, Ints
    from stabdiag.history import History

# A time stamp above the first is in nanoseconds, then in microseconds, then in milliseconds: in
# any larger unit it would lie beyond the year 5000.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))

# Seconds of the calendar: from 2001 to 2100. Anything else counts from some other beginning.
_CALENDAR = (1e9, 4.1e9)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """Seconds by step, both rising; ``calendar`` says that they count from 1970."""

    steps: Ints
    seconds: Floats
    calendar: bool

    @property
    def heading(self) -> str:
        """What the times are."""
        return "Time (UTC)" if self.calendar else "Time since the log began"

    def at(self, step: int) -> str:
        """Return when a step was logged; about when, where it was not; nothing outside of the log.

        A log does not tell the zone of its machine, so that the calendar's times are UTC.
        """
        if not self.steps[0] <= step <= self.steps[-1]:
            return ""
        seconds = float(np.interp(step, self.steps, self.seconds))
        about = "" if step in self.steps else "about "
        if self.calendar:
            return f"{about}{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
        whole = round(seconds - float(self.seconds[0]))
        return f"{about}{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"

    def between(self, first: int, last: int) -> float | None:
        """Return the seconds between two steps, pauses included, or None outside of the log."""
        if last < self.steps[0] or first > self.steps[-1]:
            return None
        begin, end = np.interp([first, last], self.steps, self.seconds)
        return float(end - begin)


def clock_of(history: History) -> Clock | None:
    """Return the clock of a log that has one."""
    logged = history.finite("clock")
    if len(logged) < 2:
        return None
    largest = float(logged.values.max())
    seconds = logged.values / next((unit for least, unit in _UNITS if largest > least), 1.0)
    calendar = bool(_CALENDAR[0] <= seconds.min() and seconds.max() <= _CALENDAR[1])
    # A clock that goes back is of another process: one that counts from its start is counted on.
    ahead = np.maximum(np.diff(seconds), 0.0)
    counted = seconds[0] + np.concatenate(([0.0], np.cumsum(ahead)))
    rising = np.maximum.accumulate(seconds) if calendar else counted
    return Clock(steps=logged.steps, seconds=rising, calendar=calendar)
