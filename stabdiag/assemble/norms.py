"""Gradient norms that were not finite but not written so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.company import (
    WITH_LOSS,
    all_of,
    has_a_rhythm,
    is_filled,
    often_with,
    stretches,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.arrays import Mask
    from stabdiag.readers.columns import Column

# A gap in the gradient norm of up to so many records is an overflow, a longer one a new logger.
_FEW = 20


def hidden_norms(
    loss: Column, norm: Column, others: Mapping[str, Column], *, null_is_nan: bool
) -> Mask:
    """Find the records whose gradient norm is missing because it was not finite.

    A null that was written counts once there was a norm, unless nulls fill every gap of the log; so
    does a gap of a few records in a norm that is otherwise logged with every loss. A key that is
    not there counts only where the record is complete but for it: fairseq drops a norm that is not
    finite.
    """
    missing = loss.present & ~norm.present
    records = np.zeros_like(missing)
    if not norm.present.any():
        return records
    logged = np.flatnonzero(loss.present)
    if null_is_nan and not is_filled(others) and not has_a_rhythm(norm.present[logged]):
        records |= missing & norm.null
        records[: int(np.argmax(norm.present))] = False
    if (norm.present & loss.present).sum() < WITH_LOSS * len(logged):
        return records
    usual = [c for c in others.values() if often_with(loss, c)]
    complete = all_of(usual, like=missing) if usual or not null_is_nan else np.zeros_like(missing)
    begun = int(np.argmax(norm.present[logged]))
    for begin, end in stretches(missing[logged]):
        if begin > begun and end - begin <= _FEW:
            records[logged[begin:end]] = True
    return records & (complete | norm.null)
