"""Moving averages: their memory, and the single values that they average."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MEAN_TO_SIGMA, last_digit
from stabdiag.stats.quantiles import diff_sigma, median, robust_sigma
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    CONTEXT_POINTS,
    FIFTH,
    HALF,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    QUARTER,
    QUARTERS,
    SUBSAMPLE_SIZE,
    TWICE,
)
from stabdiag.stats.trend import without_line

# A series is an average if its changes over five points vary by this factor more than changes over
# one: a new value has a weight of at most a fifth. Changes are compared over up to a quarter of
# half of the log. The first value is compared with the values of this many memories, at least 50.
_MIN_VARIOGRAM_RATIO: Final = 3.0
_SPANS: Final = QUARTERS
_MAX_CORRELATION: Final = QUARTER
_COMPARED_MEMORIES: Final = CONTEXT_POINTS
_MIN_COMPARED: Final = MIN_LONG_LOG // 2


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
        """An upper bound: the standard deviation of a mean of 1 / weight values."""
        return self.value_sigma * float(np.sqrt(self.weight))

    def level_sigma(self, points: int) -> float:
        """Return the deviation of a mean of ``points`` averages, which share their values."""
        return self.sigma * float(np.sqrt(min(2 / (self.weight * points), 1.0)))


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
    span = CONTEXT_POINTS
    ratios: list[float] = []
    while span <= len(halves[0]) // _SPANS:
        ratio = min(_variogram_ratio(half, span) for half in halves)
        # Changes grow faster with the span in a smooth curve or a drift than in a random walk.
        # In most series they hardly grow, which the first span shows.
        if ratio > TWICE * span or (not ratios and ratio < _MIN_VARIOGRAM_RATIO):
            break
        ratios.append(ratio)
        span += span // 2
    if not ratios or min(_usual_ratio(half, CONTEXT_POINTS) for half in halves) < TWICE:
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
    # The single values of an average are independent, unlike the values of a wave. A change by the
    # last digit is often followed by its opposite.
    lowest = -HALF if TWICE * last_digit(x) > first else -FIFTH
    if not lowest < _correlation(recent, 1) < _MAX_CORRELATION:
        return None
    if _correlation(recent, later) < -QUARTER:
        return None
    return MovingAverage(weight=weight, values=values)


def _correlation(x: Floats, lag: int) -> float:
    power = float(x @ x)
    return float(x[lag:] @ x[:-lag]) / power if power > 0 else 1.0


def _variogram_ratio(x: Floats, span: int) -> float:
    """Return the mean square of changes over ``span`` points, divided by that over one point.

    It is 0 if the series does not change.
    """
    first = _mean_change(x, 1)
    ratio = _mean_change(x, span) / first if first > 0 else 0.0
    return ratio * ratio


def _usual_ratio(x: Floats, span: int) -> float:
    """Return the same ratio of usual changes: spikes that decay look like an average otherwise.

    It is infinite if most changes are 0, as in a series with few digits.
    """
    usual, first = (robust_sigma(x[points:] - x[:-points]) for points in (span, 1))
    return (usual / first) ** 2 if first > 0 else float("inf")


def _mean_change(x: Floats, span: int) -> float:
    """Return the mean deviation of the changes over ``span`` points."""
    changes = x[span:] - x[:-span]
    return float(np.abs(changes - median(changes)).mean())


def chance_start(x: Floats, average: MovingAverage | None) -> int:
    """Return the number of points that a first value lowers if it is low by chance, or 0.

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
    head, tail = np.split(values, [min(memory, size // 2)])
    is_chance = values.min() <= x[0] < median(values) and head.max() <= TWICE * tail.max()
    return min(size, len(x) // 2) if is_chance else 0


def single_value_sigma(x: Floats) -> float:
    """Return the deviation of single values, before averaging if a series is a moving average.

    Args:
        x: shape (n,), finite, n at least 2.
    """
    average = find_average(x)
    return diff_sigma(x) if average is None else average.value_sigma
