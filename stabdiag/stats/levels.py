"""The levels of a series over equal parts and blocks, and jumps between levels."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, medians, power_of_ten, robust_sigma
from stabdiag.stats.standards import MAX_TREND_POINTS, QUARTERS, SUBSAMPLE_SIZE, TENTHS, TWENTIETHS

# A level is the median of about this many points at most: its error is 3 % of the deviation of one
# value, and the levels of a long series take a fraction of the time.
MAX_LEVEL_POINTS = SUBSAMPLE_SIZE // TENTHS

# The standard deviation of normal noise divided by its mean absolute deviation.
MEAN_TO_SIGMA = float(np.sqrt(np.pi / 2))

# The standard deviation of white noise over the median distance from the midpoint of two neighbors,
# which has sqrt(3/2) times the deviation of a value.
BEND_TO_SIGMA = MAD_TO_SIGMA / float(np.sqrt(1.5))

# Losses are printed with at most this many decimals. A number within _PRINTED of a decimal differs
# from it only by the rounding of binary fractions.
MOST_DIGITS = 6
_PRINTED = 1e-12


def levels(x: Floats, stretches: int) -> Floats:
    """Return the medians of equal parts of a series, in its own unit.

    Args:
        x: shape (n,), finite, n at least 1.
        stretches: the number of parts, at least 1; fewer if there are fewer points.

    Returns:
        Shape (min(stretches, n),). Points that do not fill the parts evenly are dropped at the
        beginning, because the end matters more. A long part is subsampled evenly.
    """
    count = min(stretches, len(x))
    size = len(x) // count
    grid = x[len(x) - count * size :].reshape(count, size)
    return medians(grid[:, :: max(size // MAX_LEVEL_POINTS, 1)])


def block_levels(x: Floats, size: int) -> tuple[Floats, Ints]:
    """Return the levels of blocks of ``size`` points, counted from the end, and their starts.

    Args:
        x: shape (n,), finite, n at least ``size``.
        size: the number of points in a block.

    Returns:
        Levels in units of ``x``, and positions, shape (n // size,) each.

    A level is a trimmed mean without the lowest and the highest tenth, if there are ten
    points or more. Single spikes do not change it, but ever higher bursts from a constant floor do.
    """
    spare, cut = len(x) % size, size // TENTHS
    starts = np.arange(spare, len(x), size)
    blocks = np.sort(x[spare:].reshape(-1, size), axis=1)
    return blocks[:, cut : size - cut].mean(axis=1), starts


def is_trimmed(size: int) -> bool:
    """Return True if the level of a block of ``size`` points is a trimmed mean."""
    return size >= TENTHS


def last_digit(x: Floats) -> float:
    """Return the unit of the last printed digit of a series, or 0 if it was not rounded.

    Args:
        x: shape (n,), finite, in its own unit.
    """
    values = x[:: max(len(x) // SUBSAMPLE_SIZE, 1)]
    for digits in range(MOST_DIGITS + 1):
        scaled = values * power_of_ten(digits)
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) < _PRINTED * np.abs(scaled).max(
            initial=1.0
        ):
            return float(power_of_ten(-digits))
    return 0.0


def pair_means(levels: Floats) -> Floats:
    """Return the mean of each level and the next; the last level uses the one before it.

    Args:
        levels: shape (n,), n at least 2.

    Returns:
        Shape (n,).
    """
    pairs = (levels[:-1] + levels[1:]) / 2
    return np.append(pairs, pairs[-1])


def level_noise(levels: Floats) -> float:
    """Return the deviation of a level from the line through its neighbors, which cancels trends.

    Args:
        levels: shape (n,), n at least 3. With white noise, the distance from the midpoint of two
            neighbors has sqrt(3/2) times the deviation of a level.
    """
    bend = levels[1:-1] - (levels[:-2] + levels[2:]) / 2
    return median(np.abs(bend)) * BEND_TO_SIGMA


def noise_of_means(x: Floats, size: int, which: slice) -> float:
    """Return the standard deviation of the mean of two blocks if their points are independent.

    Args:
        x: shape (n,), finite, n a multiple of ``size``.
        size: the number of points in a block.
        which: the blocks over which the deviation from the block mean is measured.

    If a loss repeats its pattern in each epoch, the levels of blocks may be almost equal by chance
    and then change with the part of an epoch in the last block. ``level_noise`` is too small then.
    """
    blocks = x.reshape(-1, size)[which]
    blocks = blocks[:: -(-blocks.size // SUBSAMPLE_SIZE)]
    deviation = np.abs(blocks - blocks.mean(axis=1, keepdims=True)).mean()
    return float(deviation) * MEAN_TO_SIGMA / float(np.sqrt(2 * size))


def moving_means(x: Floats, size: int) -> Floats:
    """Return the mean of each ``size`` consecutive points of ``x``: shape (n - size + 1,)."""
    return np.convolve(x, np.full(size, 1 / size), "valid")


@frozen
class Jump:
    """The levels before and after a position, compared with earlier changes of the level.

    ``noise`` is the robust deviation of the earlier changes, ``largest`` the largest of them.
    """

    old: float
    new: float
    noise: float
    largest: float

    def exceeds(self, sigmas: float, floor: float) -> bool:
        """Return True if the level rose by more than its noise, a floor and twice any change."""
        return self.new - self.old > max(sigmas * self.noise, floor, 2 * self.largest)


def level_jump(before: Floats, after: Floats, width: int) -> Jump | None:
    """Compare the medians of the last and the next ``width`` points.

    Args:
        before: shape (n,), finite; None is returned if n is below four times the width.
        after: at least ``width`` finite points, else None is returned.
        width: the number of points that define a level.
    """
    if len(before) < QUARTERS * width or len(after) < width:
        return None
    steps = np.diff(levels(before, len(before) // width))
    return Jump(
        old=median(before[-width:]),
        new=median(after[:width]),
        noise=robust_sigma(steps),
        largest=float(np.abs(steps).max()),
    )


def jump_up(
    old: Floats, new: Floats, width: int, *, sigmas: float, min_range_share: float
) -> Jump | None:
    """Return the upward jump of the level from the end of one series to the start of the next.

    Args:
        old: shape (n,), finite.
        new: at least ``width`` finite points, else None is returned.
        width: the number of points that define a level.
        sigmas: minimum jump, in standard deviations of the recent changes of the level.
        min_range_share: minimum jump, as a fraction of the range of the old levels.
    """
    jump = level_jump(old[-MAX_TREND_POINTS:], new[:width], width)
    if jump is None:
        return None
    floor = min_range_share * float(np.ptp(levels(old, TWENTIETHS)))
    return jump if jump.exceeds(sigmas, floor) else None
