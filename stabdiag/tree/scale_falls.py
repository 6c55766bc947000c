"""The falls of a loss scale, and the floors that stop them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import TWICE
from stabdiag.tree.case import Case

# Floors of scalers: Megatron and DeepSpeed 1, fairseq 1e-4.
KNOWN_FLOORS = (1.0, 1e-4)

# A scale is at its floor if it mostly stays within one probe of it and was at least two above it.
PROBE = TWICE


@frozen
class Fall:
    """The last fall of a loss scale below a bound.

    It fell from ``top`` to ``low`` and is below the bound since the step ``since``. ``usual_until``
    is the last step with a scale at most one probe below its usual level.
    """

    top: float
    low: float
    since: int
    usual_until: int


def last_fall(scale: Series, below: float) -> Fall | None:
    """Return the last fall of a scale below a bound, or None.

    A scale that starts below the bound did not fall.

    Args:
        scale: finite.
        below: the bound, positive.
    """
    values, steps = scale.values, scale.steps
    low = np.flatnonzero((values < below) & (values < np.maximum.accumulate(values)))
    if not len(low):
        return None
    last = int(low[-1])
    top = float(values[:last].max())
    middle = min(math.sqrt(max(top, 0.0)) * math.sqrt(max(below, 0.0)), top)
    begin = int(np.flatnonzero(values[:last] >= middle)[-1]) + 1
    since = begin + int(np.argmax(values[begin : last + 1] < below))
    level = median(values[:begin])
    usual = np.flatnonzero(values[:begin] >= min(level, level / PROBE))
    return Fall(
        top=top,
        low=float(values[since : last + 1].min()),
        since=int(steps[since]),
        usual_until=int(steps[usual[-1]]),
    )


def is_floor(case: Case, value: float) -> bool:
    """Return True if a dynamic scaler cannot lower its scale below this value."""
    if case.manifest.static_loss_scale:
        return False
    return any(np.isclose(value, floor) for floor in floors(case))


def floors(case: Case) -> Sequence[float]:
    """Return the values that a dynamic scaler of this run may stop at."""
    configured = case.manifest.loss_scale_min
    return KNOWN_FLOORS if configured is None else (configured,)
