"""Which series are logged together with the loss, and in what rhythm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column

# A series keeps the loss company if it is logged with at least this share of the losses …
WITH_LOSS = 0.8
# … and if it is not logged without it here and there, as a monitor with a rhythm of its own is.
STRETCHES = 0.05

# A series has a rhythm if so many of the gaps between its records are equal.
_REGULAR = 0.8


def is_filled(company: Mapping[str, Column]) -> bool:
    """Tell whether nulls fill the gaps of the log, so that one more says nothing."""
    return sum(bool(column.null.any()) for column in company.values()) > len(company) / 2


def has_a_rhythm(present: Mask) -> bool:
    """Tell whether a series skips records as a rule: every tenth is logged, say."""
    gaps = np.diff(np.flatnonzero(present))
    if not len(gaps):
        return False
    usual = np.median(gaps)
    return bool(usual > 1 and np.mean(gaps == usual) > _REGULAR)


def often_with(loss: Column, column: Column) -> bool:
    """Tell whether a series is logged with most of the losses."""
    both = int((column.present & loss.present).sum())
    return both >= max(WITH_LOSS * int(loss.present.sum()), 1)


def keeps_company(loss: Column, column: Column, absent: Mask) -> bool:
    """Tell whether a series is logged with the loss, and not without it here and there.

    A loss that is logged every so many times the other is has a rhythm of its own.
    """
    logged = np.flatnonzero(column.present)
    gaps = np.diff(np.flatnonzero(loss.present[logged]))
    if not often_with(loss, column) or (len(gaps) and np.median(gaps) > 1):
        return False
    return len(stretches(absent[logged])) <= max(STRETCHES * len(logged), 1)


def any_of(columns: Iterable[Column], *, like: Mask) -> Mask:
    """Return the records that any of the columns has."""
    found = np.zeros_like(like)
    for column in columns:
        found |= column.present
    return found


def all_of(columns: Iterable[Column], *, like: Mask) -> Mask:
    """Return the records that all of the columns have."""
    found = np.ones_like(like)
    for column in columns:
        found &= column.present
    return found


def stretches(mask: Mask) -> list[tuple[int, int]]:
    """Return begin and end (exclusive) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def up_to_last(column: Column) -> Mask:
    """Return the records up to the last one that has a value."""
    behind: Mask = np.logical_or.accumulate(column.present[::-1])
    return behind[::-1]
