"""Losses and gradient norms that went NaN and were not written as NaN.

Missing is not NaN, yet NaN hides: pandas writes a blank cell, JavaScript writes ``null``, Megatron
drops the field, the HF Trainer writes 0.0. What gives it away is that the other training series,
which are logged together with the loss, go on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.assemble.records import (
    ENOUGH,
    MANY,
    MOST,
    all_of,
    any_of,
    are_few,
    goes_with,
    has_a_rhythm,
    is_filled,
    often_with,
    stretches,
    up_to_last,
)
from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.columns import Column, Columns

_COUNTERS: Final = ("step", "epoch")


@frozen
class Hidden:
    """Records (a mask of shape (rows,)) whose loss counts as NaN, and the grounds for it."""

    records: Mask
    grounds: str


def find_hidden(
    loss: Column,
    others: Mapping[str, Column],
    evaluation: Mask,
    *,
    held: Column | None,
    of_another_kind: Callable[[], Mask],
    with_values: Callable[[], Mask],
    absent_records: int,
    null_is_nan: bool,
) -> list[Hidden]:
    """Find the records whose loss is missing because it was NaN; on some grounds there are none.

    Args:
        loss: the loss as it was written.
        others: the other training columns, by role.
        evaluation: records that carry evaluation values: a loss missing there proves nothing.
        held: the evaluation loss, where one was logged.
        of_another_kind: returns the records that hold what is left blank beside the losses.
        with_values: returns the records that hold a value of any column except counters.
        absent_records: a loss missing from so many records in a row counts.
        null_is_nan: whether the format tells a null that was written from a missing key.
    """
    found = [_zero_for_nan(loss, others.get("grad_norm"), held)]
    if null_is_nan and not loss.present.any():
        found.append(_never_a_number(loss, others, evaluation, absent_records))
    if not loss.present.all() and loss.present.any():
        first = int(np.argmax(loss.present))
        absent = ~loss.present & ~evaluation
        absent[:first] = False
        if null_is_nan:
            found.append(_written_null(loss, others, absent, of_another_kind))
        for role, column in others.items():
            if goes_with(loss, column, absent):
                found.append(_gone_beside(loss, role, column, absent, absent_records, others))
        found.append(
            _empty_records(loss, others, absent, absent_records, of_another_kind, with_values)
        )
    return [hidden for hidden in found if hidden is not None]


def _zero_for_nan(loss: Column, norm: Column | None, held: Column | None) -> Hidden | None:
    """A loss of exactly 0.0 that no finite gradient norm, but one that is not, stands beside.

    Where no norm says what it is, the zeros that a log ends on count if no evaluation since was
    finite either.
    """
    zero = loss.present & (loss.values == 0.0)
    measured = np.zeros_like(zero) if norm is None else norm.present
    finite = measured if norm is None else measured & np.isfinite(norm.values)
    beside = int((zero & measured & ~finite).sum())
    # Where most zeros stand beside a finite norm, a loss of zero is no placeholder for NaN.
    if beside and beside >= (zero & finite).sum():
        grounds = "the loss is exactly 0.0 beside a gradient norm that is not finite"
        return Hidden(records=zero & ~finite, grounds=grounds)
    last = zero & ~np.logical_or.accumulate((loss.present & ~zero)[::-1])[::-1]
    if held is None or last.sum() < 2 or (last & finite).any():
        return None
    evaluated = np.flatnonzero(held.present)
    since = np.append(evaluated[-1:], evaluated[evaluated > np.argmax(last)])
    if not len(since) or np.isfinite(held.values[since]).any():
        return None
    grounds = "the loss is exactly 0.0 to the end, and the evaluation loss is not finite"
    return Hidden(records=last, grounds=grounds)


def _never_a_number(
    loss: Column, others: Mapping[str, Column], evaluation: Mask, absent_records: int
) -> Hidden | None:
    """A null in each training record, from the first on: the run never had a finite loss."""
    training = any_of(others.values(), like=evaluation) & ~evaluation
    if training.sum() < absent_records or not loss.null[training].all():
        return None
    return Hidden(records=training, grounds="the loss was written as null in every training record")


def _written_null(
    loss: Column,
    others: Mapping[str, Column],
    absent: Mask,
    of_another_kind: Callable[[], Mask],
) -> Hidden | None:
    """A null that was written where the loss belongs, unless nulls fill every gap of the log."""
    records = absent & loss.null
    if has_a_rhythm(loss.present[loss.present | records]):
        return None
    if is_filled(others):
        # A table written as records has nulls in all of its gaps.
        together = (column for column in others.values() if goes_with(loss, column, absent))
        records &= any_of(together, like=absent)
    else:
        alone = records & ~any_of(others.values(), like=absent)
        if 2 * alone.sum() > loss.present.sum():
            return None
        if alone.any():
            records &= ~(alone & of_another_kind())
    return Hidden(records=records, grounds="the loss was written as null")


def _gone_beside(
    loss: Column,
    role: str,
    column: Column,
    absent: Mask,
    absent_records: int,
    others: Mapping[str, Column],
) -> Hidden:
    """A loss that is missing beside a series that is otherwise logged with it."""
    logged = np.flatnonzero(column.present)
    records = np.zeros_like(absent)
    norm = others.get("grad_norm")
    for begin, end in stretches(absent[logged]):
        rows = logged[begin:end]
        beside_nan = norm is not None and bool(
            (norm.present[rows] & ~np.isfinite(norm.values[rows])).all()
        )
        # A step with a gradient norm had a loss. One blank cell or missing key is enough there,
        # except in the last record, which a killed writer may have left incomplete.
        had_loss = role == "grad_norm" and rows[0] < len(absent) - 1
        if len(rows) >= absent_records or beside_nan or had_loss:
            records[rows] = True
    return Hidden(records=records, grounds=f"the loss is absent while {role} was logged on")


def _empty_records(
    loss: Column,
    others: Mapping[str, Column],
    absent: Mask,
    absent_records: int,
    of_another_kind: Callable[[], Mask],
    with_values: Callable[[], Mask],
) -> Hidden:
    """Records without training values and without values of another kind had a loss.

    A blank cell and a missing key mean the same. In a table with one metric per record, a record
    with a missing key holds another metric.
    """
    empty = absent & ~any_of(others.values(), like=absent)
    # Only logs with enough such records pay for a look at all of their columns.
    if np.count_nonzero(empty & loss.null) >= absent_records:
        empty &= ~(loss.null & of_another_kind())
    if np.count_nonzero(empty & ~loss.null) >= absent_records:
        empty &= loss.null | ~with_values()
    records = _for_long(loss, empty, absent_records)
    return Hidden(
        records=records,
        grounds="the loss is absent from records that hold nothing else of training",
    )


def _for_long(loss: Column, empty: Mask, absent_records: int) -> Mask:
    """Return the empty records of long stretches, unless the loss is left out here and there."""
    records = np.zeros_like(empty)
    rows = np.flatnonzero(loss.present | empty)
    found = stretches(empty[rows])
    if are_few(found, len(rows)):
        for begin, end in found:
            if end - begin >= absent_records:
                records[rows[begin:end]] = True
    return records


def find_stopped(
    loss: Column,
    others: Mapping[str, Column],
    steps: Ints,
    usable: Mask,
    elsewhere: Mask,
    *,
    absent_records: int,
) -> Hidden | None:
    """Find a loss that ends before the run does, where each metric has records of its own.

    There no record lacks the loss. The steps at which another training series is logged are those
    of the loss, up to where there is a loss no more.

    Args:
        loss: the loss as it was written.
        others: the other training columns, by role.
        steps: shape (rows,), the step of each record that is ``usable``.
        usable: the records that have a step.
        elsewhere: records at whose steps no loss is expected.
        absent_records: a loss missing from so many steps counts.
    """
    for role, column in others.items():
        if column.present.any() and not (column.present & loss.present).any():
            logged = np.flatnonzero(column.present & usable)
            after = _after(loss.present & usable, logged, steps, absent_records)
            after = after[~np.isin(steps[after], steps[elsewhere])]
            if len(np.unique(steps[after])) >= absent_records:
                records = np.zeros_like(usable)
                records[after] = True
                return Hidden(records=records, grounds=f"{role} was logged on without it")
    return None


def _after(losses: Mask, logged: Ints, steps: Ints, absent_records: int) -> Ints:
    """Return the records of a series after the last step that it shares with the losses.

    There are none if it has a rhythm of its own, or if more of it has stood ahead of the losses
    before: those may be written in bursts, the last of which is lost when a run is killed.
    """
    rows = np.flatnonzero(losses)
    of_losses = np.unique(steps[rows])
    shared = np.flatnonzero(np.isin(steps[logged], of_losses))
    none = logged[:0]
    if len(shared) < max(absent_records, MOST * len(of_losses)):
        return none
    if len(shared) < MOST * (shared[-1] + 1 - shared[0]):
        return none
    after = logged[shared[-1] + 1 :]
    after = after[steps[after] > of_losses[-1]]
    ahead = np.searchsorted(logged, rows) - np.arange(len(rows))
    return after if len(after) >= absent_records + np.ptp(ahead) else none


def hidden_norms(
    loss: Column, norm: Column, others: Mapping[str, Column], *, null_is_nan: bool
) -> Mask:
    """Find the records whose gradient norm is missing because it was not finite.

    A null that was written counts once there was a norm, unless nulls fill every gap of the log; so
    does a gap of a few records in a norm that is otherwise logged with every loss. A key that is
    not there counts only where the record is complete but for it: fairseq drops a norm that is not
    finite.

    A table does not tell a null from a missing key. There a longer gap counts as well beside a loss
    scale, if the norm comes and goes without a rhythm, and where the norm goes as the loss becomes
    exactly 0.0, and only there: that is the filter of the HF Trainer.
    """
    missing = loss.present & ~norm.present
    records = np.zeros_like(missing)
    if not norm.present.any():
        return records
    logged = np.flatnonzero(loss.present)
    in_turn = has_a_rhythm(norm.present[logged])
    if null_is_nan and not is_filled(others) and not in_turn:
        records |= missing & norm.null
        records[: int(np.argmax(norm.present))] = False
    begun = int(np.argmax(norm.present[logged]))
    gaps = [logged[begin:end] for begin, end in stretches(missing[logged]) if begin > begun]
    zero = loss.present & (loss.values == 0.0)
    filtered = zero.sum() > ENOUGH and not (zero & norm.present).any()
    expected = loss.present & ~zero if filtered else loss.present
    scaled = "loss_scale" in others and often_with(loss, others["loss_scale"])
    if scaled and not in_turn and len(gaps) > ENOUGH:
        longest = len(logged)
    elif (norm.present & expected).sum() >= MOST * expected.sum():
        longest = MANY
    else:
        return records
    for rows in gaps:
        if len(rows) <= longest or (filtered and zero[rows].any()):
            records[rows] = True
    usual = [c for c in others.values() if often_with(loss, c)]
    complete = all_of(usual, like=missing) if usual or not null_is_nan else np.zeros_like(missing)
    return records & (complete | norm.null)


def evaluation_records(
    columns: Columns,
    names: Mapping[str, str],
    loss: Column,
    others: Mapping[str, Column],
    absent_records: int,
) -> Mask:
    """Return the records of evaluations, in which no training loss is expected.

    A log of epochs has evaluation and loss in the same record: there the one does not excuse that
    the other is missing, but in a record or two of their own, such as one at the end.
    """
    if loss.present.all():
        return np.zeros(columns.rows, bool)
    known = names.get("eval_loss")
    apart, beside = np.zeros(columns.rows, bool), np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    for name in (n for n in columns.names if n == known or is_evaluation(n)):
        present = columns.load(name).present
        if _is_apart(present, loss, so_far):
            apart |= present
        else:
            beside |= present
    alone = beside & ~any_of([loss, *others.values()], like=beside)
    for begin, end in stretches(alone):
        if end - begin < absent_records:
            apart[begin:end] = True
    return apart


def records_of_another_kind(columns: Columns, names: Mapping[str, str], loss: Column) -> Mask:
    """Return the records of columns that are blank next to the losses, such as a final score.

    Columns that count records of all kinds are ignored.
    """
    found = np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    counters = {names.get(role) for role in _COUNTERS}
    for name in columns.names:
        if name not in counters:
            column = columns.load(name)
            blank = bool((column.null & loss.present).any())
            if blank and _is_apart(column.present, loss, so_far):
                found |= column.present
    return found


def records_with_values(columns: Columns, names: Mapping[str, str]) -> Mask:
    """Return the records that hold a value of any column except the counters."""
    records = np.zeros(columns.rows, bool)
    counters = {names.get(role) for role in _COUNTERS}
    for name in columns.names:
        if name not in counters:
            records |= columns.load(name).present
    return records


def _is_apart(present: Mask, loss: Column, so_far: Mask) -> bool:
    """Tell whether most of what was logged of a column so far was logged without the loss."""
    return 2 * int((present & loss.present).sum()) <= int((present & so_far).sum())


def since_the_first(loss: Column, norm: Column | None, steps: Ints) -> tuple[Column, list[Event]]:
    """Return a loss without a first that alone is NaN, if no gradient norm stands beside it.

    It is a mean of nothing, before the first update: weights that are NaN stay so. Where no loss
    was finite yet, nobody can tell.
    """
    rows = np.flatnonzero(loss.present)[:2]
    if len(rows) < 2 or np.diff(steps[rows]) <= 0 or (norm is not None and norm.present[rows[0]]):
        return loss, []
    if not np.isnan(loss.values[rows[0]]) or not np.isfinite(loss.values[rows[1]]):
        return loss, []
    present = loss.present.copy()
    present[rows[0]] = False
    message = "the first loss is NaN, the next is not: nothing was measured yet, it is left out"
    return replace(loss, present=present), [Event(kind=EventKind.PLACEHOLDER, message=message)]
