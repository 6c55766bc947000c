"""The cost of an incident: the compute between two steps in hours, tokens or samples."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.report import Report
from stabdiag.model.text import num, plural

# Time stamps above these are in nanoseconds, microseconds and milliseconds: in a larger unit they
# would be after the year 5000.
_TIME_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))

# Seconds since 1970 of the years 2001 to 2100. Other values do not count from 1970.
_CALENDAR: Final = (1e9, 4.1e9)

# The unit of a throughput, by the name of its column. A plain "throughput" has no known unit.
_WORK: Final = (
    ("samples", re.compile(r"sample")),
    ("words", re.compile(r"\bwps\b")),
    ("tokens", re.compile(r"tok|\btps\b")),
)


@frozen
class Clock:
    """Seconds by step, both increasing; with ``calendar`` they count from 1970."""

    steps: Ints
    seconds: Floats
    calendar: bool

    def at(self, step: int) -> str:
        """Return the time of a step, approximately if it was not logged; empty outside of the log.

        Calendar times are UTC because a log does not record its time zone.
        """
        if not self.steps[0] <= step <= self.steps[-1]:
            return ""
        seconds = float(np.interp(step, self.steps, self.seconds))
        prefix = "" if step in self.steps else "about "
        if self.calendar:
            return f"{prefix}{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
        elapsed = round(seconds - float(self.seconds[0]))
        return f"{prefix}{elapsed // 3600}:{elapsed // 60 % 60:02}:{elapsed % 60:02}"

    def between(self, first: int, last: int) -> float | None:
        """Return the seconds between two steps, pauses included, or None outside of the log."""
        if last < self.steps[0] or first > self.steps[-1]:
            return None
        start, end = np.interp([first, last], self.steps, self.seconds)
        return float(end - start)


def read_clock(history: History) -> Clock | None:
    """Return the clock of a log that has one."""
    logged = history.finite("clock")
    if len(logged) < 2:
        return None
    largest = float(logged.values.max())
    seconds = logged.values / next((unit for least, unit in _TIME_UNITS if largest > least), 1.0)
    calendar = bool(_CALENDAR[0] <= seconds.min() and seconds.max() <= _CALENDAR[1])
    # A clock that goes back belongs to a new process; its times are added to the previous ones.
    gains = np.maximum(np.diff(seconds), 0.0)
    cumulative = seconds[0] + np.concatenate(([0.0], np.cumsum(gains)))
    rising = np.maximum.accumulate(seconds) if calendar else cumulative
    return Clock(steps=logged.steps, seconds=rising, calendar=calendar)


@frozen
class Amount:
    """A figure of the cost and its basis; without a figure, the data that it needs."""

    value: float | None = None
    basis: str


@frozen
class IncidentCost:
    """The compute after ``first`` up to and including ``last``: hours, and ``work`` in ``unit``."""

    first: int
    last: int
    hours: Amount
    work: Amount
    unit: str

    @property
    def steps(self) -> int:
        """The number of steps after ``first``."""
        return self.last - self.first


def estimate_cost(report: Report, clock: Clock | None, first: int, last: int) -> IncidentCost:
    """Return the compute after ``first`` up to and including ``last``."""
    steps = plural(last - first, "step")
    rate, unit = _rate(report.history.finite("tokens_per_second"), first, last)
    per_step, hours = _work_per_step(report, unit), _hours(report, clock, first, last)
    work = per_step
    if per_step.value is not None:
        work = Amount(value=(last - first) * per_step.value, basis=f"{steps} x {per_step.basis}")
        if hours.value is None and rate is not None and work.value is not None:
            basis = f"{work.basis}, at {large(rate)} {unit}/s as logged"
            hours = Amount(value=work.value / rate / 3600, basis=basis)
    elif rate is not None and hours.value is not None:
        basis = f"{large(rate)} {unit}/s (median logged) x the time"
        work = Amount(value=rate * hours.value * 3600, basis=basis)
    return IncidentCost(first=first, last=last, hours=hours, work=work, unit=unit)


def _hours(report: Report, clock: Clock | None, first: int, last: int) -> Amount:
    seconds = None if clock is None else clock.between(first, last)
    if seconds:
        return Amount(value=seconds / 3600, basis="the log's time stamps, pauses included")
    series = report.history.finite("step_time")
    step_time = _median(series, first, last)
    if step_time is None:
        return Amount(basis="needs time stamps or step times in the log")
    # The name of the column may contain the unit.
    name_parts, steps = set(plain(series.column).split("_")), last - first
    in_milliseconds = bool(name_parts & {"ms", "msec", "milliseconds"})
    has_unit = in_milliseconds or bool(name_parts & {"s", "sec", "secs", "seconds"})
    step_seconds = step_time / 1000 if in_milliseconds else step_time
    basis = f"{plural(steps, 'step')} x {num(step_seconds)} s, the median step time"
    return Amount(
        value=steps * step_seconds / 3600,
        basis=basis if has_unit else f"{basis} (assumed in seconds)",
    )


def _median(series: Series, first: int, last: int) -> float | None:
    """Return the median of a rate or duration in these steps, or None if it is a running total."""
    values = series.between(first + 1, last).values
    if not len(values) or values.min() <= 0:
        return None
    # A series that only increases is a total since the beginning.
    counts_up = len(values) > 2 and bool(np.all(np.diff(values) > 0))
    return None if counts_up else float(np.median(values))


def _rate(series: Series, first: int, last: int) -> tuple[float | None, str]:
    name = plain(series.column).replace("_", " ")
    unit = next((unit for unit, pattern in _WORK if pattern.search(name)), None)
    return (None, "tokens") if unit is None else (_median(series, first, last), unit)


def _work_per_step(report: Report, unit: str) -> Amount:
    batch = report.manifest.batch_size
    length = other_number(report.manifest.others(report.history.config), "sequence_length")
    if report.history.counts_epochs:
        return Amount(basis="needs throughput and time stamps: the steps are epochs")
    if batch is not None and unit == "samples":
        return Amount(value=batch, basis=f"{plural(batch, 'sample')} (batch_size)")
    if batch is not None and unit == "tokens" and length is not None and length > 0:
        basis = (
            f"{plural(batch, 'sequence')} x {num(length)} tokens (batch_size and sequence length)"
        )
        return Amount(value=batch * length, basis=basis)
    return Amount(basis="needs throughput in the log, or batch_size and seq_len")


def duration(hours: float) -> str:
    """Format hours in a readable unit."""
    if hours >= 1:
        return f"{hours:,.1f} hours"
    return f"{hours * 60:.0f} minutes" if hours >= 1 / 30 else f"{hours * 3600:.0f} seconds"


def large(value: float) -> str:
    """Format a large number in words."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:,.0f}"
