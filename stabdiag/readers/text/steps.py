"""The steps of lines that name none: from the lines around them, from bars, and from epochs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.unique import unique_values
from stabdiag.readers.text.lines.grammar import Step

# The column with the total of a bar. A bar whose total differs from the training's is another bar.
TOTAL: Final = "total"

# A run with a bar of another length has at least this many consecutive losses.
_MIN_CONSECUTIVE_LOSSES: Final = 3

# More runs than this, each with fewer records than this, are written at the same time.
_MAX_SHORT_RUNS: Final = 20

# The training bar advances from one loss to the next in at least this fraction of the cases.
_MIN_ADVANCES: Final = 0.75

# The digits of an epoch after the point; the error of rounding, with a little for floats.
_EPOCH_DIGITS: Final = 2
_EPOCH_ERROR: Final = 0.5 * 10**-_EPOCH_DIGITS + 1e-9


def fill_steps(steps: Floats, rules: Ints) -> Floats:
    """Fill in the steps of lines that do not name one; see ``Step``.

    Both arrays have the shape (lines,), in the order of the log. A step that is not named is NaN.
    ``rules`` has the value of ``Step`` for each line.
    """
    is_named = ~np.isnan(steps)
    if is_named.all():
        return steps
    last, coming = neighbors(is_named)
    before = np.where(last >= 0, steps[last], _start(steps[is_named]))
    after = np.append(steps, np.nan)[coming]
    counted = np.cumsum((rules == Step.NEXT.value) & ~is_named)
    since = counted - np.where(last >= 0, counted[last], 0)
    limit = np.where(after > before, after, np.inf)
    next_one = np.minimum(np.nan_to_num(before) + since, limit)
    ways = {
        Step.SAME: before,
        Step.NEXT: next_one,
        Step.LAST: next_one,
        Step.COMING: np.where(np.isnan(after), before, after),
    }
    chosen = np.choose(rules, [ways[step] for step in Step])
    return np.where(is_named, steps, chosen)


def neighbors(selected: Mask) -> tuple[Ints, Ints]:
    """Return the previous and the next selected line for each line, itself if it is selected.

    Without a previous line the index is -1. Without a next line it is the number of lines.
    """
    number = np.arange(len(selected))
    last = np.maximum.accumulate(np.where(selected, number, -1))
    return last, np.minimum.accumulate(np.where(selected, number, len(selected))[::-1])[::-1]


def _start(steps: Floats) -> float:
    """Return the step before the first named step: a log may begin with an evaluation."""
    if not len(steps):
        return np.nan
    later = steps[steps > steps[0]]
    stride = later[0] - steps[0] if len(later) else 1.0
    return max(float(steps[0] - stride), 0.0)


def extrapolate_rounded(steps: Floats, unit: Floats) -> Floats:
    """Replace rounded steps by extrapolated ones: 800, 1K, 1K, 1K, 1K, 2K.

    The previous stride is added to the last step as long as the sum rounds to the written step.
    Both arrays have the shape (lines,). The ``unit`` of a step that is written in full is 0.
    """
    exact = steps.copy()
    for row in np.flatnonzero(unit[2:]) + 2:
        following = 2 * exact[row - 1] - exact[row - 2]
        if following > exact[row - 1] and 2 * abs(following - steps[row]) <= unit[row]:
            exact[row] = following
    return exact


def announced_number(config: Mapping[str, object], name: str) -> float | None:
    """Return a number from the printed arguments of the log, which may be written as 7,012."""
    try:
        return float(str(config[name]).replace(",", ""))
    except (KeyError, ValueError):
        return None


def find_training_totals(
    places: Ints, counts: Floats, totals: Floats, losses: Ints, announced: float | None = None
) -> Floats:
    """Return the totals of the training bars, which may differ between the runs in a log.

    Each loss votes for the bar that is redrawn with it. Bars of data preparation and evaluation may
    be as long or longer, but have no losses.

    Args:
        places: the position of each bar in the log.
        counts: the progress of each bar.
        totals: the total of each bar.
        losses: the positions of the training losses.
        announced: the number of steps that the log announces for one of its runs.
    """
    order = np.argsort(places, kind="stable")
    places, counts, totals, losses = places[order], counts[order], totals[order], np.sort(losses)
    if not len(losses):
        candidates, count = np.unique(totals, return_counts=True)
        return np.array([candidates[np.argmax(count)]])
    votes = _votes(places, counts, totals, losses)
    matching = places[totals == announced] if announced is not None else places[:0]
    if len(matching):
        votes[(losses >= matching[0]) & (losses <= matching[-1])] = announced
    candidates, count = np.unique(votes, return_counts=True)
    first = np.array([np.argmax(votes == total) for total in candidates])
    last = len(votes) - 1 - np.array([np.argmax(votes[::-1] == total) for total in candidates])
    mostly = (count >= _MIN_CONSECUTIVE_LOSSES) & (2 * count > last - first + 1)
    mostly[np.argmax(count)] = True
    kept: Floats = candidates[mostly]
    return kept


def _votes(places: Ints, counts: Floats, totals: Floats, losses: Ints) -> Floats:
    """Return the total of the bar of each loss: the next bar, or else the bar before.

    The training bar advances from loss to loss. The bar of an evaluation after each loss does not.
    """
    after = np.minimum(np.searchsorted(places, losses), len(places) - 1)
    before = np.maximum(np.searchsorted(places, losses) - 1, 0)
    votes = totals[after]
    for total in unique_values(votes):
        bars = after[votes == total]
        if (
            len(bars) >= _MIN_CONSECUTIVE_LOSSES
            and np.mean(np.diff(counts[bars]) > 0) < _MIN_ADVANCES
        ):
            votes[totals[after] == total] = totals[before[totals[after] == total]]
    return votes


def find_restarts(data: bytes, word: bytes) -> tuple[int, list[int]]:
    """Return the number of counts with a total in a text, and those that begin another run.

    Step [50/1130], then Step [10/904]: the run was broken off, and the next one has another length,
    which never comes back. Several bars in an epoch are full, or take turns.
    """
    pattern = rb"(?i)(?<![a-z])%b[\s:=#\[(]{1,4}(\d{1,12}) ?/ ?(\d{1,12})(?![\d.])" % word
    positions = [(int(count), int(total)) for count, total in re.findall(pattern, data)]
    changes = [n for n in range(1, len(positions)) if positions[n][1] != positions[n - 1][1]]
    if len({total for _, total in positions}) != len(changes) + 1:
        return len(positions), []
    begins = []
    for begin, end in pairwise([0, *changes]):
        counts = [count for count, _ in positions[begin:end]]
        stride = min((b - a for a, b in pairwise(counts) if b > a), default=1)
        if positions[end][0] < counts[-1] <= positions[begin][1] - stride:
            begins.append(end)
    return len(positions), begins


def are_shared(epochs: Floats) -> bool:
    """Return True if consecutive records have the same epoch."""
    return bool((np.diff(epochs) == 0).any())


def are_rounded(epochs: Floats) -> bool:
    """Return True if epochs are rounded to a few digits."""
    return bool((np.abs(epochs - np.round(epochs, _EPOCH_DIGITS)) < 1e-9).all())


def estimate_steps(epochs: Floats, an_epoch: float) -> Floats:
    """Return rising steps for the epochs of records of training, of shape (records,).

    ``an_epoch`` is the number of steps in an epoch. A new run begins where the epoch falls,
    unless it falls so often that several runs write at the same time.
    """
    runs = np.split(epochs, np.flatnonzero(np.diff(epochs) < 0) + 1)
    if len(runs) > max(_MAX_SHORT_RUNS, len(epochs) / _MAX_SHORT_RUNS):
        return np.round(epochs * an_epoch)
    return np.concatenate([_run_steps(run, an_epoch) for run in runs])


def _run_steps(epochs: Floats, an_epoch: float) -> Floats:
    """Return the steps of one run, with a constant stride if that explains the epochs."""
    count = len(epochs)
    number = np.arange(1.0, count + 1)
    stride = np.round((epochs[-1] - epochs[0]) * an_epoch / max(count - 1, 1))
    # The first step may be logged regardless of the stride, and a resume begins anywhere.
    for begin in (stride, 0.0, float(np.round(epochs[0] * an_epoch))):
        steps: Floats = np.maximum(begin + stride * (number - 1), 1.0)
        if stride > 0 and (np.abs(steps / an_epoch - epochs) <= _EPOCH_ERROR).all():
            return steps
    return _between_changes(epochs, an_epoch) if are_shared(epochs) else np.round(epochs * an_epoch)


def _between_changes(epochs: Floats, an_epoch: float) -> Floats:
    """Spread the steps evenly over the records from one change of the epoch to the next.

    At a change the epoch is taken to be halfway between the two that are written.
    """
    changes = np.flatnonzero(np.diff(epochs) > 0)
    ends = [-0.5, *(changes + 0.5), len(epochs) - 0.5]
    half = (
        min(_EPOCH_ERROR, float(np.diff(epochs[changes.min() :]).max()) / 2)
        if len(changes)
        else 0.0
    )
    bounds = [
        max(epochs[0] - half, 0.0),
        *((epochs[changes] + epochs[changes + 1]) / 2),
        epochs[-1] + half,
    ]
    spread = np.round(np.interp(np.arange(len(epochs)), ends, bounds) * an_epoch)
    # Steps rise regardless of the rounding.
    number = np.arange(len(epochs))
    rising: Floats = np.maximum.accumulate(spread - number) + number
    return rising
