"""Moving averages: the correction of one that starts at zero, and the values that they average."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MEAN_TO_SIGMA
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    CONTEXT_POINTS,
    FIFTH,
    HALF,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_TREND_POINTS,
    NEARLY_ALL,
    QUARTER,
    SUBSAMPLE_SIZE,
    TWICE,
)
from stabdiag.stats.trend import without_line

# The average starts below this fraction of its level. It has memory for at least this many points,
# and the log has three times as many.
_LOW_START: Final = QUARTER
_MIN_MEMORY: Final = 4.0
_MEMORIES: Final = 3

# Corrected by its decay, the average varies by at most this factor while it starts. The single
# values that it implies stay within these factors of their median.
_MAX_RATIO: Final = TWICE
_LOWEST_VALUE, _HIGHEST_VALUE = 0.2, 4.0

_ITERATIONS: Final = 50
_TOLERANCE: Final = 1e-6

# A series is an average if its changes over five points vary by this factor more than those over
# one: a new value has a weight of at most a fifth. Changes are compared over up to a quarter of
# half of the log. The first value is compared with those of this many memories, at least 50.
_MIN_RATIO: Final = 3.0
_SPANS: Final = 4
_MAX_CORRELATION: Final = 0.3
_COMPARED_MEMORIES: Final = 5
_MIN_COMPARED: Final = 50


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
    level = median(start)
    if start.max() > _MAX_RATIO * start.min() or x[0] > _LOW_START * level:
        return None
    if np.mean(np.diff(x[:memory]) > 0) < NEARLY_ALL:
        return None
    # Later losses do not vary independently either.
    if _variogram_ratio(x[len(x) // 2 :][:SUBSAMPLE_SIZE], CONTEXT_POINTS) < TWICE:
        return None
    values = np.diff(x[: memory + 1], prepend=0.0) / (1 - decay)
    values[1:] += x[:memory]
    is_usual = (values > _LOWEST_VALUE * level) & (values < _HIGHEST_VALUE * level)
    return corrected if is_usual.all() else None


def _zero_start_decay(x: Floats) -> float | None:
    """Return the decay of a series if it is an average that started at zero, or None.

    The level is the median of the corrected series, which depends on the decay.
    """
    head = x[: max(len(x) // 2, MIN_TREND_POINTS)]
    if len(x) < MIN_TREND_POINTS or not 0 < x[0] < _LOW_START * head.max():
        return None
    at, level, decay = CONTEXT_POINTS - 1, float(head.max()), 0.0
    for _ in range(_ITERATIONS):
        if not 0 < x[at] < level:
            return None
        decay = float((1 - x[at] / level) ** (1 / (at + 1)))
        memory = 1 / (1 - decay) if decay < 1 else np.inf
        if memory < _MIN_MEMORY or _MEMORIES * memory > len(x):
            return None
        stop = max(round(_MEMORIES * memory), MIN_TREND_POINTS)
        start = x[:stop] / (1 - decay ** np.arange(1, stop + 1))
        # The mean of as many values as the average remembers has less noise than the first, and
        # hardly contains the losses of the first steps, which may be much higher.
        at = min(round(memory), len(start) - MIN_CONSECUTIVE)
        middle = (at + len(start)) // 2
        near, far = median(start[at:middle]), median(start[middle:])
        last, level = level, near + max(near - far, 0.0) / 2  # a falling loss was higher before
        if abs(level - last) <= _TOLERANCE * level:
            break
    return decay


@frozen
class MovingAverage:
    """A series that is a moving average: the weight of a new value, and the values averaged.

    ``values`` are the single values after the first, shape (n - 1,).
    """

    weight: float
    values: Floats

    @property
    def value_sigma(self) -> float:
        """The standard deviation of a single value."""
        return _mean_change(self.values, 1) * MEAN_TO_SIGMA / float(np.sqrt(2))

    @property
    def sigma(self) -> float:
        """The standard deviation of the average, at most: that of a mean of 1 / weight values."""
        return self.value_sigma * float(np.sqrt(self.weight))


def find_average(x: Floats) -> MovingAverage | None:
    """Return the moving average that a series is, or None.

    Args:
        x: shape (n,), finite.

    A value with the weight w moves the average by w times its distance from the average. The weight
    is constant, or 1 / (t + 1) while few values were averaged. Changes over k points of an
    autoregression with the decay b vary by (1 - b ** k) / (1 - b) times as much as changes over one
    (its variogram), so that the largest ratio is 1 / (1 - b); for a mean of k values it is k.
    Independent values have a ratio of 1. Mean deviations of the changes tolerate a few steps, heavy
    tails and a constant slope.
    """
    if len(x) < MIN_LONG_LOG:
        return None
    # In both halves, because a fault may look like an average from its onset on.
    halves = x[: len(x) // 2][-SUBSAMPLE_SIZE:], x[len(x) // 2 :][:SUBSAMPLE_SIZE]
    first = _mean_change(halves[1], 1)
    span, ratios = CONTEXT_POINTS, []
    while span <= len(halves[0]) // _SPANS:
        ratio = min(_variogram_ratio(half, span) for half in halves)
        # The changes of a smooth curve, or of a drift, grow faster than those of a random walk.
        if ratio > TWICE * span:
            break
        ratios.append(ratio)
        span += span // 2
    if not ratios or ratios[0] < _MIN_RATIO:
        return None
    weight = 1 / max(ratios)
    weights, changes = np.maximum(1 / np.arange(2, len(x) + 1), weight), np.diff(x)
    early = x[: max(round(HALF / weight), CONTEXT_POINTS)]
    # An average whose first changes vary no more has had the same weight from the start.
    if _mean_change(early, 1) <= CLEAR_RATIO * first:
        weights[:] = weight
    values = x[:-1] + changes / weights
    recent = without_line(values[len(values) // 2 :][:SUBSAMPLE_SIZE])
    later = max(round(HALF / weight), MIN_CONSECUTIVE)
    # The single values of an average are independent, and those of a wave are not.
    if not -FIFTH < _correlation(recent, 1) < _MAX_CORRELATION:
        return None
    if _correlation(recent, later) < -QUARTER:
        return None
    return MovingAverage(weight=weight, values=values)


def _correlation(x: Floats, lag: int) -> float:
    power = float(x @ x)
    return float(x[lag:] @ x[:-lag]) / power if power > 0 else 1.0


def _variogram_ratio(x: Floats, span: int) -> float:
    """Return how much more changes over ``span`` points vary than changes over one; 0 if none."""
    first = _mean_change(x, 1)
    return (_mean_change(x, span) / first) ** 2 if first > 0 else 0.0


def _mean_change(x: Floats, span: int) -> float:
    """Return the mean deviation of the changes over ``span`` points."""
    changes = x[span:] - x[:-span]
    return float(np.abs(changes - median(changes)).mean())


def chance_start(x: Floats, average: MovingAverage | None) -> int:
    """Return the number of points for which a low first value counts by chance, or 0.

    Args:
        x: shape (n,), finite.
        average: the moving average that it is, or None.

    The first value of an average is a single one, with all of its noise, and counts for a while. It
    is low by chance if some of the next single values are as low, and none of them is far above
    those that follow: a loss that explodes does so in a few steps.
    """
    if average is None:
        return 0
    memory = max(round(1 / average.weight), CONTEXT_POINTS)
    size = min(max(_COMPARED_MEMORIES * memory, _MIN_COMPARED), len(average.values))
    values = average.values[:size]
    head, rest = np.split(values, [min(memory, size // 2)])
    is_chance = values.min() <= x[0] < median(values) and head.max() <= TWICE * rest.max()
    return min(size, len(x) // 2) if is_chance else 0


def single_value_sigma(x: Floats) -> float:
    """Return the deviation of single values: of those that are averaged if a series is an average.

    Args:
        x: shape (n,), finite, n at least 2.
    """
    average = find_average(x)
    return diff_sigma(x) if average is None else average.value_sigma
