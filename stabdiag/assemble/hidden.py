"""Losses that went NaN and were not written as NaN.

Missing is not NaN, yet NaN hides: pandas writes a blank cell, JavaScript writes ``null``, Megatron
drops the field, the HF Trainer writes 0.0. What gives it away is the company: the series that are
logged together with the loss go on without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.company import (
    STRETCHES,
    any_of,
    has_a_rhythm,
    is_filled,
    keeps_company,
    stretches,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column

# A loss that was never a number is told of from so many training records on.
_NEVER = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Hidden:
    """Records (a mask of shape (rows,)) whose loss counts as NaN, and the grounds for it."""

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
    """Find the records whose loss is missing because it was NaN; on some grounds there are none.

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


def _zero_beside_nan(loss: Column, company: Mapping[str, Column]) -> Hidden | None:
    norm = company.get("grad_norm")
    if norm is None:
        return None
    zero = loss.present & (loss.values == 0.0)
    records = zero & norm.present & ~np.isfinite(norm.values)
    # A loss that is zero all along is no placeholder for NaN.
    if zero.sum() > max(2 * records.sum(), 0.9 * loss.present.sum()):
        return None
    return Hidden(
        records=records,
        grounds="the loss is exactly 0.0 beside a gradient norm that is not finite",
    )


def _never_a_number(loss: Column, company: Mapping[str, Column], evaluation: Mask) -> Hidden | None:
    """A null in each training record, from the first on: the run never had a finite loss."""
    training = any_of(company.values(), like=evaluation) & ~evaluation
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
    if is_filled(company):
        # A table written as records has nulls in all of its gaps; there only company counts.
        kept = (column for column in company.values() if keeps_company(loss, column, absent))
        records &= any_of(kept, like=absent)
    else:
        alone = records & ~any_of(company.values(), like=absent)
        if alone.sum() > 0.5 * loss.present.sum():
            return None
        if alone.any():
            records &= ~(alone & of_another_kind())
    return Hidden(records=records, grounds="the loss was written as null")


def _left_alone(
    loss: Column,
    role: str,
    column: Column,
    absent: Mask,
    absent_records: int,
    company: Mapping[str, Column],
) -> Hidden | None:
    if not keeps_company(loss, column, absent):
        return None
    logged = np.flatnonzero(column.present)
    records = np.zeros_like(absent)
    norm = company.get("grad_norm")
    for begin, end in stretches(absent[logged]):
        rows = logged[begin:end]
        suspicious = norm is not None and bool(
            (norm.present[rows] & ~np.isfinite(norm.values[rows])).all()
        )
        # A step whose gradient was measured had a loss: a blank cell is enough there, if it is not
        # the last one, which a writer that was killed may have left.
        blank = role == "grad_norm" and bool(loss.null[rows].all()) and rows[0] < len(absent) - 1
        if len(rows) >= absent_records or suspicious or blank:
            records[rows] = True
    return Hidden(records=records, grounds=f"the loss is absent while {role} was logged on")


def _empty_records(
    loss: Column,
    company: Mapping[str, Column],
    absent: Mask,
    absent_records: int,
    of_another_kind: Callable[[], Mask],
) -> Hidden:
    """Blank records that hold nothing of another kind were written for something: for the loss."""
    empty = absent & loss.null & ~any_of(company.values(), like=absent)
    records = _for_long(loss, empty, absent_records)
    if records.any():
        # Most logs are spared a look at all of their columns.
        records = _for_long(loss, empty & ~of_another_kind(), absent_records)
    return Hidden(
        records=records,
        grounds="the loss is absent from records that hold nothing else of training",
    )


def _for_long(loss: Column, empty: Mask, absent_records: int) -> Mask:
    """Return the empty records of long stretches, unless the loss is left out here and there."""
    records = np.zeros_like(empty)
    rows = np.flatnonzero(loss.present | empty)
    found = stretches(empty[rows])
    if len(found) <= max(STRETCHES * len(rows), 1):
        for begin, end in found:
            if end - begin >= absent_records:
                records[rows[begin:end]] = True
    return records
