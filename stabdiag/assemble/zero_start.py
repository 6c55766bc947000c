"""Exponential moving averages that start at zero, and their correction."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats

# The average starts below this fraction of its level. It has memory for at least this many points,
# and the log has three times as many.
_LOW_START: Final = 0.25
_MIN_MEMORY: Final = 4.0
_MEMORIES: Final = 3

# At least this fraction of its first changes are rises. Corrected by its decay, the average varies
# by at most this factor while it starts, and the single values that it implies stay within the last
# two factors of their median.
_MIN_RISING: Final = 0.9
_MAX_RATIO: Final = 2.0
_LOWEST_VALUE, _HIGHEST_VALUE = 0.2, 4.0

_ITERATIONS: Final = 50
_TOLERANCE: Final = 1e-6

# The search for the decay begins with the fifth value, and a level is a median of at least three.
_MIN_POINTS: Final = 10
_FIRST_POINT, _MIN_LEVEL = 4, 3

# Changes over this many points are larger than changes over one by this factor. Independent losses
# have equal changes, and an average with the shortest memory has a factor of 1.7.
_SPAN: Final = 5
_MIN_GROWTH: Final = 1.4


def corrected_average(x: Floats) -> Floats | None:
    """Return an exponential moving average that started at zero, corrected, or None.

    Args:
        x: shape (n,), finite, in its own unit.

    Returns:
        Shape (n,), x[t] / (1 - b ** (t + 1)) for the decay b, as Adam corrects its moments (Kingma
        & Ba 2015, arXiv:1412.6980, section 3). None if the series is not of this kind.

    The decay gives the first value, 1 - b of the level, and also the number of points in which the
    average reaches its level. A loss that rises for another reason does not satisfy both.
    """
    decay = _zero_start_decay(x)
    if decay is None:
        return None
    corrected: Floats = x / (1 - decay ** np.arange(1, len(x) + 1))
    start = corrected[: round(_MEMORIES / (1 - decay))]
    memory = round(1 / (1 - decay))
    level = float(np.median(start))
    if start.max() > _MAX_RATIO * start.min() or x[0] > _LOW_START * level:
        return None
    if np.mean(np.diff(x[:memory]) > 0) < _MIN_RISING:
        return None
    # Later losses do not vary independently either.
    if not _is_smooth(x[len(x) // 2 :]):
        return None
    values = np.diff(x[: memory + 1], prepend=0.0) / (1 - decay)
    values[1:] += x[:memory]
    is_usual = (values > _LOWEST_VALUE * level) & (values < _HIGHEST_VALUE * level)
    return corrected if is_usual.all() else None


def _zero_start_decay(x: Floats) -> float | None:
    """Return the decay of a series if it is an average that started at zero, or None.

    The level is the median of the corrected series, which depends on the decay.
    """
    head = x[: max(len(x) // 2, _MIN_POINTS)]
    if len(x) < _MIN_POINTS or not 0 < x[0] < _LOW_START * float(head.max()):
        return None
    at, level, decay = _FIRST_POINT, float(head.max()), 0.0
    for _ in range(_ITERATIONS):
        if not 0 < x[at] < level:
            return None
        decay = float((1 - x[at] / level) ** (1 / (at + 1)))
        memory = 1 / (1 - decay) if decay < 1 else np.inf
        if memory < _MIN_MEMORY or _MEMORIES * memory > len(x):
            return None
        stop = max(round(_MEMORIES * memory), _MIN_POINTS)
        start = x[:stop] / (1 - decay ** np.arange(1, stop + 1))
        # The mean of as many values as the average remembers has less noise than the first, and
        # hardly contains the losses of the first steps, which may be much higher.
        at = min(round(memory), len(start) - _MIN_LEVEL)
        middle = (at + len(start)) // 2
        near, far = float(np.median(start[at:middle])), float(np.median(start[middle:]))
        last, level = level, near + max(near - far, 0.0) / 2  # a falling loss was higher before
        if abs(level - last) <= _TOLERANCE * level:
            break
    return decay


def _is_smooth(x: Floats) -> bool:
    """Return True if changes over five points are clearly larger than changes over one."""
    near, far = np.diff(x), x[_SPAN:] - x[:-_SPAN]
    return float(np.abs(far).mean()) > _MIN_GROWTH * float(np.abs(near).mean())
