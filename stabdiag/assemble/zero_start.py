"""Exponential moving averages that start at zero, and their correction."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.arrays import Floats

# An average remembers at least this many values, so that it starts below a quarter of its level.
# The single values that it implies stay within the same factor of their median.
_MIN_MEMORY: Final = 4

# The log has this many times as many points. While it starts, at least this fraction of the changes
# are rises and, corrected by its decay, the average varies by a factor of two at most.
_MEMORIES: Final = MIN_RECORDS
_MIN_RISING: Final = 0.9

# The decay and the level depend on each other, and converge within this many iterations.
_MAX_ITERATIONS: Final = 30


def corrected_average(x: Floats) -> Floats | None:
    """Return an exponential moving average that started at zero, corrected, or None.

    Args:
        x: shape (n,), finite, in its own unit.

    Returns:
        Shape (n,), x[t] / (1 - b ** (t + 1)) for the decay b, as Adam corrects its moments (Kingma
        & Ba 2015, arXiv:1412.6980, section 3). None if the series is not of this kind.

    The decay gives the first value, 1 - b of the level, and also the number of points until the
    average reaches its level. A loss that rises for another reason does not satisfy both.
    """
    decay = _zero_start_decay(x)
    if decay is None:
        return None
    corrected: Floats = x / (1 - decay ** np.arange(1, len(x) + 1))
    start = corrected[: round(_MEMORIES / (1 - decay))]
    memory = round(1 / (1 - decay))
    level = float(np.median(start))
    if start.max() > 2 * start.min() or _MIN_MEMORY * x[0] > level:
        return None
    if np.mean(np.diff(x[:memory]) > 0) < _MIN_RISING:
        return None
    # Later losses do not vary independently either.
    if not _is_smooth(x[len(x) // 2 :]):
        return None
    values = np.diff(x[: memory + 1], prepend=0.0) / (1 - decay)
    values[1:] += x[:memory]
    is_usual = (_MIN_MEMORY * values > level) & (values < _MIN_MEMORY * level)
    return corrected if is_usual.all() else None


def _zero_start_decay(x: Floats) -> float | None:
    """Return the decay of a series if it is an average that started at zero, or None.

    The level is the median of the corrected series, which depends on the decay.
    """
    if len(x) < _MEMORIES * _MIN_MEMORY or x[0] <= 0:
        return None
    at, level, decay = _MIN_MEMORY, float(x[: len(x) // 2].max()), 0.0
    if _MIN_MEMORY * x[0] >= level:
        return None
    for _ in range(_MAX_ITERATIONS):
        if not 0 < x[at] < level:
            return None
        decay = float((1 - x[at] / level) ** (1 / (at + 1)))
        memory = 1 / (1 - decay) if decay < 1 else np.inf
        if memory < _MIN_MEMORY or _MEMORIES * memory > len(x):
            return None
        stop = round(_MEMORIES * memory)
        start = x[:stop] / (1 - decay ** np.arange(1, stop + 1))
        # The mean of as many values as the average remembers has less noise than the first, and
        # hardly contains the losses of the first steps, which may be much higher.
        at = round(memory)
        earlier, later = np.array_split(start[at:], 2)
        level, last_level = float(np.median(earlier)), float(np.median(later))
        level += max(level - last_level, 0.0) / 2  # a falling loss was higher before
    return decay


def _is_smooth(x: Floats) -> bool:
    """Return True if changes over several points vary more than twice as much as over one."""
    short, long = np.diff(x), x[_MIN_MEMORY:] - x[:-_MIN_MEMORY]
    return bool(np.abs(long).mean() > np.sqrt(2) * np.abs(short).mean())
