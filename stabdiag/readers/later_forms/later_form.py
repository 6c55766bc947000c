"""Logs whose form changes: lines after the last loss that their reader cannot read.

A library is updated, prints become a progress bar, or a restart uses another logger. The remainder
of the log, from the first of these lines on, is read like a log of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from stabdiag.errors import LogError
from stabdiag.model.events import EventCode, EventKind, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_loss, names_measurements, names_results, names_split
from stabdiag.readers.columns import Columns
from stabdiag.readers.later_forms.continuation import (
    CLOCK_ROLES,
    COMPARED_LOSSES,
    Remainder,
    with_remainder,
)
from stabdiag.readers.source import Pieces, Stream
from stabdiag.readers.text.lines.fixed_texts import find_positions
from stabdiag.readers.text.lines.prefix import CLOCK

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

# Other columns of a record are looked for among this many.
_MAX_COMPARED: Final = 16


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
        joined = None if later is None else with_remainder(columns, roles, later, unread)
        if joined is None and later is not None and _has_records(later, columns, roles, last):
            unread = replace(unread, rows=last + 1)
            joined = with_remainder(columns, roles, later, unread)
        if joined is None and (later := _read_rows(columns, roles, remainder)) is not None:
            joined = with_remainder(columns, roles, later, unread)
        if later is None or joined is None or _loses_reports(columns, joined, roles["loss"], last):
            break
        columns, form = joined, later.format
    return columns


def _last_loss(columns: Columns, loss: str) -> int | None:
    """Return the last record with a finite loss, or None if the log has hardly any."""
    rows = np.flatnonzero(np.isfinite(columns.load(loss).values) & columns.load(loss).present)
    return int(rows[-1]) if len(rows) >= COMPARED_LOSSES else None


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
) -> Remainder | None:
    """Return the remainder of the log from the first line after the last loss that was not read.

    ``form`` is the format of the lines above it.
    """
    entries = _unread_lines(columns, last)
    if not entries:
        start = _after_object(data, last + 1)
        return Remainder(start=start, line=data.count(b"\n", 0, start) + 1, rows=last + 1)
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
    return Remainder(start=start, line=line, rows=rows, count=entry.count)


def _rows_above(columns: Columns, roles: Mapping[str, str], last: int) -> int:
    """Return the number of records up to the last loss and below it, without reported failures.

    A later line such as "loss: nan" was a report for the reader: a record of only a loss.
    """
    loss = columns.load(roles["loss"])
    # A line with a report may have a time as well.
    clocks = {roles[role] for role in (*CLOCK_ROLES, "clock") if role in roles} | {CLOCK}
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
    starts = (data.rfind(b"\n", 0, place) + 1 for place in find_positions(data, text))
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
    loss = assign(columns.names).columns.get("loss")
    # A loss in words only is the series above it, with a value that its reader cannot read.
    if columns.is_unknown or loss is None or columns.load(loss).is_text:
        return None
    if any(names_results(name) or names_split(name) for name in columns.names):
        return None if not any(map(names_measurements, columns.names)) else columns
    return columns


def _loses_reports(columns: Columns, joined: Columns, loss: str, last: int) -> bool:
    """Return True if a report of a lost loss below the last one is not in the joined columns.

    Rows without names leave it out.
    """
    before, after = columns.load(loss), joined.load(loss)
    reported = (before.present & ~np.isfinite(before.values))[last + 1 :]
    return bool(reported.any() and np.isfinite(after.values[after.present]).all())


def _has_records(later: Columns, columns: Columns, roles: Mapping[str, str], last: int) -> bool:
    """Return True if the remainder begins with the first record below the last loss.

    Its first line has the counter of a record, and an unread line below it has the loss.
    """
    clock = next((role for role in CLOCK_ROLES if role in roles), "")
    own = assign(later.names).columns.get(clock)
    if own is None or last + 1 == columns.rows:
        return False
    counts = columns.load(roles[clock])
    below = counts.values[last + 1 :][counts.present[last + 1 :]]
    return bool(len(below) and below[0] in later.load(own).logged[:1])


def _read_rows(columns: Columns, roles: Mapping[str, str], data: bytes) -> Columns | None:
    """Read the remainder of a log as rows without names, which continue its values."""
    from stabdiag.readers.later_forms.unnamed_rows import read_continuing_rows

    clock = next((roles[role] for role in CLOCK_ROLES if role in roles), None)
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
