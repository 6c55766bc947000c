"""Find the progress bars that count the steps of training, among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.arrays import Floats, Ints

# The column of what a bar counts up to: a bar of another length than training's is another bar.
TOTAL: Final = "total"

# The fewest consecutive losses that make a run of their own, whose bar may have another length.
_FEW: Final = 3

# The bar of training has come further from one loss to the next in this share of the cases.
_RISES: Final = 0.75


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
