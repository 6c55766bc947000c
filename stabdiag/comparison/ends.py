"""Where runs end: the mean of their last losses, over steps that all of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.comparison.kind import span
from stabdiag.model.comparison import Level
from stabdiag.stats.means import Spread, mean_and_error, spread
from stabdiag.stats.quantiles import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.comparison import Run
    from stabdiag.model.limits.checks import CompareLimits

# Fewer losses at the end than this have no mean to speak of.
_FEWEST = 5

# A run begins at the mean of so many losses.
_FIRST = 3


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Where the runs end: their levels up to a step, and those that were lost before it."""

    levels: tuple[Level, ...]
    lost: tuple[str, ...]
    until: int
    descent: float


def ends(runs: Sequence[Run], limits: CompareLimits) -> Ends:
    """Return where runs end, over the last part of the steps that all of them have.

    A run whose losses are not finite there is lost: it has no level.
    """
    first, until = max(span(run)[0] for run in runs), min(span(run)[1] for run in runs)
    begin = until - round(limits.final_share * (until - first))
    levels, lost, descents = [], [], []
    for run in runs:
        loss = run.history.series["loss"]
        last = loss.between(begin, until)
        if len(last) < _FEWEST:  # sparse logs
            last = loss.between(first, until)
            last = last.between(int(last.steps[-min(_FEWEST, len(last))]), until)
        finite = last.finite().values
        if 2 * len(finite) < len(last):
            lost.append(run.label)
        elif len(finite) >= _FEWEST:
            mean = mean_and_error(finite)
            levels.append(
                Level(run=run.label, value=mean.value, error=mean.error, noise=mean.deviation)
            )
            descents.append(float(loss.finite().values[:_FIRST].mean()) - mean.value)
    descent = max(median(np.array(descents)), 0.0) if descents else 0.0
    return Ends(levels=tuple(levels), lost=tuple(lost), until=until, descent=descent)


def spread_of(found: Ends) -> Spread:
    """Return how far the ends of at least two runs lie apart."""
    values = np.array([level.value for level in found.levels])
    errors = np.array([level.error for level in found.levels])
    return spread(values, errors)


def farthest(found: Ends) -> tuple[Level, float]:
    """Return the run that ends farthest from the median of the others, and how far, with sign."""
    values = np.array([level.value for level in found.levels])
    offs = [float(values[i]) - median(np.delete(values, i)) for i in range(len(values))]
    at = max(range(len(offs)), key=lambda i: (abs(offs[i]), offs[i]))
    return found.levels[at], offs[at]
