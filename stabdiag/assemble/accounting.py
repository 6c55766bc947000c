"""Content after the last usable loss that may contain further losses.

A diagnosis covers the log up to its last usable loss. Later content that should contain a loss but
could not be used may hide the failure, so the history reports it as ``left-out`` events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from stabdiag.assemble.initial_nan import are_at_starts
from stabdiag.assemble.records import MIN_RECORDS, MIN_SERIES_LENGTH, shown_name
from stabdiag.model.arrays import Mask
from stabdiag.model.events import MAX_SUMMARY, Event, EventCode, LeftOut
from stabdiag.model.roles.names import (
    is_a_loss,
    is_a_reward,
    is_evaluation,
    name_words,
    names_measurements,
    names_split,
)
from stabdiag.model.roles.other_losses import is_other_loss
from stabdiag.model.roles.scores import is_short_score, score_direction
from stabdiag.model.text import SHOWN_NAMES, and_more, num, plural
from stabdiag.readers.columns import Column, Columns

# A log continues without a loss if MIN_SERIES_LENGTH records follow, and this fraction of the
# records with a loss. Most logs end with a few records of other kinds.
_TAIL_FRACTION = 0.2

# A name with this word names no loss, though its direction is unknown.
_SCORE_WORD = "score"

# The number of possible loss columns that are checked: each costs time in logs with thousands.
_MAX_LOSS_COLUMNS = 8


def unused_after_loss(
    columns: Columns, names: Mapping[str, str], judged: Mask, usable: Mask
) -> list[Event]:
    """Return an event for each kind of unused content after the last usable loss.

    Args:
        columns: the raw columns of the log.
        names: the columns' names by role.
        judged: the records, of shape (rows,), whose loss is used or known to be missing.
        usable: the records, of shape (rows,), that have a step.
    """
    rows = np.flatnonzero(judged)
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (-1, -1)
    entries = [*_cells(columns, names, first, last, usable), *_gaps(columns, names, judged, usable)]
    if not entries and len(rows):
        entries += _texts(columns, {*names.values()}, last)
    if not entries and len(rows):
        entries += _records(columns, names, last, usable, losses=len(rows))
    entries += _lines(columns.left_out, last)
    if columns.is_unknown and "loss" not in names:
        entries += _unknown_values(columns, names)
    return [entry.as_event() for entry in entries]


def _unknown_values(columns: Columns, names: Mapping[str, str]) -> Iterator[LeftOut]:
    """Yield the values of a log without a loss whose meaning is unknown: one may be the loss."""
    free = [name for name in columns.names if name not in names.values()]
    scores = {
        name
        for name in columns.names
        if score_direction(name) is not None
        or _SCORE_WORD in name_words(name)
        or is_short_score(name, columns.names)
    }
    if scores and scores.issuperset(free):
        return
    # A few rewards are read like many, and their run needs no loss.
    finite = (np.isfinite(columns.load(name).logged).all() for name in free)
    if "reward" in names and all(finite):
        return
    courses = [_describe_course(columns, name) for name in free[:SHOWN_NAMES]]
    courses += [repr(shown_name(name)) for name in free[SHOWN_NAMES:]]
    only = f", only {and_more(courses, SHOWN_NAMES)}" if free else ""
    yield LeftOut(
        code=EventCode.LOSS_UNKNOWN,
        message=f"{plural(columns.rows, 'record')} without a known loss{only}",
        count=columns.rows,
    )


def _describe_course(columns: Columns, name: str) -> str:
    """Return a column's name with its first and last value: 'length' (from 23 to 144)."""
    values = columns.load(name).logged
    if not len(values):
        return repr(shown_name(name))
    return f"{shown_name(name)!r} (from {num(values[0])} to {num(values[-1])})"


def _cells(
    columns: Columns, names: Mapping[str, str], first: int, last: int, usable: Mask
) -> Iterator[LeftOut]:
    """Yield later losses that are not numbers, have no step, or are in another column."""
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
    missing = 0 if len(strays) else _missing_at_end(columns, names, loss, last, usable)
    if missing:
        values = plural(missing, "value", "values")
        yield LeftOut(
            code=EventCode.CELLS_LEFT_OUT,
            message=f"the last {values} of {shown_name(name)!r} {_is(missing)} not a number",
            count=missing,
        )
    not_finite = _not_finite_without_step(columns, names, loss, last)
    if not_finite:
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(not_finite, 'record')} with a loss that is not finite "
            f"{_has(not_finite)} no step",
            count=not_finite,
        )
    without_step = np.flatnonzero((loss.present & ~usable)[last + 1 :]) + last + 1
    # The last record may break off before its step.
    is_cut = without_step.tolist() == [columns.rows - 1] and np.isfinite(loss.values[-1])
    if len(without_step) and not is_cut:
        records = plural(len(without_step), "record")
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{records} with a loss after it {_has(len(without_step))} no step",
            count=len(without_step),
        )
    for other, count, position in _other_losses(columns, {*names.values()}, first, last):
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(count, 'record')} {position} it {_has(count)} "
            f"{shown_name(other)!r} in "
            "place of the loss",
            count=count,
        )


