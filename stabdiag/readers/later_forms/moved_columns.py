"""Tables whose columns change places in mid-run, without a new header.

Rows ``201,0.0003,2.31`` below ``200,2.33,0.0003`` of ``step,loss,lr``: another program appends to
the file. The values show it, since the counter, the rate or the loss continues in another column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.events import Event, EventCode, EventKind, LeftOut
from stabdiag.model.roles.choice import assign
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.later_forms.continuation import CLOCK_ROLES, first_records
from stabdiag.readers.later_forms.stacked import stacked
from stabdiag.readers.later_forms.unnamed_rows import continues_counter, is_at_level

# Fewer rows, above or below, may be anything.
_MIN_MOVED_ROWS: Final = 10
# In a wider table, rows of other columns would have other numbers of cells.
_MOST_MOVED: Final = 16
# A loss that falls to this fraction in a single row, and never comes back, is another value.
_OTHER_LEVEL: Final = 0.1


def with_moved_columns(columns: Columns) -> Columns:
    """Return the columns of a table with the values of each in one place.

    Rows whose places remain unknown are left out.
    """
    roles = assign(columns.names).columns
    clock = next((roles[role] for role in CLOCK_ROLES if role in roles), None)
    if clock is None or "loss" not in roles or len(columns.names) > _MOST_MOVED:
        return columns
    counter, loss = columns.load(clock), columns.load(roles["loss"])
    if counter.is_text or loss.is_text or counter.is_time:
        return columns
    row = _first_other_row(counter, loss)
    if row is None or not _MIN_MOVED_ROWS <= row <= columns.rows - _MIN_MOVED_ROWS:
        return columns
    above, below = first_records(columns, row), _last_records(columns, row)
    names = [name for name in columns.names if not columns.load(name).is_text]
    steps = above.load(clock).logged
    counters = [name for name in names if continues_counter(below.load(name), steps)]
    if len(counters) != 1:
        return columns
    others = [name for name in names if name != clock]
    places = {clock: counters[0]} | _places(above, below, others, counters[0])
    if all(name == place for name, place in places.items()):
        return columns
    # The column of the counter has to leave its own values, unlike the total of several epochs.
    is_total = counters[0] != clock and continues_counter(
        below.load(counters[0]), above.load(counters[0]).logged
    )
    return columns if is_total else _joined(columns, above, below, places, roles["loss"])


def _first_other_row(counter: Column, loss: Column) -> int | None:
    """Return the first row where the counter is not one, or the loss stays far below all above."""
    counts = counter.values
    is_count = counter.present & (counts == np.floor(counts))
    is_count[1:] &= counts[1:] >= counts[:-1]
    if not is_count.all():
        return int(np.argmin(is_count))
    if not loss.present.all() or not len(loss.values) or loss.values[0] <= 0:
        return None
    lowest = np.fmin.accumulate(loss.values)[:-1]
    highest = np.maximum.accumulate(loss.values[::-1])[::-1][1:]
    falls = np.flatnonzero(highest < _OTHER_LEVEL * lowest)
    return int(falls[0]) + 1 if len(falls) else None


def _places(above: Columns, below: Columns, names: list[str], counter: str) -> dict[str, str]:
    """Return the column below that continues each column above, if it is certain.

    The last column of the table continues the last one that is left, regardless of its values.
    """
    free = [name for name in below.names if name != counter and not below.load(name).is_text]
    places: dict[str, str] = {}
    for name in names:
        last = above.load(name).logged
        matches = [place for place in free if is_at_level(below.load(place), last)]
        if len(matches) == 1 and matches[0] not in places.values():
            places[name] = matches[0]
    missing = [name for name in names if name not in places]
    left = [place for place in free if place not in places.values()]
    return (
        places | dict(zip(missing, left, strict=True)) if len(missing) == len(left) == 1 else places
    )


def _joined(
    columns: Columns, above: Columns, below: Columns, places: Mapping[str, str], loss: str
) -> Columns:
    row, count = above.rows, below.rows
    joined = replace(columns, load=stacked(above, below, places))
    if loss not in places:
        entry = LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(count, 'record has', 'records have')} values in other columns",
            count=count,
            above=row,
        )
        return replace(joined, left_out=(*columns.left_out, entry))
    event = Event(
        kind=EventKind.COLUMN,
        code=EventCode.FORM_CHANGED,
        message=f"from record {row + 1} on, {loss!r} is in the column {places[loss]!r}, as the "
        "values of the columns show",
        above=row,
    )
    return replace(joined, events=(*columns.events, event))


def _last_records(columns: Columns, row: int) -> Columns:
    """Return the columns without the records above a row."""

    def cut(name: str) -> Column:
        column = columns.load(name)
        strays = column.stray_rows
        return replace(
            column,
            values=column.values[row:],
            present=column.present[row:],
            null=column.null[row:],
            stray_rows=strays[strays >= row] - row,
        )

    return replace(columns, rows=columns.rows - row, load=cut)
