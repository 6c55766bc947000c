"""When a smooth series, such as a learning rate or a weight norm, began to rise or fall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.smooth import turn

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case


def turned_to(
    case: Case, series: Series, first: int, last: int, *, falling: bool = False
) -> int | None:
    """Return the step at which a series began its largest rise, or fall, between two steps.

    What counts is the factor that it makes within the window of §4. The turn may lie before the
    first step. None where the series does not show one, and to the letter.
    """
    steps, logs = logarithms(series.finite().until(last))
    if case.literal or not len(logs):
        return None
    window = case.limits.divergence.window
    found = turn(steps.astype(np.float64), -logs if falling else logs, window, first)
    return None if found is None else round(found)


def half_peak_at(series: Series) -> int | None:
    """Return the first step at which a series is at half its peak, None where it is never above 0.

    Its values are finite.
    """
    peak = float(series.values.max(initial=0.0))
    return int(series.steps[np.argmax(series.values >= peak / 2)]) if peak > 0 else None


def at_or_near(series: Series, step: int) -> str:
    """Return ``at step 600``, or ``near step 600`` where the series has no record of that step."""
    return f"{'at' if (series.steps == step).any() else 'near'} step {step}"


def logarithms(series: Series) -> tuple[Ints, Floats]:
    """Return the steps of positive values, and the values' logarithms."""
    good = series.values > 0
    return series.steps[good], np.log(series.values[good])
