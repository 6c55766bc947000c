"""What an incident cost: the steps between two others, in hours, tokens or samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.manifest.keys import other_number, plain
from stabdiag.model.text import num, plural

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.history import History, Series
    from stabdiag.model.report import Report

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


@dataclass(frozen=True, kw_only=True)
class Amount:
    """One figure of the cost and how it is known; or no figure, and what it would take."""

    value: float | None
    how: str


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The compute between two steps: hours, and ``work`` in ``unit``, tokens or samples.

    ``step_unit`` is what a step of the log is called.
    """

    first: int
    last: int
    hours: Amount
    work: Amount
    unit: str
    step_unit: str

    @property
    def steps(self) -> int:
        """How many steps were trained after the first of the two."""
        return self.last - self.first


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What was lost, in words, and its cost where there is one.

    ``at_least`` says that more was lost than can be told, for want of a checkpoint's step.
    """

    what: str
    cost: Cost | None = None
    at_least: bool = False

    @property
    def briefly(self) -> str:
        """The cost in one clause."""
        if self.cost is None:
            return self.what
        known = [f"{plural(self.cost.steps, self.cost.step_unit)}"]
        if self.cost.hours.value is not None:
            known.append(duration(self.cost.hours.value))
        if self.cost.work.value is not None:
            known.append(f"{large(self.cost.work.value)} {self.cost.unit}")
        return f"{'at least ' if self.at_least else ''}{', '.join(known)}: {self.what}"


def cost_of(report: Report, clock: Clock | None, first: int, last: int) -> Cost:
    """Return the compute spent after one step, up to and with another."""
    steps = last - first
    rate, unit = _rate(report.history.finite("tokens_per_second"), first, last)
    each = _each(report, unit)
    hours = _hours(report, clock, first, last)
    if hours.value is None and rate is not None and each.value is not None:
        how = f"{plural(steps, 'step')} x {each.how}, at {large(rate)} {unit} a second as logged"
        hours = Amount(value=steps * each.value / rate / 3600, how=how)
    if each.value is not None:
        work = Amount(value=steps * each.value, how=f"{plural(steps, 'step')} x {each.how}")
    elif rate is not None and hours.value is not None:
        how = f"{large(rate)} {unit} a second (median of these steps, as logged) x the time"
        work = Amount(value=rate * hours.value * 3600, how=how)
    else:
        work = each
    return Cost(
        first=first, last=last, hours=hours, work=work, unit=unit, step_unit=report.history.unit
    )


def _hours(report: Report, clock: Clock | None, first: int, last: int) -> Amount:
    seconds = None if clock is None else clock.between(first, last)
    if seconds:
        return Amount(value=seconds / 3600, how="the log's time stamps, pauses included")
    series = report.history.finite("step_time")
    usual = _usual(series, first, last)
    if usual is None:
        return Amount(value=None, how="log time stamps, or the time that a step takes")
    unit, told = _unit_of_time(series.column)
    steps, seconds = last - first, usual * unit
    how = f"{plural(steps, 'step')} x {num(seconds)} s, the median time of a step{told}"
    return Amount(value=steps * seconds / 3600, how=how)


def _usual(series: Series, first: int, last: int) -> float | None:
    """Return the median of a speed or a duration in these steps, or None if it is neither."""
    values = series.between(first + 1, last).values
    if not len(values) or values.min() <= 0:
        return None
    # What only ever rises is the time since the beginning, or all that was done so far.
    counts_up = len(values) > 2 and bool(np.all(np.diff(values) > 0))
    return None if counts_up else float(np.median(values))


def _unit_of_time(column: str) -> tuple[float, str]:
    """Return the seconds of one unit, and what is assumed where the column's name tells none."""
    words = set(plain(column).split("_"))
    if words & {"ms", "msec", "milliseconds"}:
        return 1e-3, ""
    told = words & {"s", "sec", "secs", "seconds"}
    return 1.0, "" if told else " (taken to be in seconds)"


def _rate(series: Series, first: int, last: int) -> tuple[float | None, str]:
    """Return the throughput in these steps, and what it counts."""
    name = plain(series.column)
    for unit, pattern in (("samples", "sample"), ("words", r"\bwps\b"), ("tokens", r"tok|\btps\b")):
        if re.search(pattern, name.replace("_", " ")):
            return _usual(series, first, last), unit
    # A bare "throughput" may count anything, floating-point operations too.
    return None, "tokens"


def _each(report: Report, unit: str) -> Amount:
    """Return what a step takes, as the manifest and the log tell it."""
    batch, length = report.manifest.batch_size, _length(report)
    if report.history.counts_epochs:
        return Amount(value=None, how="log the throughput and time stamps: the steps are epochs")
    if batch is not None and unit == "samples":
        return Amount(value=batch, how=f"{plural(batch, 'sample')} (batch_size)")
    if batch is not None and unit == "tokens" and length is not None:
        how = f"{plural(batch, 'sequence')} x {num(length)} tokens (batch_size and sequence length)"
        return Amount(value=batch * length, how=how)
    return Amount(value=None, how="log the throughput, or give batch_size and seq_len")


def _length(report: Report) -> float | None:
    """Return the tokens of a sequence, as far as they are told under a common name."""
    told = other_number(report.manifest.others(report.history.config), "sequence_length")
    return told if told is not None and told > 0 else None


def duration(hours: float) -> str:
    """Return hours in the unit in which they are easiest to grasp."""
    if hours >= 1:
        return f"{hours:,.1f} hours"
    return f"{hours * 60:.0f} minutes" if hours >= 1 / 30 else f"{hours * 3600:.0f} seconds"


def large(value: float) -> str:
    """Return a large number as people say it."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:,.0f}"
