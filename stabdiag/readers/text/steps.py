"""Fill in the steps of lines that name none, from the lines around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.readers.text.grammar import Step

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints


def filled(steps: Floats, how: Ints) -> Floats:
    """Return steps with those filled in that lines do not name; see ``Step``.

    Both have the shape (lines,), in the order of the log. A step that is not named is NaN; ``how``
    holds the value of ``Step`` of each line.
    """
    known = ~np.isnan(steps)
    if known.all():
        return steps
    number = np.arange(len(steps))
    last = np.maximum.accumulate(np.where(known, number, -1))
    before = np.where(last >= 0, steps[last], _start(steps[known]))
    coming = np.minimum.accumulate(np.where(known, number, len(steps))[::-1])[::-1]
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


def _start(known: Floats) -> float:
    """Return the step before the first that is named: a log may begin with an evaluation."""
    if not len(known):
        return np.nan
    later = known[known > known[0]]
    stride = later[0] - known[0] if len(later) else 1.0
    return max(float(known[0] - stride), 0.0)
