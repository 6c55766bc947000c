"""Which records of a log hold a series, with which others, and in what rhythm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.history import Event, EventKind
from stabdiag.model.text import clipped, plural
from stabdiag.readers.columns import Column
from stabdiag.readers.text.prefix import NO_RANK, of_one_rank

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


def shown_name(name: str) -> str:
    """Return the name of a column as messages show it: a damaged file has names of many lines."""
    return clipped(" ".join(name.split()), 60)


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


def without_gaps(data: Mapping[str, Column]) -> tuple[dict[str, Column], list[Event]]:
    """Return the columns by role without the NaN that only fill the gaps of a table.

    pandas writes them when it dumps records of several kinds as JSON. A column that is NaN beside
    each finite loss, and a number where the loss is NaN, has records of its own: an evaluation's, a
    monitor's. A loss that is NaN in a record of training stays.
    """
    loss = data.get("loss")
    if loss is None or np.isfinite(loss.logged).all():
        return dict(data), []
    lost = loss.present & np.isnan(loss.values)
    finite = loss.present & np.isfinite(loss.values)
    others = {role for role, column in data.items() if _is_nan_beside(column, finite)}
    apart = np.zeros_like(lost)
    for role in others:
        apart |= lost & data[role].present & np.isfinite(data[role].values)
    if not apart.any():
        return dict(data), []
    mended = {}
    for role, column in data.items():
        gaps = np.isnan(column.values) & (apart | (role in others))
        mended[role] = replace(column, present=column.present & ~gaps)
    losses = plural(int(apart.sum()), "NaN loss", "NaN losses")
    message = f"{losses} left out, in records of another kind: NaN fills the gaps of this table"
    return mended, [Event(kind=EventKind.PLACEHOLDER, message=message)]


def _is_nan_beside(column: Column, finite: Mask) -> bool:
    """Tell whether a column is NaN beside each loss that is finite."""
    beside = np.isnan(column.values) & column.present
    return int(finite.sum()) >= ENOUGH and bool(beside[finite].all())


def between_evaluations(held: Column) -> Column:
    """Return an evaluation loss without the NaN that fill the records between evaluations.

    Evaluations then come at a regular distance; a NaN after a longer one is that of an evaluation.
    """
    rows = np.flatnonzero(held.present)
    finite = np.isfinite(held.values[rows])
    places = np.flatnonzero(finite)
    if not has_a_rhythm(finite):
        return held
    distance = int(np.median(np.diff(places)))
    number = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(finite, number, places[0] - distance))
    waits = np.isnan(held.values[rows]) & (number - last < distance)
    present = held.present.copy()
    present[rows[waits]] = False
    return replace(held, present=present)


def by_writer(steps: Ints, rates: Floats, training: Mask) -> Ints | None:
    """Number the runs that write one log at the same time from 1, or return None if there are none.

    A record is of the writer whose rhythm it keeps, then of the one whose learning rate is nearest.
    Where the learning rates of a step do not differ, they may be ranks of one run.

    Args:
        steps: of each record, shape (records,).
        rates: the learning rates; NaN where not logged.
        training: the records of the training. Any other is of the writer that is nearest to it.
    """
    # Whether they can be told apart shows in the first records.
    head = slice(100 * MANY)
    if len(steps) > head.stop and by_writer(steps[head], rates[head], training[head]) is None:
        return None
    number = np.zeros(len(steps), dtype=np.int64)
    # Of each writer the last step, what lay between the last two, and the learning rate.
    last: list[tuple[int, int, float]] = []
    rates = np.nan_to_num(rates)
    for place, (step, rate) in enumerate(zip(steps.tolist(), rates.tolist(), strict=True)):
        if not training[place]:
            if last:
                number[place] = 1 + min(range(len(last)), key=lambda n: abs(step - last[n][0]))
            continue
        fits = [
            (abs(step - at - gap), abs(rate - old), n)
            for n, (at, gap, old) in enumerate(last)
            if at < step
        ]
        if not fits:
            last.append((step, 0, rate))
            number[place] = len(last)
            if len(last) > MANY:
                return None
            continue
        which = min(fits)[-1]
        last[which] = (step, step - last[which][0], rate)
        number[place] = which + 1
    writers = [np.flatnonzero(training & (number == 1 + n)) for n in range(len(last))]
    for one, other in combinations(writers, 2):
        _, here, there = np.intersect1d(steps[one], steps[other], return_indices=True)
        if len(here) < MANY or np.mean(rates[one[here]] != rates[other[there]]) < MOST:
            return None
    return number


def of_a_rank(steps: Ints, usable: Mask, is_loss: Mask, known: Mask, ranks: Column | None) -> Mask:
    """Return the records that count if several ranks wrote them: of each step those of one rank.

    It is the one with most losses that are ``known``. The ranks of a run are numbered from 0 or 1
    on; those of LoRA, or of a metric, are not.
    """
    found = np.unique(ranks.logged) if ranks is not None else np.empty(0)
    if ranks is None or found[:1] not in (0, 1) or len(found) < 2 or (np.diff(found) != 1).any():
        return usable
    told = np.where(ranks.present, ranks.values, NO_RANK).astype(np.int64)
    told_of = np.where(usable & (known | ~is_loss), steps, np.nan)
    return of_one_rank(is_loss.astype(np.int64), told_of, told)
