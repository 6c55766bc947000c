"""Logs of two alternating forms: lines between the records whose steps continue the steps above.

The lines of the second form are read like a log of their own, and put between the records by their
steps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.errors import LogError
from stabdiag.model.arrays import Floats, Positions
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import plural, word_list
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.later_forms.continuation import CLOCK_ROLES, COMPARED_LOSSES, is_near
from stabdiag.readers.later_forms.left_out import MIN_ALTERNATING
from stabdiag.readers.later_forms.stacked import source_names, stacked
from stabdiag.readers.source import Pieces, Stream
from stabdiag.readers.text.unread_forms import record_form

# Words that any loss may have.
_GENERAL_WORDS: Final = frozenset(
    word_list(
        "loss losses cost objective train training total avg average mean batch current running"
    )
)

# A log rarely has more forms, and larger logs are not read again.
_MAX_INTERLEAVED: Final = 3
_LARGEST_LOG: Final = 1 << 24


def with_interleaved_forms(columns: Columns, reopened: Callable[[], bytes]) -> Columns:
    """Return the columns of a log, with the lines of another form between its records.

    Args:
        columns: the columns of the log.
        reopened: returns the bytes of the log, without packing; none if there are too many.
    """
    forms = _forms(columns)
    if not forms or columns.converted or columns.stored or columns.is_unknown:
        return columns
    data = reopened()
    if len(data) > _LARGEST_LOG:
        return columns
    for form in forms[:_MAX_INTERLEAVED]:
        # Most other lines lack the longest word of the form, which is found far faster.
        word = max(re.findall(rb"[A-Za-z]*", form), key=len).lower()
        lines = [
            line for line in data.split(b"\n") if word in line.lower() and record_form(line) == form
        ]
        later = _read_lines(lines)
        merged = None if later is None else _interleaved(columns, later, form)
        columns = columns if merged is None else merged
    return columns


def _forms(columns: Columns) -> list[bytes]:
    """Return the forms of lines between the records, the most frequent first."""
    counts: Counter[bytes] = Counter()
    for entry in columns.left_out:
        is_between = entry.above is not None and 0 < entry.above < columns.rows
        if entry.text and (is_between or entry.code is EventCode.RECORDS_LEFT_OUT):
            counts[record_form(entry.text.encode())] += entry.count
    return [form for form, count in counts.most_common() if count >= MIN_ALTERNATING]


def _read_lines(lines: Sequence[bytes]) -> Columns | None:
    """Read lines like a log of their own, or return None if they have no loss of the training."""
    from stabdiag.readers import read_plain

    try:
        columns = read_plain(Stream("log", Pieces(iter([b"\n".join([*lines, b""])]))))
    except LogError:
        return None
    return columns if assign(columns.names).has("loss") and not columns.is_unknown else None


def _interleaved(columns: Columns, later: Columns, form: bytes) -> Columns | None:
    """Return the columns with rows between theirs, or None if these have no other steps.

    The losses have the same name or general names, and about the same values.
    """
    roles, later_roles = (assign(table.names).columns for table in (columns, later))
    clock = next((role for role in CLOCK_ROLES if role in roles), None)
    later_clock = next((role for role in CLOCK_ROLES if role in later_roles), None)
    if clock is None or later_clock is None or "loss" not in roles:
        return None
    steps = _steps(columns.load(roles[clock]))
    later_steps = _steps(later.load(later_roles[later_clock]))
    if steps is None or later_steps is None or len(later_steps) < MIN_ALTERNATING:
        return None
    between = (later_steps > steps[0]) & (later_steps < steps[-1])
    if between.sum() < MIN_ALTERNATING or np.isin(later_steps, steps).any():
        return None
    losses = [table.load(own["loss"]) for table, own in ((columns, roles), (later, later_roles))]
    if any(loss.is_text for loss in losses):
        return None
    names = roles["loss"], later_roles["loss"]
    is_one = _own_words(names[0]) == _own_words(names[1]) and _are_one_series(
        steps, losses[0], later_steps, losses[1]
    )
    if not is_one:
        return None
    own = {later_roles[later_clock]: roles[clock]}
    own |= {name: roles[role] for role, name in later_roles.items() if role in roles}
    order = np.argsort(np.concatenate([steps, later_steps]), kind="stable")
    reports = _reports(columns, roles, int((~np.isfinite(losses[1].logged)).sum()))
    return _merged(columns, later, own, order[~np.isin(order, reports)], form)


def _reports(columns: Columns, roles: Mapping[str, str], count: int) -> Positions:
    """Return the rows that are only a loss that is not finite, if the second form has as many.

    The reader took its lines for reports of a failure.
    """
    loss = columns.load(roles["loss"])
    only = loss.present & ~np.isfinite(loss.values)
    clocks = {roles[role] for role in CLOCK_ROLES if role in roles}
    for name in columns.names:
        if name not in clocks and name != roles["loss"]:
            only &= ~columns.load(name).present
    rows = np.flatnonzero(only)
    return rows if len(rows) == count else rows[:0]


def _own_words(name: str) -> set[str]:
    """Return the words of a loss that tell it from others: box, but not train and total."""
    return {*name_words(name)} - _GENERAL_WORDS


def _steps(counter: Column) -> Floats | None:
    """Return the step of each row, or None if steps fall; a row without one has the step above."""
    if counter.is_text or not len(counter.values) or not counter.present[0]:
        return None
    rows = np.maximum.accumulate(np.where(counter.present, np.arange(len(counter.values)), 0))
    steps = counter.values[rows]
    return steps if np.isfinite(steps).all() and (np.diff(steps) >= 0).all() else None


def _are_one_series(steps: Floats, loss: Column, later_steps: Floats, later: Column) -> bool:
    """Return True if the first losses of the second form are near those with the next steps."""
    rows = np.flatnonzero(loss.present)
    places = np.searchsorted(steps[rows], later_steps[:COMPARED_LOSSES])
    neighbors = loss.values[rows[np.minimum(places, len(rows) - 1)]] if len(rows) else np.empty(0)
    return is_near(neighbors, later.values[:COMPARED_LOSSES])


def _merged(
    columns: Columns, later: Columns, own: Mapping[str, str], order: Positions, form: bytes
) -> Columns:
    """Return the columns with the rows of other columns among theirs.

    Args:
        columns: the columns of the log.
        later: the columns of the second form.
        own: the name in the log of columns of the second form.
        order: the rows of both in the new order.
        form: the form of the lines of the second form.
    """
    sources = source_names(later, own)
    load_stacked = stacked(columns, later, sources)
    place = np.full(columns.rows + later.rows, -1)
    place[order] = np.arange(len(order))
    of_log = np.flatnonzero(order < columns.rows)

    def load(name: str) -> Column:
        column = load_stacked(name)
        strays = place[column.stray_rows.astype(np.intp)]
        return replace(
            column,
            values=column.values[order],
            present=column.present[order],
            null=column.null[order],
            stray_rows=np.sort(strays[strays >= 0]),
        )

    def moved(row: int) -> int:
        """Return the new number of the first row of the log that is not above a row."""
        at = int(np.searchsorted(order[of_log], row))
        return int(of_log[at]) if at < len(of_log) else len(order)

    message = (
        f"{plural(later.rows, 'record')} of another form ({later.format}) alternate with others"
    )
    event = Event(kind=EventKind.COLUMN, code=EventCode.FORM_CHANGED, message=message)
    kept = [entry for entry in columns.left_out if record_form(entry.text.encode()) != form]
    events = [
        event if event.above is None else replace(event, above=moved(event.above))
        for event in columns.events
    ]
    return replace(
        columns,
        names=tuple(dict.fromkeys((*columns.names, *sources))),
        rows=len(order),
        load=load,
        bad_count=max(columns.bad_count - later.rows, 0),
        events=(*events, event),
        ends=tuple(map(moved, columns.ends)),
        left_out=tuple(
            entry if entry.above is None else replace(entry, above=moved(entry.above))
            for entry in kept
        ),
    )
