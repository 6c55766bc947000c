"""Losses that went NaN and were not written as NaN.

Missing is not NaN, yet NaN hides: pandas writes a blank cell, JavaScript writes ``null``, Megatron
drops the field, the HF Trainer writes 0.0. What gives it away is the company: the series that are
logged together with the loss go on without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from stabdiag.readers.columns import Column

    Mask = NDArray[np.bool_]

# A series keeps the loss company if it is logged with at least this share of the losses …
WITH_LOSS = 0.8
# … and if it is not logged without it here and there, as a monitor with a rhythm of its own is.
_STRETCHES = 0.05

# A gap in the gradient norm of up to so many records is an overflow, a longer one a new logger.
_FEW = 20

# A series has a rhythm if so many of the gaps between its records are equal.
_REGULAR = 0.8

# A loss that was never a number is told of from so many training records on.
_NEVER = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Hidden:
    """Records (a mask of shape (rows,)) whose loss counts as NaN, and on what grounds."""

    records: Mask
    grounds: str


def find_hidden(
    loss: Column,
    company: Mapping[str, Column],
    evaluation: Mask,
    *,
    of_another_kind: Callable[[], Mask],
    absent_records: int,
    null_is_nan: bool,
) -> list[Hidden]:
    """Find the records whose loss is missing because it was NaN.

    Args:
        loss: the loss as it was written.
        company: the other training columns, by role.
        evaluation: records that carry evaluation values: a loss missing there proves nothing.
        of_another_kind: returns the records that hold what is left blank beside the losses.
        absent_records: a loss missing from so many records in a row counts.
        null_is_nan: whether the format tells a null that was written from a missing key.
    """
    found = [_zero_beside_nan(loss, company)]
    if null_is_nan and not loss.present.any():
        found.append(_never_a_number(loss, company, evaluation))
    if not loss.present.all() and loss.present.any():
        first = int(np.argmax(loss.present))
        absent = ~loss.present & ~evaluation
        absent[:first] = False
        if null_is_nan:
            found.append(_written_null(loss, company, absent, of_another_kind))
        for role, column in company.items():
            found.append(_left_alone(loss, role, column, absent, absent_records, company))
        found.append(_empty_records(loss, company, absent, absent_records, of_another_kind))
    return [hidden for hidden in found if hidden is not None]


def hidden_norms(
    loss: Column, norm: Column, others: Mapping[str, Column], *, null_is_nan: bool
) -> Mask:
    """Find the records whose gradient norm is missing because it was not finite.

    A null that was written counts, unless nulls fill every gap of the log; so does a gap of a few
    records in a norm that is otherwise logged with every loss. A key that is not there counts only
    where the record is complete but for it: fairseq drops a norm that is not finite.
    """
    missing = loss.present & ~norm.present
    records = np.zeros_like(missing)
    if not missing.any() or not norm.present.any():
        return records
    logged = np.flatnonzero(loss.present)
    if null_is_nan and not _filled(others) and not has_a_rhythm(norm.present[logged]):
        records |= missing & norm.null
    if (norm.present & loss.present).sum() < WITH_LOSS * len(logged):
        return records
    usual = [c for c in others.values() if _often_with(loss, c)]
    complete = _all(usual, like=missing) if usual or not null_is_nan else np.zeros_like(missing)
    begun = int(np.argmax(norm.present[logged]))
    for begin, end in stretches(missing[logged]):
        if begin > begun and end - begin <= _FEW:
            records[logged[begin:end]] = True
    return records & (complete | norm.null)


def _zero_beside_nan(loss: Column, company: Mapping[str, Column]) -> Hidden | None:
    norm = company.get("grad_norm")
    if norm is None:
        return None
    zero = loss.present & (loss.values == 0.0)
    records = zero & norm.present & ~np.isfinite(norm.values)
    # A loss that is zero all along is no placeholder for NaN.
    if not records.any() or zero.sum() > max(2 * records.sum(), 0.9 * loss.present.sum()):
        return None
    return Hidden(
        records=records,
        grounds="the loss is exactly 0.0 beside a gradient norm that is not finite",
    )


def _never_a_number(loss: Column, company: Mapping[str, Column], evaluation: Mask) -> Hidden | None:
    """A null in each training record, from the first on: the run never had a finite loss."""
    training = _any(list(company.values()), like=evaluation) & ~evaluation
    if training.sum() < _NEVER or not loss.null[training].all():
        return None
    return Hidden(records=training, grounds="the loss was written as null in every training record")


def _written_null(
    loss: Column,
    company: Mapping[str, Column],
    absent: Mask,
    of_another_kind: Callable[[], Mask],
) -> Hidden | None:
    """A null that was written where the loss belongs, unless nulls fill every gap of the log."""
    records = absent & loss.null
    if has_a_rhythm(loss.present[loss.present | records]):
        return None
    if _filled(company):
        # A table written as records has nulls in all of its gaps; there only company counts.
        records &= _any(
            [c for c in company.values() if _keeps_company(loss, c, absent)], like=absent
        )
    else:
        alone = records & ~_any(list(company.values()), like=absent)
        if alone.sum() > 0.5 * loss.present.sum():
            return None
        if alone.any():
            records &= ~(alone & of_another_kind())
    if not records.any():
        return None
    return Hidden(records=records, grounds="the loss was written as null")


def _filled(company: Mapping[str, Column]) -> bool:
    """Tell whether nulls fill the gaps of the log, so that one more says nothing."""
    return sum(bool(column.null.any()) for column in company.values()) > len(company) / 2


def has_a_rhythm(present: Mask) -> bool:
    """Tell whether a series skips records as a rule: every tenth is logged, say."""
    gaps = np.diff(np.flatnonzero(present))
    if not len(gaps):
        return False
    usual = np.median(gaps)
    return bool(usual > 1 and np.mean(gaps == usual) > _REGULAR)


def _left_alone(
    loss: Column,
    role: str,
    column: Column,
    absent: Mask,
    absent_records: int,
    company: Mapping[str, Column],
) -> Hidden | None:
    if not _keeps_company(loss, column, absent):
        return None
    logged = np.flatnonzero(column.present)
    records = np.zeros_like(absent)
    norm = company.get("grad_norm")
    for begin, end in stretches(absent[logged]):
        rows = logged[begin:end]
        suspicious = norm is not None and bool(
            (norm.present[rows] & ~np.isfinite(norm.values[rows])).all()
        )
        if len(rows) >= absent_records or suspicious:
            records[rows] = True
    if not records.any():
        return None
    return Hidden(records=records, grounds=f"the loss is absent while {role} was logged on")


def _often_with(loss: Column, column: Column) -> bool:
    """Tell whether a series is logged with most of the losses."""
    both = int((column.present & loss.present).sum())
    return both >= max(WITH_LOSS * int(loss.present.sum()), 1)


def _keeps_company(loss: Column, column: Column, absent: Mask) -> bool:
    """Tell whether a series is logged with the loss, and not without it here and there.

    A loss that is logged every so many times the other is has a rhythm of its own.
    """
    logged = np.flatnonzero(column.present)
    gaps = np.diff(np.flatnonzero(loss.present[logged]))
    if not _often_with(loss, column) or (len(gaps) and np.median(gaps) > 1):
        return False
    return len(stretches(absent[logged])) <= max(_STRETCHES * len(logged), 1)


def _any(columns: list[Column], *, like: Mask) -> Mask:
    """Return the records that any of the columns has."""
    found = np.zeros_like(like)
    for column in columns:
        found |= column.present
    return found


def _all(columns: list[Column], *, like: Mask) -> Mask:
    """Return the records that all of the columns have."""
    found = np.ones_like(like)
    for column in columns:
        found &= column.present
    return found


def _empty_records(
    loss: Column,
    company: Mapping[str, Column],
    absent: Mask,
    absent_records: int,
    of_another_kind: Callable[[], Mask],
) -> Hidden | None:
    """Blank records that hold nothing of another kind were written for something: for the loss."""
    empty = absent & loss.null
    for column in company.values():
        empty &= ~column.present
    records = _for_long(loss, empty, absent_records)
    if records.any():
        # Most logs are spared a look at all of their columns.
        records = _for_long(loss, empty & ~of_another_kind(), absent_records)
    if not records.any():
        return None
    return Hidden(
        records=records,
        grounds="the loss is absent from records that hold nothing else of training",
    )


def _for_long(loss: Column, empty: Mask, absent_records: int) -> Mask:
    """Return the empty records of long stretches, unless the loss is left out here and there."""
    records = np.zeros_like(empty)
    rows = np.flatnonzero(loss.present | empty)
    found = stretches(empty[rows])
    if len(found) <= max(_STRETCHES * len(rows), 1):
        for begin, end in found:
            if end - begin >= absent_records:
                records[rows[begin:end]] = True
    return records


def stretches(mask: Mask) -> list[tuple[int, int]]:
    """Return begin and end (exclusive) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def last_of(column: Column) -> int:
    """Return the last record that has a value, -1 if none has."""
    if not column.present.any():
        return -1
    return len(column.present) - 1 - int(np.argmax(column.present[::-1]))
