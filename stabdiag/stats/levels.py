"""The levels of a series: over stretches of its length, over blocks, and where they jump."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import MAD_TO_SIGMA, SUBSAMPLE_SIZE, median, medians, robust_sigma

# The level beside an event is taken over this many points: their median withstands two outliers.
CONTEXT_POINTS = 5

# This many points in a row are no single outlier: the median of fewer withstands none.
MIN_CONSECUTIVE = 3

# Of each block a tenth at either end is left out: of fewer points than these, none.
_TENTH = 10

# The mean distance from the mean in deviations, for normal noise, as a factor.
_MEAN_TO_SIGMA = float(np.sqrt(np.pi / 2))

# Losses are printed with at most so many decimals. Numbers that are that near to what was printed
# differ by the rounding of binary fractions alone.
_MOST_DIGITS = 6
_PRINTED = 1e-12

# The level's own changes are taken from so many points before a jump, the range that its levels
# span from so many stretches of all of them.
_LATELY = 400
_STRETCHES = 20


def beginning(x: Floats) -> float:
    """Return the level at which a series began, shape (n,), finite, n at least 1, in its unit."""
    # The highest of its first losses: a loss soon falls.
    return float(x[:CONTEXT_POINTS].max())


def levels(x: Floats, stretches: int) -> Floats:
    """Return the medians of equal stretches of a series, in its own unit.

    Args:
        x: shape (n,), finite, n at least 1.
        stretches: how many, at least 1; fewer where there are fewer points.

    Returns:
        Shape (min(stretches, n),). The points that do not fill the stretches evenly are left out at
        the beginning: the end is what counts.
    """
    count = min(stretches, len(x))
    size = len(x) // count
    grid = x[len(x) - count * size :].reshape(count, size)
    return medians(grid[:, :: max(size // SUBSAMPLE_SIZE, 1)])


def block_levels(x: Floats, size: int) -> tuple[Floats, Ints]:
    """Return the levels of blocks of ``size`` points, counted from the end, and their starts.

    Args:
        x: shape (n,), finite, n at least ``size``.
        size: how many points make a block.

    Returns:
        Levels in units of ``x``, and positions, shape (n // size,) each.

    A level is a mean without the lowest and the highest tenth: single spikes do not move it, and a
    loss that bursts ever higher from the same floor does.
    """
    spare, cut = len(x) % size, size // _TENTH
    starts = np.arange(spare, len(x), size)
    blocks = np.sort(x[spare:].reshape(-1, size), axis=1)
    return blocks[:, cut : size - cut].mean(axis=1), starts


def is_trimmed(size: int) -> bool:
    """Tell whether the level of a block of so many points leaves the outermost of them out."""
    return size >= _TENTH


def last_digit(x: Floats) -> float:
    """Return the unit of the last digit that a series was printed with, or 0 if it was not rounded.

    Args:
        x: shape (n,), finite, in its own unit.
    """
    values = x[:: max(len(x) // SUBSAMPLE_SIZE, 1)]
    for digits in range(_MOST_DIGITS + 1):
        scaled = values * 10.0**digits
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) < _PRINTED * np.abs(scaled).max(
            initial=1.0
        ):
            return float(10.0**-digits)
    return 0.0


def pair_means(levels: Floats) -> Floats:
    """Return the mean of each level and the next; the last stands with the one before.

    Args:
        levels: shape (n,), n at least 2, and so is what is returned.
    """
    pairs = (levels[:-1] + levels[1:]) / 2
    return np.append(pairs, pairs[-1])


def level_noise(levels: Floats) -> float:
    """Return the deviation of a level from the line through its neighbours: trends drop out.

    Args:
        levels: shape (n,), n at least 3. Of white noise, the distance from the middle between two
            neighbours has sqrt(3/2) times the deviation of a level.
    """
    bend = levels[1:-1] - (levels[:-2] + levels[2:]) / 2
    return median(np.abs(bend)) * MAD_TO_SIGMA / float(np.sqrt(1.5))


def noise_of_means(x: Floats, size: int, which: slice) -> float:
    """Return the deviation that the mean of two blocks has if their points are independent.

    Args:
        x: shape (n,), finite, n a multiple of ``size``.
        size: how many points make a block.
        which: the blocks whose points are asked how far they lie from the mean of their block.

    Where a loss repeats itself in each epoch, the levels of blocks may be nearly the same by chance
    and then move with the part of an epoch that the last of them holds: their own noise, by
    ``level_noise``, is too small then.
    """
    blocks = x.reshape(-1, size)[which]
    blocks = blocks[:: -(-blocks.size // SUBSAMPLE_SIZE)]
    apart = np.abs(blocks - blocks.mean(axis=1, keepdims=True)).mean()
    return float(apart) * _MEAN_TO_SIGMA / float(np.sqrt(2 * size))


def moving_means(x: Floats, size: int) -> Floats:
    """Return the mean of each ``size`` points in a row: of shape (n,), shape (n - size + 1,)."""
    return np.convolve(x, np.full(size, 1 / size), "valid")


@frozen
class Jump:
    """The levels before and after a place, and how much the level changed between stretches before.

    ``noise`` is the robust deviation of those changes, ``largest`` the largest of them.
    """

    old: float
    new: float
    noise: float
    largest: float

    def exceeds(self, sigmas: float, floor: float) -> bool:
        """Tell whether the level rose by more than its noise, a floor, and twice any change."""
        return self.new - self.old > max(sigmas * self.noise, floor, 2 * self.largest)


def level_jump(before: Floats, after: Floats, width: int) -> Jump | None:
    """Compare the medians of the last and the next ``width`` points.

    Args:
        before: shape (n,), finite; None is returned where n is below four times the width.
        after: at least ``width`` finite points, else None.
        width: how many points make a level.
    """
    if len(before) < 4 * width or len(after) < width:
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
    """Return the jump of the level from the end of one series up to the beginning of the next.

    Args:
        old: shape (n,), finite.
        new: at least ``width`` finite points, else None is returned.
        width: how many points make a level.
        sigmas: minimum jump, in standard deviations of the recent changes of the level.
        min_range_share: minimum jump, as a fraction of the range of the old levels.
    """
    jump = level_jump(old[-_LATELY:], new[:width], width)
    if jump is None:
        return None
    floor = min_range_share * float(np.ptp(levels(old, _STRETCHES)))
    return jump if jump.exceeds(sigmas, floor) else None
