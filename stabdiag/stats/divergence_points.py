"""Where two series of the same steps diverge from each other."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.unique import unique_values
from stabdiag.stats.levels import BEND_TO_SIGMA
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, medians, power_of_ten
from stabdiag.stats.standards import (
    MIN_CONSECUTIVE,
    RELATIVE_EPS,
    RELATIVE_TOLERANCE,
    SUBSAMPLE_SIZE,
)

# Noise is measured over blocks of this many points, since it falls with the loss.
_NOISE_BLOCK = 100

# Fewer distinct values than this do not show how they were rounded.
_DISTINCT = 20

# Rounding logs keep at most this many digits; two values may differ by slightly more than the last.
_MAX_LOG_DIGITS = 7

# bfloat16 has 8 significant bits: the last 16 of a float32 are zero.
_BF16 = 2.0**-8
_LOW_BITS = np.uint32(0xFFFF)


@frozen
class DivergencePoints:
    """The positions where two series diverge, or None.

    ``first`` is the first difference of any size, ``unrounded`` the first one that rounding does
    not explain, ``lasting`` the first lasting difference beyond the noise, ``largest`` the largest.
    ``noise`` is the deviation of a single value about its trend at ``lasting``, else at ``first``.
    """

    first: int
    unrounded: int | None
    lasting: int | None
    largest: int
    noise: float


def find_divergence_points(
    x: Floats, y: Floats, *, rounding: float, sigmas: float, points: int, coarse: bool = True
) -> DivergencePoints | None:
    """Return the positions where two series of the same steps diverge; None if they are identical.

    Args:
        x: shape (n,); NaN equals NaN and differs infinitely from any other value.
        y: the values of the other series at the same steps.
        rounding: the maximum relative difference due to rounding.
        sigmas: the minimum difference beyond the noise, in standard deviations.
        points: a difference lasts if at least half of this many points from it on have it.
        coarse: whether values written with few digits may differ in their last digit.
    """
    size = np.abs(x - y)
    size[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
    size[np.isnan(size)] = np.inf
    differs = size > 0
    if not differs.any():
        return None
    scale = np.maximum(np.abs(x), np.abs(y))
    scale[~np.isfinite(scale)] = 0.0
    slack = rounding * scale
    if coarse:
        slack = np.maximum(slack, np.maximum(_unit(x, scale), _unit(y, scale)))
    unrounded = size > slack
    noise = np.sqrt((local_noise(x) ** 2 + local_noise(y) ** 2) / 2)
    first = int(np.argmax(differs))
    beyond = lasting(size > np.maximum(sigmas * noise, slack), points)
    return DivergencePoints(
        first=first,
        unrounded=int(np.argmax(unrounded)) if unrounded.any() else None,
        lasting=beyond,
        largest=int(np.argmax(size)),
        noise=float(noise[first if beyond is None else beyond]),
    )


def lasting(mask: Mask, points: int) -> int | None:
    """Return the first position that begins ``points`` points, at least half of them marked.

    The position itself has to be marked in the mask, shape (n,). Near the end of the series fewer
    marked points suffice, but at least three. Return None if there is no such position.
    """
    count = np.concatenate(([0], np.cumsum(mask)))
    ends = np.minimum(np.arange(len(mask)) + points, len(mask))
    marked = count[ends] - count[:-1]
    required = np.maximum((ends - np.arange(len(mask)) + 1) // 2, MIN_CONSECUTIVE)
    positions = np.flatnonzero(mask & (marked >= required))
    return int(positions[0]) if len(positions) else None


def local_noise(x: Floats) -> Floats:
    """Return the deviation of single values about their local trend, in the unit of ``x``.

    Args:
        x: shape (n,); values that are not finite are ignored.

    Returns:
        Shape (n,), constant over blocks of about a hundred points; 0 if fewer than three values are
        finite.

    The estimate is the median absolute second difference of each block, which cancels slopes. For
    white noise, a second difference has sqrt(3/2) times the deviation of a value. The median
    ignores spikes (Hampel 1974, doi:10.1080/01621459.1974.10482962).
    """
    good = np.flatnonzero(np.isfinite(x))
    if len(good) < MIN_CONSECUTIVE:
        return np.zeros(len(x))
    z = x[good]
    bend = np.abs(z[1:-1] - (z[:-2] / 2 + z[2:] / 2))
    blocks = max(len(bend) // _NOISE_BLOCK, 1)
    size = len(bend) // blocks
    grid = bend[: blocks * size].reshape(blocks, size)
    middle = medians(grid)
    # Most values may be equal if they were written with few digits: then use the mean.
    middle = np.where(middle > 0, middle, grid.mean(axis=1))
    sigma = BEND_TO_SIGMA * middle
    at = np.minimum(np.arange(len(z)) // size, blocks - 1)
    out: Floats = sigma[at[np.clip(np.searchsorted(good, np.arange(len(x))), 0, len(z) - 1)]]
    return out


def wander(x: Floats, size: int) -> float:
    """Return the deviation of the mean of ``size`` points between successive stretches.

    Args:
        x: shape (n,), finite.
        size: the number of points in a stretch.

    Returns:
        The deviation in the unit of ``x``; 0 for fewer than three stretches. Unlike
        ``local_noise``, it includes the slow drift of a series that was smoothed before logging.
        It is a median, so a single jump hardly changes it.
    """
    count = len(x) // size
    if count < MIN_CONSECUTIVE:
        return 0.0
    means = x[: count * size].reshape(count, size).mean(axis=1)
    return MAD_TO_SIGMA * median(np.abs(np.diff(means))) / float(np.sqrt(2))


def _sample(x: Floats) -> Floats | None:
    """Return a sample of distinct finite values, or None if there are too few."""
    finite = x[np.isfinite(x)]
    sample = unique_values(finite[:: max(len(finite) // SUBSAMPLE_SIZE, 1)])
    return sample if len(sample) >= _DISTINCT else None


def _unit(x: Floats, scale: Floats) -> Floats:
    """Return the resolution of the format of ``x`` at values of these magnitudes.

    This is the unit of the last decimal or significant digit that all values share, or the spacing
    of bfloat16; 0 if there are too few values to determine it.
    """
    sample = _sample(x)
    if sample is None:
        return np.zeros(len(scale))
    single = sample.astype(np.float32)
    if np.all(single == sample) and not np.any(single.view(np.uint32) & _LOW_BITS):
        return _BF16 * scale
    for decimals in range(_MAX_LOG_DIGITS):
        if _are_round(sample * power_of_ten(decimals)):
            return np.full(len(scale), (1 + RELATIVE_TOLERANCE) * power_of_ten(-decimals))
    first = _first_digit(sample)
    for digits in range(_MAX_LOG_DIGITS):
        if _are_round(sample * power_of_ten(digits - first)):
            return np.asarray((1 + RELATIVE_TOLERANCE) * power_of_ten(_first_digit(scale) - digits))
    return np.zeros(len(scale))


def _first_digit(x: Floats) -> Floats:
    """Return the power of ten of each value's first digit."""
    size = np.abs(x)
    return np.floor(np.log10(size, out=np.zeros(len(x)), where=size > 0))


def _are_round(x: Floats) -> bool:
    return bool(np.all(np.abs(x - np.round(x)) <= RELATIVE_EPS * np.maximum(np.abs(x), 1.0)))
