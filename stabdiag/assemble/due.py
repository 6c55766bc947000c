"""Losses that were left blank in records which say themselves that they are about the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.company import stretches
from stabdiag.assemble.hidden import Hidden

if TYPE_CHECKING:
    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column


@dataclass(frozen=True, kw_only=True, eq=False)
class Due:
    """Records that should have a loss, shape (rows,): they name it, or say they are of training.

    ``named`` says that they name it: then they were written for nothing else.
    """

    records: Mask
    named: bool

    def both(self, other: Due | None) -> Due:
        """Return the records that are in both."""
        if other is None:
            return self
        return Due(records=self.records & other.records, named=self.named or other.named)


def find_blank(loss: Column, due: Due | None, *, absent_records: int) -> Hidden | None:
    """Find the records that should have a loss and left it blank, after there was one.

    There are none where a loss is left out as a rule, every second time, say.
    """
    if due is None:
        return None
    rows = np.flatnonzero(due.records)
    logged = np.flatnonzero(loss.present[rows])
    if not len(logged) or (len(logged) > 1 and np.median(np.diff(logged)) > 1):
        return None
    blank = loss.null[rows]
    blank[: logged[0]] = False
    records = np.zeros_like(due.records)
    for begin, end in stretches(blank):
        if due.named or end - begin >= absent_records:
            records[rows[begin:end]] = True
    what = "named for it" if due.named else "marked as those of training"
    return Hidden(records=records, grounds=f"it is left blank in records {what}")
