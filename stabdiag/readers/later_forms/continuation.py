"""Join a log and its remainder of another form, if the remainder continues it.

The remainder continues the log if its steps or its losses do. Its columns continue the columns with
the same role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.events import Event, EventCode, EventKind, LeftOut
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_perplexity, names_measurements
from stabdiag.model.text import plural
from stabdiag.readers.columns import EXACT, Column, Columns
from stabdiag.readers.later_forms.stacked import source_names, stacked
from stabdiag.readers.unnamed import A_TIME

# Losses continue if the first few of the remainder are within this factor of the last few above.
COMPARED_LOSSES: Final = 5
_NEAR_FACTOR: Final = 4.0
VERY_NEAR: Final = 1.1
# Farther away, another value was read as the loss.
_FAR: Final = 100.0

# Steps continue if the first one of the remainder is at most this many strides after the last one.
_MAX_STRIDES: Final = 100

CLOCK_ROLES: Final = ("step", "epoch")


@frozen
class Remainder:
    """The remainder of a log: its first byte, its first line, and the number of records above it.

    ``count`` is the number of its lines that were not read.
    """

    start: int
    line: int
    rows: int
    count: int = 0


def with_remainder(
    columns: Columns, roles: Mapping[str, str], later: Columns, unread: Remainder
) -> Columns | None:
    """Return the columns with the remainder below them, or None if it is another log."""
    later_roles = assign(later.names).columns
    if unread.count:
        # Its reader may have found reports of failures below these records.
        columns = first_records(columns, unread.rows)
    if not _may_continue(columns, roles["loss"], later, later_roles["loss"]):
        return None
    clock = next((role for role in CLOCK_ROLES if role in roles), None)
    has_clock = clock in later_roles and later.epoch_length is None
    counts = later.load(later_roles[clock]) if clock is not None and has_clock else None
    before = columns.load(roles["loss"]).logged
    after = later.load(later_roles["loss"]).logged[:COMPARED_LOSSES]
    is_counted = False
    if clock is not None and counts is not None:
        columns = _with_total_counts(columns, roles[clock], counts)
        # A count within an epoch restarts with each evaluation as well.
        restarts = columns.epoch_length is None and is_near(before[:COMPARED_LOSSES], after)
        is_counted = _continues_counter(columns.load(roles[clock]), counts, restarts=restarts)
    # In a long table, a value is a loss only if its name says so: ``assemble`` looks at it.
    is_long = any(map(names_measurements, later.names))
    last_losses = before[-COMPARED_LOSSES:]
    if not is_counted:
        # A counter that starts again and only rises may belong to another loop, of an evaluation.
        only_rises = counts is not None and bool((np.diff(counts.logged) >= 0).all())
        # Losses at another level may belong to another bar within the epoch.
        is_level = not is_long and is_near(last_losses, after)
        if only_rises or not is_level or columns.epoch_length is not None:
            return None
    is_finite = bool(np.isfinite(after).any())
    if is_finite and not is_long and not is_near(before, after, factor=_FAR):
        return None
    # If the names are assumed, both the counter and the level of the loss have to fit.
    if later.unnamed and not (is_counted and is_near(last_losses, after, factor=VERY_NEAR)):
        return None
    names = _own_names(columns, roles, later, later_roles, is_counted=is_counted)
    if is_long:
        del names[later_roles["loss"]]
    columns = first_records(columns, unread.rows)
    last = None if clock is None else _last_count(columns.load(roles[clock]))
    return _joined(columns, later, names, unread, last)


def _may_continue(columns: Columns, loss: str, later: Columns, later_loss: str) -> bool:
    """Return True if the remainder has enough losses, of the same kind as those above it."""
    has_losses = len(later.load(later_loss).logged) >= COMPARED_LOSSES
    is_number = has_losses and not columns.load(loss).is_text
    return is_number and is_perplexity(later_loss) == is_perplexity(loss)


def _own_names(
    columns: Columns,
    roles: Mapping[str, str],
    later: Columns,
    later_roles: Mapping[str, str],
    *,
    is_counted: bool,
) -> dict[str, str]:
    """Return the column that each column of the remainder continues, "" if it is left out."""
    names = {name: roles[role] for role, name in later_roles.items() if role in roles}
    if not is_counted and any(role in roles for role in CLOCK_ROLES):
        names |= {later_roles[role]: "" for role in CLOCK_ROLES if role in later_roles}
    if "clock" in roles and later_roles.get("clock") in names:
        times = columns.load(roles["clock"]), later.load(later_roles["clock"])
        if _are_dates(times[0]) != _are_dates(times[1]):
            names[later_roles["clock"]] = ""
    return names


def first_records(columns: Columns, rows: int) -> Columns:
    """Return the columns with the first records only."""
    load = columns.load
    return replace(columns, rows=rows, load=lambda name: _cut(load(name), rows))


def _with_total_counts(columns: Columns, clock: str, later: Column) -> Columns:
    """Return columns without restarts of their counter if it is a total below them."""
    counter = columns.load(clock)
    values = counter.logged
    if counter.is_text or later.is_text or not len(later.logged) or not (np.diff(values) < 0).any():
        return columns
    length = columns.epoch_length or float(values.max())
    totals = values + length * np.append(0, np.cumsum(np.diff(values) < 0))
    if not totals[-1] <= later.logged[0] <= totals[-1] + length:
        return columns
    # One counter may begin with 0, and the other with 1.
    totals -= totals[-1] == later.logged[0]
    changed = counter.values.copy()
    changed[counter.present] = totals

    def count(name: str, column: Column) -> Column:
        return replace(column, values=changed) if name == clock else column

    return replace(columns.with_changed(count), epoch_length=None)


def is_near(before: Floats, after: Floats, *, factor: float = _NEAR_FACTOR) -> bool:
    """Return True if losses are at about the same level, up to a factor."""
    finite = [values[np.isfinite(values)] for values in (before, after)]
    if not all(map(len, finite)):
        return False
    first, second = (float(np.median(values)) for values in finite)
    if first <= 0 or second <= 0:
        spread = float(np.ptp(finite[0])) + abs(first)
        return abs(second - first) <= factor * spread
    return 1 / factor <= second / first <= factor


def _continues_counter(column: Column, later: Column, *, restarts: bool) -> bool:
    """Return True if a counter continues the counter of the log, or ``restarts`` with it."""
    if column.is_text or later.is_text or len(column.logged) < 2 or not len(later.logged):
        return False
    steps, own = column.logged, later.logged
    if not (np.abs(own) < EXACT).all() or (np.diff(own) < 0).any():
        return False
    stride = max(float(np.median(np.abs(np.diff(steps)))), 1.0)
    first, last = float(steps[0]), float(steps[-1])
    is_next = last < own[0] <= last + _MAX_STRIDES * stride
    return bool(is_next or (restarts and abs(own[0] - first) <= COMPARED_LOSSES * stride))


def _are_dates(times: Column) -> bool:
    """Return True if times count from 1970, and not from the start of the run."""
    return len(times.logged) > 0 and float(np.median(times.logged)) >= A_TIME


def _last_count(counter: Column) -> int | None:
    """Return the last count."""
    counts = counter.logged
    return int(counts[-1]) if len(counts) and not counter.is_text else None


def _joined(
    columns: Columns, later: Columns, own: Mapping[str, str], unread: Remainder, last: int | None
) -> Columns:
    """Return the columns with the remainder below them.

    Args:
        columns: the columns of the log.
        later: the columns of the remainder.
        own: the name in the log of columns of the remainder; "" for columns that are left out.
        unread: the remainder.
        last: the last count above it.
    """
    above = unread.rows
    sources = source_names(later, own)
    message = (
        f"from line {unread.line} on, {plural(later.rows, 'record has', 'records have')} another"
        f" form ({later.format}) and continue{'s' if later.rows == 1 else ''} the log"
    )
    quotes = {event.quote for event in columns.events if event.kind is EventKind.MESSAGE}
    events = [
        event
        for event in later.events
        if not (event.kind is EventKind.MESSAGE and event.quote in quotes)
        and event.kind is not EventKind.STEPS
    ]
    event = Event(
        kind=EventKind.COLUMN,
        code=EventCode.FORM_CHANGED,
        message=message,
        step=last,
        line=unread.line,
        above=above,
    )
    kept = [
        entry
        for entry in columns.left_out
        if entry.code is not EventCode.LINES_LEFT_OUT
        or (entry.above is not None and entry.above < above)
    ]
    shifted = [_shifted(entry, above, unread.line - 1) for entry in later.left_out]
    return replace(
        columns,
        names=tuple(dict.fromkeys((*columns.names, *sources))),
        rows=above + later.rows,
        load=stacked(columns, later, sources),
        bad_lines=(*columns.bad_lines, *(bad.moved(unread.line - 1) for bad in later.bad_lines)),
        bad_count=max(columns.bad_count - unread.count, 0) + later.bad_count,
        events=(*columns.events, event, *events),
        config={**later.config, **columns.config},
        distinguishes_null=columns.distinguishes_null or later.distinguishes_null,
        ends=(*columns.ends, *(end + above for end in later.ends)),
        left_out=(*kept, *shifted),
    )


def _cut(column: Column, rows: int) -> Column:
    """Return the first rows of a column."""
    return replace(
        column,
        values=column.values[:rows],
        present=column.present[:rows],
        null=column.null[:rows],
        stray_rows=column.stray_rows[column.stray_rows < rows],
    )


def _shifted(entry: LeftOut, rows: int, lines: int) -> LeftOut:
    """Return an entry of the remainder with its position in the whole log."""
    return replace(
        entry,
        above=None if entry.above is None else entry.above + rows,
        line=None if entry.line is None else entry.line + lines,
    )
