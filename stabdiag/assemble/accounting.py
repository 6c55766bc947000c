"""What a log holds after its last judged loss that may be a loss too.

A diagnosis covers the log up to its last loss. Whatever follows it and has a place for a loss, but
could not be used, may hold the failure: the history says so by events of the kind ``left-out``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from stabdiag.assemble.records import shown_name
from stabdiag.model.arrays import Mask
from stabdiag.model.history import Event, EventCode, LeftOut
from stabdiag.model.roles.names import is_a_loss, is_a_reward, is_evaluation, names_split
from stabdiag.model.roles.scores import direction_of
from stabdiag.model.text import plural
from stabdiag.readers.columns import Columns

# A summary after a training is a record or two; more are records of the training.
_MIN_RECORDS = 3

# A log goes on without a loss if so many records follow, and this fraction of those with one: a few
# of other kinds end most logs.
_MIN_TAIL = 20
_TAIL_FRACTION = 0.2

# So many columns that may be a loss are looked into: each costs time in a log of thousands.
_MAX_COLUMNS = 8


def unused_after_loss(
    columns: Columns, names: Mapping[str, str], judged: Mask, usable: Mask
) -> list[Event]:
    """Return an event for each kind of content after the last judged loss that was not used.

    Args:
        columns: the raw columns of the log.
        names: the columns' names by role.
        judged: the records, of shape (rows,), whose loss is judged or known to be missing.
        usable: the records, of shape (rows,), that have a step.
    """
    rows = np.flatnonzero(judged)
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (-1, -1)
    entries = [*_cells(columns, names, first, last, usable)]
    if not entries and len(rows):
        entries += _records(columns, names, last, usable, losses=len(rows))
    entries += _lines(columns.left_out, last)
    return [entry.as_event() for entry in entries]


def _cells(
    columns: Columns, names: Mapping[str, str], first: int, last: int, usable: Mask
) -> Iterator[LeftOut]:
    """Yield the losses after the last one that are not numbers, have no step or another name."""
    name = names.get("loss")
    if name is None:
        return
    loss = columns.load(name)
    strays = loss.stray_rows[loss.stray_rows > last]
    if len(strays):
        values = plural(len(strays), "value", "values")
        yield LeftOut(
            code=EventCode.CELLS_LEFT_OUT,
            message=f"{values} of {shown_name(name)!r} after it cannot be read as a number",
            count=len(strays),
        )
    without_step = int((loss.present & ~usable)[last + 1 :].sum())
    if without_step:
        records = plural(without_step, "record")
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{records} with a loss after it {_has(without_step)} no step",
            count=without_step,
        )
    for other, count, place in _other_losses(columns, {*names.values()}, first, last):
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(count, 'record')} {place} it {_has(count)} {shown_name(other)!r} in "
            "place of the loss",
            count=count,
        )


def _records(
    columns: Columns, names: Mapping[str, str], last: int, usable: Mask, *, losses: int
) -> Iterator[LeftOut]:
    """Yield the records of later steps without a loss, if there are so many that it ended early.

    Those of an evaluation or a score have none, and neither has a log that only counts its records.
    """
    after = np.flatnonzero(usable[last + 1 :]) + last + 1
    if len(after) < max(_MIN_TAIL, _TAIL_FRACTION * losses) or "step" not in names:
        return
    steps = columns.load(names["step"])
    after = after[steps.present[after]]
    after = after[steps.values[after] > np.nanmax(steps.values[: last + 1], initial=-np.inf)]
    measured = np.zeros(columns.rows, dtype=bool)
    for name in columns.names:
        if is_evaluation(name) or direction_of(name) is not None or is_a_reward(name):
            measured |= columns.load(name).present
        if names_split(name):
            return
    count = int((~measured[after]).sum())
    if count >= max(_MIN_TAIL, _TAIL_FRACTION * losses):
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(count, 'record')} of later steps {_has(count)} no loss",
            count=count,
        )


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _other_losses(
    columns: Columns, taken: set[str], first: int, last: int
) -> Iterator[tuple[str, int, str]]:
    """Yield the columns that look like a training loss and end where the judged one begins.

    Or begin where that one ends. Each comes with its number of records, and with their place.
    """
    looked = 0
    for name in columns.names:
        if looked == _MAX_COLUMNS:
            return
        if name in taken or not is_a_loss(name):
            continue
        looked += 1
        column = columns.load(name)
        logged = np.union1d(np.flatnonzero(column.present | column.null), column.stray_rows)
        if len(logged) >= _MIN_RECORDS and int(logged[0]) > last:
            yield name, len(logged), "after"
        elif len(logged) >= _MIN_RECORDS and int(logged[-1]) < first:
            yield name, len(logged), "before"


def _lines(left_out: Sequence[LeftOut], last: int) -> Iterator[LeftOut]:
    """Yield what the reader left out after the last judged loss, one entry for each kind."""
    after = [one for one in left_out if one.above is None or one.above > last]
    for code, group in groupby(sorted(after, key=_by_kind), key=_by_kind):
        entries = [*group]
        if code == EventCode.LINES_LEFT_OUT and len(entries) > 1:
            from stabdiag.readers.left_out import merged

            entries = [merged(entries)]
        yield from entries


def _by_kind(entry: LeftOut) -> str:
    return entry.code.value
