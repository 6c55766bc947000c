"""Intervals in which the loss scaler skipped every step: they have no loss, which is no NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import counts_since_the_last

if TYPE_CHECKING:
    from stabdiag.model.arrays import Ints, Mask
    from stabdiag.readers.columns import Column


def wholly_skipped(skipped: Column | None, name: str, steps: Ints) -> Mask:
    """Return the records, of shape (rows,), whose steps since the record before were all skipped.

    Megatron then prints no loss, or 0.0. It prints none either where the loss is NaN: what tells
    the two apart is the number of skipped steps.
    """
    records = np.zeros(len(steps), dtype=bool)
    if skipped is None or not counts_since_the_last(name):
        return records
    rows = np.flatnonzero(skipped.present)
    gaps = np.diff(steps[rows])
    usual = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1
    # The record before the first, and that before a resume, are not known.
    intervals = np.concatenate([[usual], np.where(gaps > 0, gaps, usual)])
    records[rows] = skipped.values[rows] >= intervals
    return records
