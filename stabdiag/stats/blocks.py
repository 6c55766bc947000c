"""The levels of a loss: means over blocks of its points, and how much these vary by noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import MAD_TO_SIGMA, median

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints

# Of each block a tenth at either end is left out: of fewer points than these, none.
_TENTH = 10

# The mean distance from the mean in deviations, for normal noise, as a factor; so many points are
# enough to know it by.
_MEAN_TO_SIGMA = float(np.sqrt(np.pi / 2))
_ENOUGH = 100_000

# So many levels before a rise are enough to know their noise by.
CALM_LEVELS = 8


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
    blocks = blocks[:: -(-blocks.size // _ENOUGH)]
    apart = np.abs(blocks - blocks.mean(axis=1, keepdims=True)).mean()
    return float(apart) * _MEAN_TO_SIGMA / float(np.sqrt(2 * size))


def moving_means(x: Floats, size: int) -> Floats:
    """Return the mean of each ``size`` points in a row: of shape (n,), shape (n - size + 1,)."""
    return np.convolve(x, np.full(size, 1 / size), "valid")
