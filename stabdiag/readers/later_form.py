"""Logs whose form changes: lines after the last loss that their reader cannot read.

A library is updated, prints become a progress bar, or a restart uses another logger. The remainder
of the log, from the first of these lines on, is read like a log of its own. It continues the log if
its steps or its losses do. Its columns continue the columns with the same role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from stabdiag.errors import LogError
from stabdiag.model.arrays import Floats
from stabdiag.model.events import Event, EventCode, EventKind, LeftOut
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_loss, names_measurements, names_results, names_split
from stabdiag.model.text import plural
from stabdiag.readers.columns import EXACT, Column, Columns
from stabdiag.readers.source import Pieces, Stream

# A log rarely changes its form more often.
_MAX_FORMS: Final = 4

# Fewer lines may be a summary.
_MIN_UNREAD_LINES: Final = 6

# Larger logs are not read again.
LARGEST: Final = 1 << 26

# A heading is at most this many lines above the first unread line.
_HEADING_LINES: Final = 4
_RULE: Final = b"|-=+: \t"
_LOSS_AND_NUMBER: Final = lazy_pattern(rb"(?=[^\n]*\d)[^\n]*oss", re.IGNORECASE)

# The same text may be on this many lines.
_MAX_LINE_PLACES: Final = 1000

# Losses continue if the first few of the remainder are within this factor of the last few above.
_FEW: Final = 5
_NEAR_FACTOR: Final = 4.0
_VERY_NEAR: Final = 1.1
# Farther away, another value was read as the loss.
_FAR: Final = 100.0

# Other columns of a record are looked for among this many.
_MAX_COMPARED: Final = 16

# Steps continue if the first one of the remainder is at most this many strides after the last one.
_MAX_STRIDES: Final = 100

_CLOCK_ROLES: Final = ("step", "epoch")


def with_later_forms(columns: Columns, reopened: Callable[[], bytes]) -> Columns:
    """Return the columns of a log, with the remainder that has another form.

    Args:
        columns: the columns of the log.
        reopened: returns the bytes of the log, without packing; none if there are too many.
    """
    data, form = b"", columns.format
    for _ in range(_MAX_FORMS):
        if columns.converted or columns.unnamed or columns.is_unknown or columns.stored:
            break
        roles = assign(columns.names).columns
        if "loss" not in roles:
            break
        last = _last_loss(columns, roles["loss"])
        if last is None or not _has_unread_remainder(columns, roles, last):
            break
        data = data or reopened()
        unread = _unread_remainder(columns, roles, last, data, form) if data else None
        if unread is None:
            break
        remainder = data[unread.start :]
        later = _read_remainder(remainder)
        joined = None if later is None else _continued(columns, roles, later, unread)
        if joined is None and (later := _read_rows(columns, roles, remainder)) is not None:
            joined = _continued(columns, roles, later, unread)
        if later is None or joined is None:
            break
        columns, form = joined, later.format
    return columns


@frozen
class _Unread:
    """The remainder of a log: its first byte, its first line, and the number of records above it.

    ``count`` is the number of its lines that were not read.
    """

    start: int
    line: int
    rows: int
    count: int = 0


def _last_loss(columns: Columns, loss: str) -> int | None:
    """Return the last record with a finite loss, or None if the log has hardly any."""
    rows = np.flatnonzero(np.isfinite(columns.load(loss).values) & columns.load(loss).present)
    return int(rows[-1]) if len(rows) >= _FEW else None


def _unread_lines(columns: Columns, last: int) -> list[LeftOut]:
    """Return the entries of unread lines after the last loss."""
    return [
        entry
        for entry in columns.left_out
        if entry.code is EventCode.LINES_LEFT_OUT
        # A progress bar that is redrawn is one line.
        and max(entry.count, entry.text.count("\r")) >= _MIN_UNREAD_LINES
        and entry.line is not None
        and entry.text
        and (entry.above is None or entry.above > last)
    ]


def _has_unread_remainder(columns: Columns, roles: Mapping[str, str], last: int) -> bool:
    """Return True if lines after the last loss were not read, or are objects without a loss."""
    if _unread_lines(columns, last):
        return True
    if columns.format != "jsonl" or columns.rows - last <= _MIN_UNREAD_LINES:
        return False
    until = _rows_above(columns, roles, last)
    losses = (name for name in columns.names if name == roles["loss"] or is_a_loss(name))
    return not any(bool(columns.load(name).present[last + 1 : until].any()) for name in losses)


def _unread_remainder(
    columns: Columns, roles: Mapping[str, str], last: int, data: bytes, form: str
) -> _Unread | None:
    """Return the remainder of the log from the first line after the last loss that was not read.

    ``form`` is the format of the lines above it.
    """
    entries = _unread_lines(columns, last)
    if not entries:
        start = _after_object(data, last + 1)
        return _Unread(start=start, line=data.count(b"\n", 0, start) + 1, rows=last + 1)
    entry = min(entries, key=lambda entry: entry.line or 0)
    place = _find_line(data, entry)
    if place is None:
        return None
    start = _with_heading(columns, data, place, form)
    rows = _rows_above(columns, roles, last)
    has_messages = any(event.kind is EventKind.MESSAGE for event in columns.events)
    # Reports of failures are records as well, which the reader did not count.
    rows = rows if entry.above is None or has_messages else min(rows, entry.above)
    line = data.count(b"\n", 0, start) + 1
    return _Unread(start=start, line=line, rows=rows, count=entry.count)


def _rows_above(columns: Columns, roles: Mapping[str, str], last: int) -> int:
    """Return the number of records up to the last loss and below it, without reported failures.

    A later line such as "loss: nan" was a report for the reader: a record of only a loss.
    """
    loss = columns.load(roles["loss"])
    clocks = {roles[role] for role in _CLOCK_ROLES if role in roles}
    others = [name for name in columns.names if name not in clocks and name != roles["loss"]]
    measured = np.zeros(columns.rows - last - 1, dtype=np.bool_)
    for name in others[:_MAX_COMPARED]:
        measured |= columns.load(name).present[last + 1 :]
    failed = loss.present & ~np.isfinite(loss.values)
    reports = np.flatnonzero(failed[last + 1 :] & ~measured)
    return last + 1 + int(reports[0]) if len(reports) else columns.rows


def _find_line(data: bytes, entry: LeftOut) -> int | None:
    """Return the start of the line of an entry: of equal lines, the one next to its number.

    A line whose text was changed is found by its number.
    """
    text = entry.text.encode().strip()
    starts = (data.rfind(b"\n", 0, place) + 1 for place in _places(data, text))
    return min(
        islice(starts, _MAX_LINE_PLACES),
        key=lambda start: abs(data.count(b"\n", 0, start) + 1 - (entry.line or 0)),
        default=_line_start(data, entry.line or 0),
    )


def _line_start(data: bytes, number: int) -> int | None:
    """Return the start of the line with a number, from 1, or None if there are fewer lines."""
    start = 0
    for _ in range(number - 1):
        start = data.find(b"\n", start) + 1
        if not start:
            return None
    return start


def _places(data: bytes, text: bytes) -> Iterator[int]:
    place = data.find(text) if text else -1
    while place >= 0:
        yield place
        place = data.find(text, place + len(text))


def _with_heading(columns: Columns, data: bytes, start: int, form: str) -> int:
    """Return the start of the heading above the first unread line."""
    bad = {line.text.encode().strip() for line in columns.bad_lines}
    for _ in range(_HEADING_LINES):
        above = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
        line = data[above:start].strip()
        if form == "csv":
            is_record = line not in bad
        else:
            is_record = line.startswith(b"{") or _LOSS_AND_NUMBER.match(line) is not None
        if start == 0 or (is_record and line.strip(_RULE)):
            break
        start = above
    return start


def _after_object(data: bytes, count: int) -> int:
    """Return the start of the line below a number of lines with an object."""
    start = 0
    while count and start < len(data):
        count -= data[start : start + 1] == b"{"
        start = data.find(b"\n", start) + 1 or len(data)
    return start


def _read_remainder(data: bytes) -> Columns | None:
    """Read the remainder of a log, or return None if no loss is found in it."""
    from stabdiag.readers import read_plain

    try:
        # Without a suffix, the name does not suggest a format.
        columns = read_plain(Stream("log", Pieces(iter([data]))))
    except LogError:
        return None
    if columns.is_unknown or not assign(columns.names).has("loss"):
        return None
    if any(names_results(name) or names_split(name) for name in columns.names):
        return None if not any(map(names_measurements, columns.names)) else columns
    return columns


def _read_rows(columns: Columns, roles: Mapping[str, str], data: bytes) -> Columns | None:
    """Read the remainder of a log as rows without names, which continue its values."""
    from stabdiag.readers.unnamed_rows import read_continuing_rows

    clock = next((roles[role] for role in _CLOCK_ROLES if role in roles), None)
    counter, loss = columns.load(clock) if clock is not None else None, columns.load(roles["loss"])
    if counter is None or counter.is_text or loss.is_text:
        return None
    of_loss = counter.present & loss.present & np.isfinite(loss.values)
    rows = read_continuing_rows(
        data,
        steps=counter.values[of_loss],
        losses=loss.values[of_loss],
        has_evaluation="eval_loss" in roles,
    )
    if rows is None or clock is None:
        return None
    names = {clock: "step", roles["loss"]: "loss"}
    return replace(rows, names=(*names,), load=lambda name: rows.load(names[name]))


def _continued(
    columns: Columns, roles: Mapping[str, str], later: Columns, unread: _Unread
) -> Columns | None:
    """Return the columns with the remainder below them, or None if it is another log."""
    later_roles = assign(later.names).columns
    before = columns.load(roles["loss"]).logged
    after = later.load(later_roles["loss"]).logged
    if len(after) < _FEW or columns.load(roles["loss"]).is_text:
        return None
    clock = next((role for role in _CLOCK_ROLES if role in roles), None)
    # In a long table, a value is a loss only if its name says so: ``assemble`` looks at it.
    is_long = any(map(names_measurements, later.names))
    is_near = _is_near(before[-_FEW:], after[:_FEW]) and not is_long
    has_clock = clock in later_roles and later.epoch_length is None
    counts = later.load(later_roles[clock]) if clock is not None and has_clock else None
    if clock is not None and counts is not None:
        columns = _with_total_counts(columns, roles[clock], counts)
    # A count within an epoch restarts with each evaluation as well.
    restarts = columns.epoch_length is None and _is_near(before[:_FEW], after[:_FEW])
    is_counted = counts is not None and _continues_counter(
        columns.load(roles[clock or ""]), counts, restarts=restarts
    )
    # A counter that starts again and only rises may belong to another loop, of an evaluation.
    only_rises = counts is not None and bool((np.diff(counts.logged) >= 0).all())
    if not is_counted and (only_rises or not is_near):
        return None
    is_finite = bool(np.isfinite(after[:_FEW]).any())
    if is_finite and not is_long and not _is_near(before, after[:_FEW], factor=_FAR):
        return None
    # Another bar within an epoch may belong to an evaluation.
    if not is_counted and columns.epoch_length is not None:
        return None
    # Assumed names have to fit.
    if later.unnamed and not (
        is_counted and _is_near(before[-_FEW:], after[:_FEW], factor=_VERY_NEAR)
    ):
        return None
    own = {name: roles[role] for role, name in later_roles.items() if role in roles}
    if is_long:
        del own[later_roles["loss"]]
    if clock is not None and not is_counted:
        own.pop(later_roles.get(clock, ""), None)
        own |= {later_roles[role]: "" for role in _CLOCK_ROLES if role in later_roles}
    last = None if clock is None else _last_count(columns.load(roles[clock]), unread.rows)
    return _joined(columns, later, own, unread, last)


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


def _is_near(before: Floats, after: Floats, *, factor: float = _NEAR_FACTOR) -> bool:
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
    return bool(is_next or (restarts and abs(own[0] - first) <= _FEW * stride))


def _last_count(counter: Column, rows: int) -> int | None:
    """Return the last count among the first rows."""
    counts = counter.values[:rows][counter.present[:rows]]
    return int(counts[-1]) if len(counts) and not counter.is_text else None


def _joined(
    columns: Columns,
    later: Columns,
    own: Mapping[str, str],
    unread: _Unread,
    last: int | None,
) -> Columns:
    """Return the columns with the remainder below them.

    Args:
        columns: the columns of the log.
        later: the columns of the remainder.
        own: the name in the log of columns of the remainder; "" for columns that are left out.
        unread: the remainder.
        last: the last count above it.
    """
    targets = set(own.values())
    sources = {own.get(name, name): name for name in later.names if name in own}
    sources |= {name: name for name in later.names if name not in own and name not in targets}
    sources.pop("", None)
    above = unread.rows
    rows = above + later.rows

    def load(name: str) -> Column:
        second = later.load(sources[name]) if name in sources else _blank(later.rows)
        if name not in columns.names:
            first = replace(_blank(above), is_text=second.is_text, words=second.words)
        else:
            first = _cut(columns.load(name), above)
            # The codes of the words differ.
            second = _blank(later.rows) if first.is_text or second.is_text else second
        return replace(
            first,
            values=np.concatenate([first.values, second.values]),
            present=np.concatenate([first.present, second.present]),
            null=np.concatenate([first.null, second.null]),
            is_time=first.is_time or second.is_time,
            stray_rows=np.concatenate([first.stray_rows, second.stray_rows + above]),
        )

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
        rows=rows,
        load=load,
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


def _blank(rows: int) -> Column:
    return Column(
        values=np.full(rows, np.nan),
        present=np.zeros(rows, dtype=np.bool_),
        null=np.zeros(rows, dtype=np.bool_),
    )


def _shifted(entry: LeftOut, rows: int, lines: int) -> LeftOut:
    """Return an entry of the remainder with its place in the whole log."""
    return replace(
        entry,
        above=None if entry.above is None else entry.above + rows,
        line=None if entry.line is None else entry.line + lines,
    )
