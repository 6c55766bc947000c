"""Which records of a log hold a series, with which others, and in what rhythm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.readers.columns import Column

# How much is needed to tell a habit of the logger from an accident. These judge the form of a log,
# not the run: logs either keep a habit nearly always or have none, so that the exact values, set by
# hand, decide little. So many records may repeat by accident no more …
ENOUGH = 3
# … so many are a series of their own, and not a gap or a few restarts …
MANY = 20
# … this share makes a rule, and this one an exception.
MOST = 0.8
SELDOM = 0.05

# So many columns are named, and the others counted.
SHOWN = 8


def is_filled(others: Mapping[str, Column]) -> bool:
    """Tell whether nulls fill the gaps of the log, where one more says nothing."""
    return 2 * sum(bool(column.null.any()) for column in others.values()) > len(others)


def has_a_rhythm(present: Mask) -> bool:
    """Tell whether a series skips records as a rule: every tenth is logged, say."""
    gaps = np.diff(np.flatnonzero(present))
    if not len(gaps):
        return False
    usual = np.median(gaps)
    return bool(usual > 1 and np.mean(gaps == usual) > MOST)


def often_with(loss: Column, column: Column) -> bool:
    """Tell whether a series is logged with most of the losses."""
    both = int((column.present & loss.present).sum())
    return both >= max(MOST * int(loss.present.sum()), 1)


def goes_with(loss: Column, column: Column, absent: Mask) -> bool:
    """Tell whether a series is logged with the loss, and seldom where the loss is ``absent``.

    A loss that is logged every so many times the other is has a rhythm of its own.
    """
    logged = np.flatnonzero(column.present)
    gaps = np.diff(np.flatnonzero(loss.present[logged]))
    if not often_with(loss, column) or (len(gaps) and np.median(gaps) > 1):
        return False
    return are_few(stretches(absent[logged]), len(logged))


def are_few(gaps: list[tuple[int, int]], records: int) -> bool:
    """Tell whether a series of so many records has few gaps, of any length."""
    return len(gaps) <= max(SELDOM * records, 1)


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