def _gaps(
    columns: Columns, names: Mapping[str, str], judged: Mask, usable: Mask
) -> Iterator[LeftOut]:
    """Yield the losses among others that are not numbers, or are missing from a few records."""
    name, rows = names.get("loss"), np.flatnonzero(judged)
    if name is None or len(rows) < MIN_RECORDS:
        return
    loss = columns.load(name)
    within = np.zeros(columns.rows, dtype=bool)
    within[rows[0] : rows[-1]] = True
    unknown = np.zeros(columns.rows, dtype=bool)
    unknown[loss.stray_rows] = True
    missing = _missing_among(columns, name, within & ~judged & usable)
    # A bar has no loss before its first batch.
    are_starts = "step" in names and are_at_starts(columns.load(names["step"]), missing)
    unknown |= missing & (not are_starts)
    count = int(np.count_nonzero(unknown & within & ~judged))
    if count:
        values = f"{plural(count, 'value', 'values')} of {shown_name(name)!r}"
        yield LeftOut(
            code=EventCode.CELLS_LEFT_OUT,
            message=f"{values} among others {_is(count)} missing or not a number",
            count=count,
        )


def _missing_among(columns: Columns, name: str, rows: Mask) -> Mask:
    """Return the rows that lack only the loss, unlike those next to them, if they are few.

    A logger may have dropped a NaN there: as a blank cell, as a null, or with its key. Records of
    other measurements may be between the losses of a long table.
    """
    loss, none = columns.load(name), np.zeros(columns.rows, dtype=bool)
    missing = (loss.null if is_long(columns) else ~loss.present) & rows
    # Another column may hold the losses after the last one of this column.
    missing[np.flatnonzero(loss.present).max(initial=0) :] = False
    at = np.flatnonzero(missing)
    # Or each loss was logged for long, and none of two in a row is missing.
    before = np.count_nonzero(loss.present[: at[0]]) if len(at) else 0
    if not len(at) or (len(at) > MAX_SUMMARY and before < max(len(at), MIN_RECORDS)):
        return none
    written = np.flatnonzero(loss.present | missing)
    place = np.searchsorted(written, at)
    sides = written[place - 1], written[place + 1]
    if not all(loss.present[side].all() for side in sides):
        return none
    names = () if is_long(columns) else (other for other in columns.names if other != name)
    others = map(columns.load, names)
    is_alike = all(
        np.array_equal(other.present[at], other.present[side]) for other in others for side in sides
    )
    return missing if is_alike else none


def is_long(columns: Columns) -> bool:
    """Return True if each record has one measurement, whose name is in a column."""
    return any(map(names_measurements, columns.names))


def _missing_at_end(
    columns: Columns, names: Mapping[str, str], loss: Column, last: int, usable: Mask
) -> int:
    """Return the number of last records whose loss is written as missing, for the first time.

    A record of another kind, such as a final evaluation, has other values than the records above
    it, or belongs to the last step. A killed writer may leave a step without other values.
    """
    count = columns.rows - 1 - last
    if is_long(columns):
        count = int(np.count_nonzero(loss.null[last + 1 :]))
        return count if count <= MAX_SUMMARY and np.count_nonzero(loss.null) == count else 0
    step = names.get("step") or names.get("epoch")
    if last < MIN_RECORDS or not 0 < count <= MAX_SUMMARY:
        return 0
    if not loss.null[last + 1 :].all() or np.count_nonzero(loss.null) > count:
        return 0
    clock = None if step is None else columns.load(step)
    if clock is not None:
        after = clock.values[last + 1 :]
        if not (usable & clock.present)[last + 1 :].all() or clock.is_text:
            return 0
        if not (after > np.nanmax(clock.values[: last + 1], initial=-np.inf)).all():
            return 0
    used = {names.get("step"), names.get("epoch"), names["loss"]}
    free = (name for name in columns.names if name not in used)
    others = [name for name in free if columns.load(name).present.any()]
    logged = [name for name in others if columns.load(name).present[-1]]
    if not all(columns.load(name).present[last] for name in logged):
        return 0
    # An evaluation that each record has does not make another kind of record.
    has_values = any(
        not is_evaluation(name) or columns.load(name).present[: last + 1].all() for name in logged
    )
    return count if has_values or columns.distinguishes_null or not others else 0


