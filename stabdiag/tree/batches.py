"""Batches that come again, as far as their ids were logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.stats.quantiles import usual_gap
from stabdiag.stats.repeats import any_again

if TYPE_CHECKING:
    from stabdiag.arrays import Ints
    from stabdiag.tree.case import Case

# Ids that come back this often all along are how the loader numbers its batches.
USUAL_REPEATS = 0.1


def any_repeat(case: Case) -> bool:
    """Tell whether any batch comes again within the lookback of §2."""
    batches = case.history.get("batch_id")
    if batches is None or len(batches) < 2:
        return False
    # Batches may be logged more often than losses are.
    gap = usual_gap(batches.steps)
    return any_again(batches.values, max(round(case.limits.spike.batch_lookback / gap), 1))


def few_repeats(case: Case) -> Ints | None:
    """Return the steps whose batches had been seen shortly before, if there are only a few."""
    if not case.batches_repeat:
        return None
    batches = case.history.series["batch_id"]
    repeated = batches.steps[case.since_seen <= case.limits.spike.batch_lookback]
    return repeated if 0 < len(repeated) <= USUAL_REPEATS * len(batches) else None
