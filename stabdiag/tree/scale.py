"""The loss scale: how far it fell, whether it lies at its floor, and whether it was averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.text import plural
from stabdiag.stats.quantiles import median
from stabdiag.tree.probes import PAUSE

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case
    from stabdiag.tree.scaler import Overflows

# Scales that a scaler does not go below: Megatron and DeepSpeed 1, fairseq 1e-4.
_KNOWN_FLOORS = (1.0, 1e-4)

# A scale is at its floor if it mostly stays within one probe of it, having been so much higher.
_PROBE = 2.0
_FROM = 8.0

# A scale that was not raised for so many of the scaler's intervals is kept low by overflows.
_SURE_TO_GROW = 2

# Scales below 1 may be written with so many decimals, and any with three digits: 6.55e+04.
_DECIMALS = 4
_DIGITS = 0.005


@dataclass(frozen=True, kw_only=True)
class Fall:
    """The last fall of a loss scale to a bound: from where, how low, and since when.

    ``back`` is the step at which it had made good half of it, in doublings, if it has since.
    ``usual_until`` is the last step at which it stood no lower than a probe below its usual level.
    """

    top: float
    low: float
    since: int
    back: int | None
    usual_until: int


def last_fall(scale: Series, below: float) -> Fall | None:
    """Return the last fall of a scale below a bound, or None; one that began there did not fall.

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
    again = np.flatnonzero(values[last:] >= middle)
    level = median(values[:begin])
    usual = np.flatnonzero(values[:begin] >= min(level, level / _PROBE))
    return Fall(
        top=top,
        low=float(values[since : last + 1].min()),
        since=int(steps[since]),
        usual_until=int(steps[usual[-1]]),
        back=int(steps[last + again[0]]) if len(again) and values[-1] >= middle else None,
    )


def fall_to_floor(scale: Series, told: float | None) -> Fall | None:
    """Return the fall to the scaler's floor, if the scale has stayed there since, or None.

    Args:
        scale: finite, at least one value.
        told: the floor by the manifest; the scaler of some framework has it otherwise.
    """
    values = scale.values
    floors = _KNOWN_FLOORS if told is None else (told,)
    floor = next((one for one in floors if np.isclose(values.min(), one)), None)
    if floor is None or values[-1] > _PROBE * floor:
        return None
    fall = last_fall(scale, _PROBE * floor)
    if fall is None or fall.top < _FROM * floor:
        return None
    pinned = median(values[scale.steps >= fall.since]) <= _PROBE * floor
    return fall if pinned else None


def went_on(case: Case, scale: Series, found: Overflows, fall: Fall) -> str | None:
    """Return what tells that gradients overflow at the scaler's floor as well, or None.

    The last of those that led there tells nothing of it: a scaler that rests there is at work.
    """
    if found.after(fall.since):
        return "overflows went on"
    rest = int(scale.steps[-1]) - fall.since
    if rest < max(PAUSE, 3 * case.stride):
        return "was not seen to rest there"
    logged = case.history.series
    if "skipped" in logged or ("grad_norm" in logged and case.stride == 1):
        return None  # each overflow would be seen
    grew = (scale.values[scale.steps >= fall.since] > fall.low).any()
    if grew or rest < _SURE_TO_GROW * found.interval:
        return None
    return f"overflows kept it from growing for {plural(rest, 'step')}"


def is_averaged(scale: Series) -> bool:
    """Tell whether a loss scale was logged as a mean over steps: scalers keep powers of two.

    Args:
        scale: finite.
    """
    values = scale.values
    # fairseq's floor is no power of two. (np.isin imports numpy.ma, 3% of the time of a small log.)
    values = values[(values > 0) & ~np.equal.outer(values, _KNOWN_FLOORS).any(axis=1)]
    if not len(values):
        return False
    return bool(np.mean(~_are_powers(values)) > 0.5) and len(np.unique(values)) > 2


def _are_powers(values: Floats) -> Mask:
    """Tell which positive values are powers of two, perhaps rounded to digits or decimals."""
    nearest = np.exp2(np.round(np.log2(values)))
    # fairseq writes 0.0039 for 2^-8.
    rounded = (values < 1) & (np.round(nearest, _DECIMALS) == np.round(values, _DECIMALS))
    powers: Mask = (np.abs(values / nearest - 1) < _DIGITS) | rounded
    return powers