def _texts(columns: Columns, taken: set[str], last: int) -> Iterator[LeftOut]:
    """Yield the records after the last loss that have a text with a loss, or the name of one.

    A logger may write its lines as texts, or each measurement as a record with its name.
    """
    from stabdiag.readers.later_forms.left_out import may_hold_loss

    free = [
        name
        for name in columns.names
        if name not in taken
        and columns.is_parsed(name)
        and (names_measurements(name) or not names_split(name))
    ]
    for name in free[: 2 * _MAX_LOSS_COLUMNS]:
        column = columns.load(name)
        if not column.is_text:
            continue
        after = column.values[last + 1 :][column.present[last + 1 :]]
        codes, counts = np.unique(after, return_counts=True)
        words = {code: column.words[int(code)] for code in codes if code < len(column.words)}
        count = sum(
            int(number)
            for code, number in zip(codes, counts, strict=True)
            if code in words and (is_a_loss(words[code]) or may_hold_loss(words[code]))
        )
        if count > MAX_SUMMARY:
            yield LeftOut(
                code=EventCode.RECORDS_LEFT_OUT,
                message=f"{plural(count, 'record')} after it {_has(count)} a text about a loss in "
                f"{shown_name(name)!r}",
                count=count,
            )


def _not_finite_without_step(
    columns: Columns, names: Mapping[str, str], loss: Column, last: int
) -> int:
    """Return the number of records above the last loss with a non-finite loss but no step.

    A table with several kinds of records fills both cells with NaN.
    """
    if "step" not in names:
        return 0
    step = columns.load(names["step"])
    bad = loss.present & ~np.isfinite(loss.values) & ~step.present & ~step.null
    return int(np.count_nonzero(bad[: max(last, 0)]))


def _records(
    columns: Columns, names: Mapping[str, str], last: int, usable: Mask, *, losses: int
) -> Iterator[LeftOut]:
    """Yield the records of later steps without a loss, if there are too many for a normal end.

    Evaluation records and scores are left out, as are logs that only count their records. An error
    such as mse is a score next to a loss, and a loss without it.
    """
    after = np.flatnonzero(usable[last + 1 :]) + last + 1
    if len(after) < max(MIN_SERIES_LENGTH, _TAIL_FRACTION * losses) or "step" not in names:
        return
    steps = columns.load(names["step"])
    after = after[steps.present[after]]
    after = after[steps.values[after] > np.nanmax(steps.values[: last + 1], initial=-np.inf)]
    measured = np.zeros(columns.rows, dtype=bool)
    for name in columns.names:
        is_score = score_direction(name) is not None and not is_other_loss(name)
        if is_evaluation(name) or is_score or is_a_reward(name):
            measured |= columns.load(name).present
        if names_split(name):
            return
    count = int((~measured[after]).sum())
    if count >= max(MIN_SERIES_LENGTH, _TAIL_FRACTION * losses):
        yield LeftOut(
            code=EventCode.RECORDS_LEFT_OUT,
            message=f"{plural(count, 'record')} of later steps {_has(count)} no loss",
            count=count,
        )


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _other_losses(
    columns: Columns, taken: set[str], first: int, last: int
) -> Iterator[tuple[str, int, str]]:
    """Yield the columns that look like a training loss and are wholly before or after the loss.

    Each comes with its number of records, and with "before" or "after".
    """
    checked = 0
    for name in columns.names:
        if checked == _MAX_LOSS_COLUMNS:
            return
        if name in taken or not is_a_loss(name):
            continue
        checked += 1
        column = columns.load(name)
        logged = np.union1d(np.flatnonzero(column.present | column.null), column.stray_rows)
        if len(logged) >= MIN_RECORDS and int(logged[0]) > last:
            yield name, len(logged), "after"
        elif len(logged) >= MIN_RECORDS and int(logged[-1]) < first and not _fell(column):
            yield name, len(logged), "before"


def _fell(loss: Column) -> bool:
    """Return True if all values of a loss are finite and it ended below its start.

    It may be the loss of a pretraining that did not fail.
    """
    values = loss.logged
    if loss.is_text or loss.null.any() or len(loss.stray_rows) or not np.isfinite(values).all():
        return False
    start, *_, end = np.array_split(values, MIN_RECORDS)
    return float(np.median(end)) < float(np.median(start))


def _lines(left_out: Sequence[LeftOut], last: int) -> Iterator[LeftOut]:
    """Yield the content that the reader left out after the last usable loss, one entry per kind."""
    after = [entry for entry in left_out if entry.above is None or entry.above > last]
    for code, group in groupby(sorted(after, key=_by_kind), key=_by_kind):
        entries = [*group]
        if code == EventCode.LINES_LEFT_OUT and len(entries) > 1:
            from stabdiag.readers.later_forms.left_out import merged

            entries = [merged(entries)]
        yield from entries


def _by_kind(entry: LeftOut) -> str:
    return entry.code.value
