"""What an incident cost: the steps between two others, in hours, tokens or samples."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest.keys import other_number, plain
from stabdiag.model.report import Report
from stabdiag.model.text import num, plural

# A time stamp above the first is in nanoseconds, then in microseconds, then in milliseconds: in
# any larger unit it would lie beyond the year 5000.
_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))

# Seconds since 1970 of the years 2001 to 2100. Anything else counts from some other beginning.
_CALENDAR: Final = (1e9, 4.1e9)

# What a throughput counts, by the name of its column. A bare "throughput" may count anything.
_WORK: Final = (
    ("samples", re.compile(r"sample")),
    ("words", re.compile(r"\bwps\b")),
    ("tokens", re.compile(r"tok|\btps\b")),
)


@frozen
class Clock:
    """Seconds by step, both rising; ``calendar`` says that they count from 1970."""

    steps: Ints
    seconds: Floats
    calendar: bool

    def at(self, step: int) -> str:
        """Return when a step was logged; roughly, where it was not; nothing outside of the log.

        A log does not record its machine's time zone, so calendar times are UTC.
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


@frozen
class Amount:
    """One figure of the cost and how it is known; or no figure, and what it takes."""

    value: float | None = None
    how: str


@frozen
class Cost:
    """The compute after one step, up to and with another: hours, and ``work`` in ``unit``."""

    first: int
    last: int
    hours: Amount
    work: Amount
    unit: str

    @property
    def steps(self) -> int:
        """How many steps were trained after the first of the two."""
        return self.last - self.first


def cost_of(report: Report, clock: Clock | None, first: int, last: int) -> Cost:
    """Return the compute spent after one step, up to and with another."""
    steps = plural(last - first, "step")
    rate, unit = _rate(report.history.finite("tokens_per_second"), first, last)
    each, hours = _each(report, unit), _hours(report, clock, first, last)
    work = each
    if each.value is not None:
        work = Amount(value=(last - first) * each.value, how=f"{steps} x {each.how}")
        if hours.value is None and rate is not None and work.value is not None:
            how = f"{work.how}, at {large(rate)} {unit}/s as logged"
            hours = Amount(value=work.value / rate / 3600, how=how)
    elif rate is not None and hours.value is not None:
        how = f"{large(rate)} {unit}/s (median logged) x the time"
        work = Amount(value=rate * hours.value * 3600, how=how)
    return Cost(first=first, last=last, hours=hours, work=work, unit=unit)


def _hours(report: Report, clock: Clock | None, first: int, last: int) -> Amount:
    seconds = None if clock is None else clock.between(first, last)
    if seconds:
        return Amount(value=seconds / 3600, how="the log's time stamps, pauses included")
    series = report.history.finite("step_time")
    usual = _usual(series, first, last)
    if usual is None:
        return Amount(how="needs time stamps or step times in the log")
    # The column's name may tell the unit.
    words, steps = set(plain(series.column).split("_")), last - first
    thousandth = bool(words & {"ms", "msec", "milliseconds"})
    known = thousandth or bool(words & {"s", "sec", "secs", "seconds"})
    each = usual / 1000 if thousandth else usual
    how = f"{plural(steps, 'step')} x {num(each)} s, the median step time"
    return Amount(value=steps * each / 3600, how=how if known else f"{how} (assumed in seconds)")


def _usual(series: Series, first: int, last: int) -> float | None:
    """Return the median of a speed or a duration in these steps, or None if it is neither."""
    values = series.between(first + 1, last).values
    if not len(values) or values.min() <= 0:
        return None
    # A series that only rises is the time since the beginning, or all work done so far.
    counts_up = len(values) > 2 and bool(np.all(np.diff(values) > 0))
    return None if counts_up else float(np.median(values))


def _rate(series: Series, first: int, last: int) -> tuple[float | None, str]:
    name = plain(series.column).replace("_", " ")
    unit = next((unit for unit, pattern in _WORK if pattern.search(name)), None)
    return (None, "tokens") if unit is None else (_usual(series, first, last), unit)


def _each(report: Report, unit: str) -> Amount:
    batch = report.manifest.batch_size
    length = other_number(report.manifest.others(report.history.config), "sequence_length")
    if report.history.counts_epochs:
        return Amount(how="needs throughput and time stamps: the steps are epochs")
    if batch is not None and unit == "samples":
        return Amount(value=batch, how=f"{plural(batch, 'sample')} (batch_size)")
    if batch is not None and unit == "tokens" and length is not None and length > 0:
        how = f"{plural(batch, 'sequence')} x {num(length)} tokens (batch_size and sequence length)"
        return Amount(value=batch * length, how=how)
    return Amount(how="needs throughput in the log, or batch_size and seq_len")


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
