"""The events of one run: its messages with their steps, and notes on how the log was read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.records import MAX_SHOWN_COLUMNS
from stabdiag.model.events import LAST_LINES, Event, EventCode, EventKind
from stabdiag.model.roles.names import is_setting, name_words, names_split
from stabdiag.model.roles.settings import column_setting
from stabdiag.model.text import SHOWN_NAMES, and_more, plural, word_list
from stabdiag.model.unique import unique_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from stabdiag.assemble.order import Order
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Columns

# Columns without a role are listed first if their names contain these words.
_LISTED_FIRST = frozenset(
    word_list("loss grad norm lr scale reward acc accuracy entropy kl ppl weight")
)


def place_messages(
    events: Iterable[Event], clock: Steps, order: Order, run: Mask
) -> Iterator[Event]:
    """Yield the events of a log with the steps that they have in one run.

    If the counter of a log restarts, its steps are continued. A message among the records of
    another run has no step in this one. A last line above other records is none.
    """
    counted = np.flatnonzero(clock.usable & (order.number >= 0))
    for event in events:
        if event.above is None:
            yield event
            continue
        if event.code in LAST_LINES and event.above < len(clock.usable):
            continue
        step = event.step
        above = int(np.searchsorted(counted, event.above))
        if above and step is not None:
            row = int(counted[above - 1])
            is_in_run = run[row] or order.number[row] == 0
            step = step + int(order.steps[row] - clock.steps[row]) if is_in_run else None
        yield replace(event, step=step, above=None)


def describe_runs(
    runs: int, number: int, lost: NDArray[np.signedinteger], *, is_parallel: bool
) -> Event:
    """Report that a log contains several runs; ``lost`` are the runs with non-finite losses."""
    order = "written at the same time" if is_parallel else "one after the other"
    message = (
        f"the log contains {runs} runs, {order}; this is number {number} "
        "(--attempt N selects another)"
    )
    others = [n for n in unique_values(lost).tolist() if n > 0 and n != number]
    if others:
        message += f"; not all losses of number {and_more(others, SHOWN_NAMES)} are finite"
    code = EventCode.SEVERAL_WRITERS if is_parallel else None
    return Event(kind=EventKind.ATTEMPT, code=code, message=message)


def unreadable_lines(columns: Columns) -> list[Event]:
    """Report the notes of the reader, the lines that it could not read first."""
    events = [Event(kind=EventKind.UNREADABLE, message=note) for note in columns.notes]
    if columns.bad_count:
        first = columns.bad_lines[0]
        lines = plural(columns.bad_count, "line was", "lines were")
        message = f"{lines} not readable (line {first.line}: {first.reason})"
        events.insert(0, Event(kind=EventKind.UNREADABLE, message=message))
    return events


def columns_without_role(names: Collection[str], used: Collection[str | None]) -> list[Event]:
    """Report the columns without a role that are not settings or split markers."""
    unused = [
        name
        for name in names
        if name not in used and not (is_setting(name) or column_setting(name) or names_split(name))
    ]
    if not unused:
        return []
    unused.sort(key=lambda name: _LISTED_FIRST.isdisjoint(name_words(name)))
    listed = and_more(unused, MAX_SHOWN_COLUMNS // 2)
    message = f"ignored columns: {listed} (--column ROLE=NAME assigns a role)"
    return [Event(kind=EventKind.COLUMN, message=message)]
