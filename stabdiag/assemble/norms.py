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

    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column

# A gap in the gradient norm of up to so many records is an overflow, a longer one a new logger.
_FEW = 20

# A norm that comes back more often than this did not fall to a change of the logger.
_OFTEN = 3


def hidden_norms(
    loss: Column, norm: Column, others: Mapping[str, Column], *, null_is_nan: bool
) -> Mask:
    """Find the records whose gradient norm is missing because it was not finite.

    A null that was written counts once there was a norm, unless nulls fill every gap of the log; so
    does a gap of a few records in a norm that is otherwise logged with every loss. A key that is
    not there counts only where the record is complete but for it: fairseq drops a norm that is not
    finite.

    A table does not tell a null from a missing key, so that a longer gap has to be known by what is
    logged on: beside a loss scale a norm that comes and goes without a rhythm overflowed, and one
    that goes where the loss becomes exactly 0.0, and only there, fell to the filter of the HF
    Trainer.
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
    usual = [c for c in others.values() if often_with(loss, c)]
    complete = all_of(usual, like=missing) if usual or not null_is_nan else np.zeros_like(missing)
    begun = int(np.argmax(norm.present[logged]))
    gaps = [logged[begin:end] for begin, end in stretches(missing[logged]) if begin > begun]
    zero = loss.present & (loss.values == 0.0)
    filtered = zero.sum() > _OFTEN and not (zero & norm.present).any()
    owed = loss.present & ~zero if filtered else loss.present
    scaled = "loss_scale" in others and often_with(loss, others["loss_scale"])
    if scaled and not in_turn and len(gaps) > _OFTEN:
        longest = len(logged)
    elif (norm.present & owed).sum() >= WITH_LOSS * owed.sum():
        longest = _FEW
    else:
        return records
    for rows in gaps:
        if len(rows) <= longest or (filtered and zero[rows].any()):
            records[rows] = True
    return records & (complete | norm.null)
