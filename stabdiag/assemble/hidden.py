"""Losses and gradient norms that went NaN and were not written as NaN.

Missing is not NaN, but many loggers hide NaN: pandas writes a blank cell, JavaScript writes
``null``, Megatron drops the field, the HF Trainer writes 0.0. Hidden NaN is recognized because
other training series, which are logged together with the loss, continue without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from stabdiag.assemble.records import (
    MIN_RECORDS,
    MIN_SERIES_LENGTH,
    USUAL_FRACTION,
    accompanies_loss,
    all_present,
    any_present,
    are_few,
    has_a_rhythm,
    is_filled,
    is_usually_logged,
    stretches,
    up_to_last,
)
from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Column, Columns

_COUNTER_COLUMNS: Final = ("step", "epoch")


@frozen
class HiddenRecords:
    """Records (a mask of shape (rows,)) whose loss counts as NaN, and the reason.

    The ``placeholder`` is the number that was written instead of NaN.
    """

    records: Mask
    reason: str
    placeholder: float | None = None


def find_hidden(
    loss: Column,
    others: Mapping[str, Column],
    evaluation: Mask,
    *,
    eval_loss: Column | None,
    of_another_kind: Callable[[], Mask],
    with_values: Callable[[], Mask],
    absent_records: int,
    null_is_nan: bool,
) -> list[HiddenRecords]:
    """Find the records whose loss is missing because it was NaN, one entry for each reason.

    Args:
        loss: the loss as it was written.
        others: the other training columns, by role.
        evaluation: records with evaluation values, where a missing loss proves nothing.
        eval_loss: the evaluation loss, if logged.
        of_another_kind: returns the records of columns that are blank next to the losses.
        with_values: returns the records with a value in any column except counters.
        absent_records: a loss missing from this many records in a row counts.
        null_is_nan: whether the format distinguishes a written null from a missing key.
    """
    results = [_zero_for_nan(loss, others.get("grad_norm"), eval_loss)]
    if null_is_nan and not loss.present.any():
        results.append(_never_a_number(loss, others, evaluation, absent_records))
    if not loss.present.all() and loss.present.any():
        first = int(np.argmax(loss.present))
        absent = ~loss.present & ~evaluation
        absent[:first] = False
        if null_is_nan:
            results.append(_written_null(loss, others, absent, of_another_kind))
        for role, column in others.items():
            if accompanies_loss(loss, column, absent):
                results.append(_absent_despite(role, column, absent, absent_records, others))
        results.append(
            _empty_records(loss, others, absent, absent_records, of_another_kind, with_values)
        )
    return [hidden for hidden in results if hidden is not None]


def _zero_for_nan(
    loss: Column, norm: Column | None, eval_loss: Column | None
) -> HiddenRecords | None:
    """Losses of exactly 0.0 that mean NaN.

    They have a non-finite gradient norm. Without a norm, zeros at the end of the log count if no
    evaluation since is finite.
    """
    zero = loss.present & (loss.values == 0.0)
    measured = np.zeros_like(zero) if norm is None else norm.present
    finite = measured if norm is None else measured & np.isfinite(norm.values)
    nonfinite = int((zero & measured & ~finite).sum())
    # If most zeros have a finite norm, a loss of zero is not a placeholder for NaN.
    if nonfinite and nonfinite >= (zero & finite).sum():
        reason = "the loss is exactly 0.0 and the gradient norm is not finite"
        return HiddenRecords(records=zero & ~finite, reason=reason, placeholder=0.0)
    last = zero & ~np.logical_or.accumulate((loss.present & ~zero)[::-1])[::-1]
    if eval_loss is None or last.sum() < 2 or (last & finite).any():
        return None
    evaluated = np.flatnonzero(eval_loss.present)
    since = np.append(evaluated[-1:], evaluated[evaluated > np.argmax(last)])
    if not len(since) or np.isfinite(eval_loss.values[since]).any():
        return None
    reason = "the loss is exactly 0.0 to the end, and the evaluation loss is not finite"
    return HiddenRecords(records=last, reason=reason, placeholder=0.0)


def _never_a_number(
    loss: Column, others: Mapping[str, Column], evaluation: Mask, absent_records: int
) -> HiddenRecords | None:
    """Nulls in every training record: the run never had a finite loss."""
    training = any_present(others.values(), template=evaluation) & ~evaluation
    if training.sum() < absent_records or not loss.null[training].all():
        return None
    return HiddenRecords(
        records=training, reason="the loss was written as null in every training record"
    )


def _written_null(
    loss: Column, others: Mapping[str, Column], absent: Mask, of_another_kind: Callable[[], Mask]
) -> HiddenRecords | None:
    """Nulls written in place of the loss, unless nulls fill every gap of the log."""
    records = absent & loss.null
    if has_a_rhythm(loss.present[loss.present | records]):
        return None
    if is_filled(others):
        # A table that was converted to records has nulls in all of its gaps.
        together = (column for column in others.values() if accompanies_loss(loss, column, absent))
        records &= any_present(together, template=absent)
    else:
        alone = records & ~any_present(others.values(), template=absent)
        if 2 * alone.sum() > loss.present.sum():
            return None
        if alone.any():
            records &= ~(alone & of_another_kind())
    return HiddenRecords(records=records, reason="the loss was written as null")


def _absent_despite(
    role: str, column: Column, absent: Mask, absent_records: int, others: Mapping[str, Column]
) -> HiddenRecords:
    """A loss that is missing next to a series that is usually logged with it."""
    logged = np.flatnonzero(column.present)
    records = np.zeros_like(absent)
    norm = others.get("grad_norm")
    for begin, end in stretches(absent[logged]):
        rows = logged[begin:end]
        has_nan_norm = norm is not None and bool(
            (norm.present[rows] & ~np.isfinite(norm.values[rows])).all()
        )
        # A step with a gradient norm had a loss. A single missing value is sufficient there, except
        # in the last record, which a killed writer may have left incomplete.
        had_loss = role == "grad_norm" and rows[0] < len(absent) - 1
        if len(rows) >= absent_records or has_nan_norm or had_loss:
            records[rows] = True
    return HiddenRecords(records=records, reason=f"the loss is absent while {role} is still logged")


def _empty_records(
    loss: Column,
    others: Mapping[str, Column],
    absent: Mask,
    absent_records: int,
    of_another_kind: Callable[[], Mask],
    with_values: Callable[[], Mask],
) -> HiddenRecords:
    """Records without any values, which must have had a loss.

    A blank cell and a missing key mean the same. In a table with one metric per record, a record
    with a missing key contains another metric.
    """
    empty = absent & ~any_present(others.values(), template=absent)
    # Checking all columns is expensive, so it is only done if there are enough of these records.
    if np.count_nonzero(empty & loss.null) >= absent_records:
        empty &= ~(loss.null & of_another_kind())
    if np.count_nonzero(empty & ~loss.null) >= absent_records:
        empty &= loss.null | ~with_values()
    records = _long_gaps(loss, empty, absent_records)
    return HiddenRecords(
        records=records, reason="the loss is absent from records without any training values"
    )


def _long_gaps(loss: Column, empty: Mask, absent_records: int) -> Mask:
    """Return the empty records in long gaps, unless the loss is missing here and there."""
    records = np.zeros_like(empty)
    rows = np.flatnonzero(loss.present | empty)
    gaps = stretches(empty[rows])
    if are_few(gaps, len(rows)):
        for begin, end in gaps:
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
) -> HiddenRecords | None:
    """Find a loss that ends before the run does, in a log with separate records for each metric.

    In these logs no record lacks the loss. Another training series is logged at the same steps as
    the loss, until the loss ends.

    Args:
        loss: the loss as it was written.
        others: the other training columns, by role.
        steps: shape (rows,), the step of each record that is ``usable``.
        usable: the records that have a step.
        elsewhere: records whose steps are not expected to have a loss.
        absent_records: a loss missing from this many steps counts.
    """
    for role, column in others.items():
        if column.present.any() and not (column.present & loss.present).any():
            logged = np.flatnonzero(column.present & usable)
            after = _later_records(loss.present & usable, logged, steps, absent_records)
            after = after[~np.isin(steps[after], steps[elsewhere])]
            if len(unique_values(steps[after])) >= absent_records:
                records = np.zeros_like(usable)
                records[after] = True
                return HiddenRecords(records=records, reason=f"{role} is still logged without it")
    return None


def _later_records(losses: Mask, logged: Ints, steps: Ints, absent_records: int) -> Ints:
    """Return the records of a series after the last step that it shares with the losses.

    There are none if the series has its own interval, or if it was as far ahead of the losses
    before: losses may be written in bursts, and the last burst is lost when a run is killed.
    """
    rows = np.flatnonzero(losses)
    of_losses = unique_values(steps[rows])
    shared = np.flatnonzero(np.isin(steps[logged], of_losses))
    none = logged[:0]
    if len(shared) < max(absent_records, USUAL_FRACTION * len(of_losses)):
        return none
    if len(shared) < USUAL_FRACTION * (shared[-1] + 1 - shared[0]):
        return none
    after = logged[shared[-1] + 1 :]
    after = after[steps[after] > of_losses[-1]]
    ahead = np.searchsorted(logged, rows) - np.arange(len(rows))
    return after if len(after) >= absent_records + np.ptp(ahead) else none


def hidden_norms(
    loss: Column, norm: Column, others: Mapping[str, Column], *, null_is_nan: bool
) -> Mask:
    """Find the records whose gradient norm is missing because it was not finite.

    A written null counts after the first norm, unless nulls fill every gap of the log. A short gap
    counts if the norm is otherwise logged with every loss. A missing key counts only if the record
    is otherwise complete: fairseq drops a norm that is not finite.

    A table does not distinguish a null from a missing key. If it has a loss scale and the norm is
    missing at irregular intervals, longer gaps count as well. They also count if the norm is
    missing exactly where the loss is 0.0, which is the filter of the HF Trainer.
    """
    missing = loss.present & ~norm.present
    records = np.zeros_like(missing)
    if not norm.present.any():
        return records
    logged = np.flatnonzero(loss.present)
    is_periodic = has_a_rhythm(norm.present[logged])
    if null_is_nan and not is_filled(others) and not is_periodic:
        records |= missing & norm.null
        records[: int(np.argmax(norm.present))] = False
    begun = int(np.argmax(norm.present[logged]))
    gaps = [logged[begin:end] for begin, end in stretches(missing[logged]) if begin > begun]
    zero = loss.present & (loss.values == 0.0)
    filtered = zero.sum() > MIN_RECORDS and not (zero & norm.present).any()
    expected = loss.present & ~zero if filtered else loss.present
    scaled = "loss_scale" in others and is_usually_logged(loss, others["loss_scale"])
    if scaled and not is_periodic and len(gaps) > MIN_RECORDS:
        longest = len(logged)
    elif (norm.present & expected).sum() >= USUAL_FRACTION * expected.sum():
        longest = MIN_SERIES_LENGTH
    else:
        return records
    for rows in gaps:
        if len(rows) <= longest or (filtered and zero[rows].any()):
            records[rows] = True
    usual = [column for column in others.values() if is_usually_logged(loss, column)]
    complete = (
        all_present(usual, template=missing) if usual or not null_is_nan else np.zeros_like(missing)
    )
    return records & (complete | norm.null)


def evaluation_records(
    columns: Columns,
    names: Mapping[str, str],
    loss: Column,
    others: Mapping[str, Column],
    absent_records: int,
) -> Mask:
    """Return the evaluation records, which are not expected to have a training loss.

    In a log of epochs, evaluation and loss are in the same record, so a missing loss is suspicious
    there, except in one or two separate evaluation records, such as a final one.
    """
    if loss.present.all():
        return np.zeros(columns.rows, bool)
    eval_loss = names.get("eval_loss")
    apart, mixed = np.zeros(columns.rows, bool), np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    for name in (n for n in columns.names if n == eval_loss or is_evaluation(n)):
        present = columns.load(name).present
        if _is_apart(present, loss, so_far):
            apart |= present
        else:
            mixed |= present
    alone = mixed & ~any_present([loss, *others.values()], template=mixed)
    for begin, end in stretches(alone):
        if end - begin < absent_records:
            apart[begin:end] = True
    return apart


def records_of_another_kind(columns: Columns, names: Mapping[str, str], loss: Column) -> Mask:
    """Return the records of columns that are blank next to the losses, such as a final score.

    Columns that count records of all kinds are ignored.
    """
    records = np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    counters = {names.get(role) for role in _COUNTER_COLUMNS}
    for name in columns.names:
        if name not in counters:
            column = columns.load(name)
            blank = bool((column.null & loss.present).any())
            if blank and _is_apart(column.present, loss, so_far):
                records |= column.present
    return records


def records_with_values(columns: Columns, names: Mapping[str, str]) -> Mask:
    """Return the records with a value in any column except the counters."""
    records = np.zeros(columns.rows, bool)
    counters = {names.get(role) for role in _COUNTER_COLUMNS}
    for name in columns.names:
        if name not in counters:
            records |= columns.load(name).present
    return records


def _is_apart(present: Mask, loss: Column, so_far: Mask) -> bool:
    """Return True if most values of a column, up to the last loss, are in records without it."""
    return 2 * int((present & loss.present).sum()) <= int((present & so_far).sum())
