"""The course of a series: its level at the start, at the end and over equal parts.

A level is a median, so that single outliers do not change it. All series are finite, of the shape
(n,) with n at least 1; levels and noise are in the unit of the series.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MAX_LEVEL_POINTS, MEAN_TO_SIGMA, levels
from stabdiag.stats.quantiles import diff_sigma, median, medians, robust_sigma, typical
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CONTEXT_POINTS,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    SUBSAMPLE_SIZE,
    TENTH,
    TENTHS,
    THIRD,
    TWENTIETHS,
)

# With linear growth, the last three of nine tenths contribute a third of the change; a random walk
# contributes less. The last tenth must contribute a third of what linear growth would, or else the
# series jumped and settled.
_LINEAR_FRACTION = THIRD


def start_level(x: Floats) -> float:
    """Return the level of the first values: only three, since a loss soon falls."""
    return median(x[:MIN_CONSECUTIVE])


def beginning(x: Floats) -> float:
    """Return the highest of the first values: at least the loss of an untrained model."""
    return float(x[:CONTEXT_POINTS].max())


def early_high(x: Floats, count: int) -> tuple[float, int]:
    """Return the value that the first values after the start reach several times in a row.

    Args:
        x: n above ``count``.
        count: the number of values after the first one, at least ``MIN_CONSECUTIVE``.

    Returns:
        The highest value that consecutive ones are not below, and the position of the first.
    """
    lowest = sliding_window_view(x[1 : count + 1], MIN_CONSECUTIVE).min(axis=1)
    at = int(lowest.argmax())
    return float(lowest[at]), at + 1


def end_level(x: Floats) -> float:
    """Return the level of the last tenth."""
    return typical(x[-max(len(x) // TENTHS, 1) :])


def outer_levels(x: Floats) -> tuple[float, float]:
    """Return the levels of the first and of the last tenth."""
    first, *_, last = levels(x, TENTHS).tolist()
    return first, last


def highest_level(x: Floats) -> float:
    """Return the highest level of a twentieth."""
    return float(levels(x, TWENTIETHS).max())


def lowest_level(x: Floats) -> float:
    """Return the lowest level of a twentieth."""
    return float(levels(x, TWENTIETHS).min())


def present_level(x: Floats) -> float:
    """Return the level of the last few values, which shows a change just before the end."""
    return median(x[-MIN_SAMPLE:])


def evaluation_level(x: Floats) -> float:
    """Return the level of the last evaluations: only three, since there are few of them."""
    return median(x[-MIN_CONSECUTIVE:])


def second_half(x: Floats) -> Floats:
    """Return the second half: by then most of a descent is over."""
    return x[len(x) // 2 :]


def late_level(x: Floats) -> float:
    """Return the usual value in the second half."""
    return typical(second_half(x))


def late_noise(x: Floats) -> float:
    """Return the standard deviation of single values in the second half, n at least 3."""
    return diff_sigma(second_half(x))


def late_spread(x: Floats, sigma: float) -> float:
    """Return the spread of the second half, which includes slow variation.

    It is at least ``sigma``, the noise of single values, which the whole series estimates better.
    """
    late = second_half(x)[:: max(len(x) // SUBSAMPLE_SIZE, 1)]
    return max(robust_sigma(late), sigma)


def settled(count: int) -> slice:
    """Return the positions after the first tenth of ``count`` points.

    In the first tenth, a program compiles, fills queues and allocates memory, and a model leaves
    its initialization.
    """
    return slice(count // TENTHS, None)


def level_error(sigma: float, *counts: int) -> float:
    """Return the standard error of a level, or of the difference between two levels.

    Args:
        sigma: the standard deviation of single values, which are independent.
        counts: the number of values of each level, at least 1; ``levels`` samples long parts.

    The error of a median of normal values exceeds the error of a mean by ``MEAN_TO_SIGMA``.
    """
    return (
        MEAN_TO_SIGMA * sigma * math.sqrt(sum(1 / min(count, MAX_LEVEL_POINTS) for count in counts))
    )


def change_of_halves(x: Floats, least: float) -> float:
    """Return the mean of the second half minus the mean of the first, 0 if it may be noise.

    Args:
        x: n at least 2.
        least: a smaller change is negligible, in the unit of the series.
    """
    early, late = x[: len(x) // 2], second_half(x)
    error = diff_sigma(x) * math.sqrt(1 / len(early) + 1 / len(late))
    change = float(late.mean() - early.mean())
    return change if abs(change) > max(least, BEYOND_CHANCE * error) else 0.0


def flat_part(levels: Floats, fallen: float) -> int:
    """Return the index of the part where a series becomes flat: it stays near its last level.

    Args:
        levels: the levels of equal parts.
        fallen: the fall of the series; a small fraction of it may be left.
    """
    return position_after(levels - levels[-1] > NEGLIGIBLE * fallen)


def usual_mean(x: Floats, factor: float) -> float:
    """Return the mean of the values up to ``factor`` times the median, 0 if there are none."""
    usual = x[x <= factor * median(x)]
    return float(usual.mean()) if len(usual) else 0.0


def usual_change(levels: Floats) -> float:
    """Return the usual distance between neighboring levels, at least two."""
    return median(np.abs(np.diff(levels)))


def level_before(x: Floats, position: int, width: int) -> float:
    """Return the level of at most ``width`` values before a position above 0."""
    return median(x[max(position - width, 0) : position])


def keeps_growing(tenths: Floats) -> bool:
    """Return True if a series grows to its end, about as fast as since its first tenth.

    Args:
        tenths: the levels of ten parts.
    """
    late, last = tenths[-1] - tenths[-4], tenths[-1] - tenths[-2]
    is_linear = late >= _LINEAR_FRACTION * (tenths[-1] - tenths[1])
    return bool(late >= 0 and is_linear and last >= _LINEAR_FRACTION * late / 3)


def moving_medians(x: Floats, width: int = MIN_CONSECUTIVE) -> Floats:
    """Return the median of each ``width`` consecutive values: shape (n - width + 1,)."""
    return medians(sliding_window_view(x, width))


def position_after(where: Mask) -> int:
    """Return the position after the last one that is true; 0 if none is."""
    positions = np.flatnonzero(where)
    return int(positions[-1]) + 1 if len(positions) else 0


def nonfinite_end(values: Floats) -> int | None:
    """Return the position where values become non-finite and stay so to the end, or None.

    A program may print NaN if there is nothing to average: no episode ended, or no example has a
    label. This happens at the beginning of a run, or occasionally. Values are lost if they were
    finite before and are not finite throughout the last tenth.
    """
    bad = ~np.isfinite(values)
    first = position_after(~bad)
    count = len(bad) - first
    if first < MIN_CONSECUTIVE or count < max(MIN_CONSECUTIVE, TENTH * len(bad)):
        return None
    return first if bad[:first].mean() <= TENTH else None


@frozen
class Course:
    """A series by equal parts.

    ``levels`` are the medians of the parts. Each has ``size`` points; the first part begins at the
    position ``first``, since points that do not fill the parts are left out at the beginning.
    """

    levels: Floats
    size: int
    first: int

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def starts(self) -> Ints:
        """The first position of each part."""
        return self.first + self.size * np.arange(len(self))

    @property
    def middles(self) -> Ints:
        """The middle position of each part."""
        return self.starts + self.size // 2

    @property
    def ends(self) -> Ints:
        """The last position of each part."""
        return self.starts + self.size - 1

    def rows(self, x: Floats) -> Floats:
        """Return the values by part: shape (parts, size)."""
        return x[self.first :].reshape(len(self), self.size)

    def span(self, first: int, last: int) -> slice:
        """Return the positions from one part to another, both included."""
        return slice(int(self.starts[first]), int(self.ends[last]) + 1)


def measure_course(x: Floats, parts: int = TWENTIETHS) -> Course:
    """Return the course of a series over equal parts; fewer if there are fewer points."""
    reached = levels(x, parts)
    size = len(x) // len(reached)
    return Course(levels=reached, size=size, first=len(x) - len(reached) * size)
