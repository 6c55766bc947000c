"""The steps of lines that name none: from the lines around them, from bars, and from epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.readers.text.grammar import Step

# The column of what a bar counts up to: a bar of another length than training's is another bar.
TOTAL: Final = "total"

# The fewest consecutive losses that make a run of their own, whose bar may have another length.
_FEW: Final = 3

# More runs than this, each shorter than this many records, are written at the same time.
_RUNS: Final = 20

# The bar of training has come further from one loss to the next in this share of the cases.
_RISES: Final = 0.75

# The digits of an epoch after the point; the error of rounding, with a little for floats.
_DIGITS: Final = 2
_ROUNDED: Final = 0.5 * 10**-_DIGITS + 1e-9


def filled(steps: Floats, how: Ints) -> Floats:
    """Return steps with those filled in that lines do not name; see ``Step``.

    Both have the shape (lines,), in the order of the log. A step that is not named is NaN; ``how``
    holds the value of ``Step`` of each line.
    """
    known = ~np.isnan(steps)
    if known.all():
        return steps
    last, coming = neighbours(known)
    before = np.where(last >= 0, steps[last], _start(steps[known]))
    after = np.append(steps, np.nan)[coming]
    counted = np.cumsum((how == Step.NEXT.value) & ~known)
    since = counted - np.where(last >= 0, counted[last], 0)
    limit = np.where(after > before, after, np.inf)
    next_one = np.minimum(np.nan_to_num(before) + since, limit)
    ways = {
        Step.SAME: before,
        Step.NEXT: next_one,
        Step.LAST: next_one,
        Step.COMING: np.where(np.isnan(after), before, after),
    }
    chosen = np.choose(how, [ways[step] for step in Step])
    return np.where(known, steps, chosen)


def neighbours(which: Mask) -> tuple[Ints, Ints]:
    """Return of each line the last and the next one of some lines, itself if it is one of them.

    Where there is no last one it is -1, and where there is no next one their number.
    """
    number = np.arange(len(which))
    last = np.maximum.accumulate(np.where(which, number, -1))
    return last, np.minimum.accumulate(np.where(which, number, len(which))[::-1])[::-1]


def _start(known: Floats) -> float:
    """Return the step before the first that is named: a log may begin with an evaluation."""
    if not len(known):
        return np.nan
    later = known[known > known[0]]
    stride = later[0] - known[0] if len(later) else 1.0
    return max(float(known[0] - stride), 0.0)


def counted_on(steps: Floats, unit: Floats) -> Floats:
    """Return steps with those counted on that are rounded: 800, 1K, 1K, 1K, 1K, 2K.

    Each lies at the stride before behind the last one, as long as that rounds to what is written.
    Both arrays have the shape (lines,); the ``unit`` of a step that is written in full is 0.
    """
    mended = steps.copy()
    for row in np.flatnonzero(unit[2:]) + 2:
        on = 2 * mended[row - 1] - mended[row - 2]
        if on > mended[row - 1] and 2 * abs(on - steps[row]) <= unit[row]:
            mended[row] = on
    return mended


def told_in(config: Mapping[str, object], name: str) -> float | None:
    """Return a number among the arguments that the log prints; it may be written as 7,012."""
    try:
        return float(str(config[name]).replace(",", ""))
    except (KeyError, ValueError):
        return None


def totals_of_training(
    places: Ints, counts: Floats, totals: Floats, losses: Ints, told: float | None = None
) -> Floats:
    """Return what the bars of training count to, which may differ between the runs in a log.

    Each loss votes for the bar that is drawn anew with it. Data is mapped and evaluations are made
    in as many steps and more, without losses.

    Args:
        places: where in the log each bar is drawn.
        counts: how far each bar has come.
        totals: how far each bar counts.
        losses: where the training losses stand.
        told: the steps that the log announces, of one of its runs.
    """
    order = np.argsort(places, kind="stable")
    places, counts, totals, losses = places[order], counts[order], totals[order], np.sort(losses)
    if not len(losses):
        found, count = np.unique(totals, return_counts=True)
        return np.array([found[np.argmax(count)]])
    votes = _votes(places, counts, totals, losses)
    announced = places[totals == told] if told is not None else places[:0]
    if len(announced):
        votes[(losses >= announced[0]) & (losses <= announced[-1])] = told
    found, count = np.unique(votes, return_counts=True)
    first = np.array([np.argmax(votes == one) for one in found])
    last = len(votes) - 1 - np.array([np.argmax(votes[::-1] == one) for one in found])
    mostly = (count >= _FEW) & (2 * count > last - first + 1)
    mostly[np.argmax(count)] = True
    kept: Floats = found[mostly]
    return kept


def _votes(places: Ints, counts: Floats, totals: Floats, losses: Ints) -> Floats:
    """Return the total of the bar that each loss goes with: the next bar, or else the one before.

    The bar of training has come further from loss to loss; that of an evaluation that follows each
    loss at once has not.
    """
    after = np.minimum(np.searchsorted(places, losses), len(places) - 1)
    before = np.maximum(np.searchsorted(places, losses) - 1, 0)
    votes = totals[after]
    for one in np.unique(votes):
        mine = after[votes == one]
        if len(mine) >= _FEW and np.mean(np.diff(counts[mine]) > 0) < _RISES:
            votes[totals[after] == one] = totals[before[totals[after] == one]]
    return votes


def are_shared(epochs: Floats) -> bool:
    """Tell whether records that follow each other have the same epoch."""
    return bool((np.diff(epochs) == 0).any())


def are_rounded(epochs: Floats) -> bool:
    """Tell whether epochs are written with few digits, and not in full."""
    return bool((np.abs(epochs - np.round(epochs, _DIGITS)) < 1e-9).all())


def steps_of(epochs: Floats, an_epoch: float) -> Floats:
    """Return rising steps for the epochs of records of training, of shape (records,).

    ``an_epoch`` is how many steps an epoch has. A new run begins where the epoch falls, unless it
    falls so often that several runs write at the same time.
    """
    runs = np.split(epochs, np.flatnonzero(np.diff(epochs) < 0) + 1)
    if len(runs) > max(_RUNS, len(epochs) / _RUNS):
        return np.round(epochs * an_epoch)
    return np.concatenate([_of_one_run(run, an_epoch) for run in runs])


def _of_one_run(epochs: Floats, an_epoch: float) -> Floats:
    """Return the steps of one run: at one stride if that explains the epochs."""
    count = len(epochs)
    number = np.arange(1.0, count + 1)
    stride = np.round((epochs[-1] - epochs[0]) * an_epoch / max(count - 1, 1))
    # The first step may be logged whatever the stride, and a resume begins anywhere.
    for begin in (stride, 0.0, float(np.round(epochs[0] * an_epoch))):
        steps: Floats = np.maximum(begin + stride * (number - 1), 1.0)
        if stride > 0 and (np.abs(steps / an_epoch - epochs) <= _ROUNDED).all():
            return steps
    return _between_changes(epochs, an_epoch) if are_shared(epochs) else np.round(epochs * an_epoch)


def _between_changes(epochs: Floats, an_epoch: float) -> Floats:
    """Spread the steps evenly over the records from one change of the epoch to the next.

    At a change the epoch is taken to be halfway between the two that are written.
    """
    changes = np.flatnonzero(np.diff(epochs) > 0)
    ends = [-0.5, *(changes + 0.5), len(epochs) - 0.5]
    half = min(_ROUNDED, float(np.diff(epochs[changes.min() :]).max()) / 2) if len(changes) else 0.0
    known = [
        max(epochs[0] - half, 0.0),
        *((epochs[changes] + epochs[changes + 1]) / 2),
        epochs[-1] + half,
    ]
    spread = np.round(np.interp(np.arange(len(epochs)), ends, known) * an_epoch)
    # Each step lies above the last, whatever the rounding.
    number = np.arange(len(epochs))
    rising: Floats = np.maximum.accumulate(spread - number) + number
    return rising
