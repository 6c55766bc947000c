"""Where two series of the same steps diverge from each other."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import (
    MAD_TO_SIGMA,
    RELATIVE_TOLERANCE,
    SUBSAMPLE_SIZE,
    median,
    medians,
)

# Noise is measured over so many points, since it falls with the loss.
_BLOCK = 100

# Fewer distinct values than this do not show how they were rounded.
_DISTINCT = 20

# Logs that round keep so many digits at most; two values may differ by the last of them, and a bit.
_DIGITS = 7

# bfloat16 has 8 significant bits: the last 16 of a float32 are zero.
_BF16 = 2.0**-8
_LOW_BITS = np.uint32(0xFFFF)


@frozen
class DivergencePoints:
    """Where two series part, as positions; None where they do not.

    ``first`` is the first difference of any size, ``unrounded`` the first that rounding does not
    explain, ``lasting`` the first of those beyond the noise that last, ``largest`` the largest.
    ``noise`` is the deviation of a single value about its trend at ``lasting``, else at ``first``.
    """

    first: int
    unrounded: int | None
    lasting: int | None
    largest: int
    noise: float


def part(
    x: Floats, y: Floats, *, rounding: float, sigmas: float, points: int, coarse: bool = True
) -> DivergencePoints | None:
    """Return where two series of the same steps diverge; None if they are equal to the last bit.

    Args:
        x: shape (n,); NaN equals NaN, and differs from all else without measure.
        y: the same steps.
        rounding: the share of a value that rounding may change.
        sigmas: how many deviations of the noise are more than noise.
        points: a difference lasts if at least half of so many points from it on have it.
        coarse: whether values that were all written with few digits may differ in the last one.
    """
    size = np.abs(x - y)
    size[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
    size[np.isnan(size)] = np.inf
    apart = size > 0
    if not apart.any():
        return None
    scale = np.maximum(np.abs(x), np.abs(y))
    scale[~np.isfinite(scale)] = 0.0
    slack = rounding * scale
    if coarse:
        slack = np.maximum(slack, np.maximum(_unit(x, scale), _unit(y, scale)))
    unrounded = size > slack
    noise = np.sqrt((local_noise(x) ** 2 + local_noise(y) ** 2) / 2)
    first = int(np.argmax(apart))
    beyond = lasting(size > np.maximum(sigmas * noise, slack), points)
    return DivergencePoints(
        first=first,
        unrounded=int(np.argmax(unrounded)) if unrounded.any() else None,
        lasting=beyond,
        largest=int(np.argmax(size)),
        noise=float(noise[first if beyond is None else beyond]),
    )


def lasting(mask: Mask, points: int) -> int | None:
    """Return the first position that is marked, as are at least half of ``points`` from it on.

    The mask has the shape (n,); None where there is no such position. Near the end fewer points
    will do, but no fewer than three.
    """
    count = np.concatenate(([0], np.cumsum(mask)))
    ends = np.minimum(np.arange(len(mask)) + points, len(mask))
    marked = count[ends] - count[:-1]
    wanted = np.maximum((ends - np.arange(len(mask)) + 1) // 2, 3)
    found = np.flatnonzero(mask & (marked >= wanted))
    return int(found[0]) if len(found) else None


def local_noise(x: Floats) -> Floats:
    """Return the deviation of single values about their local trend, in the unit of ``x``.

    Args:
        x: shape (n,); what is not finite is left out.

    Returns:
        Shape (n,), constant over blocks of some hundred points; 0 where fewer than three are
        finite.

    It is the median absolute second difference of each block, which a slope leaves alone: of white
    noise, its deviation is sqrt(3/2) times that of the values. The median keeps spikes out
    (Hampel 1974, doi:10.1080/01621459.1974.10482962).
    """
    good = np.flatnonzero(np.isfinite(x))
    if len(good) < 3:
        return np.zeros(len(x))
    z = x[good]
    bend = np.abs(z[1:-1] - (z[:-2] / 2 + z[2:] / 2))
    whole = max(len(bend) // _BLOCK, 1)
    size = len(bend) // whole
    grid = bend[: whole * size].reshape(whole, size)
    middle = medians(grid)
    # Of values that were written with few digits most may be the same: then the mean tells.
    middle = np.where(middle > 0, middle, grid.mean(axis=1))
    sigma = MAD_TO_SIGMA / np.sqrt(1.5) * middle
    at = np.minimum(np.arange(len(z)) // size, whole - 1)
    out: Floats = sigma[at[np.clip(np.searchsorted(good, np.arange(len(x))), 0, len(z) - 1)]]
    return out


def wander(x: Floats, size: int) -> float:
    """Return how much the mean of ``size`` points changes from one stretch to the next.

    Args:
        x: shape (n,), finite.
        size: how many points make a stretch.

    Returns:
        The deviation of such a mean, in the unit of ``x``; 0 for fewer than three stretches. Unlike
        ``local_noise`` it sees how a series wanders that was smoothed before it was logged; a
        single jump changes it little, as it is a median.
    """
    whole = len(x) // size
    if whole < 3:
        return 0.0
    means = x[: whole * size].reshape(whole, size).mean(axis=1)
    return MAD_TO_SIGMA * median(np.abs(np.diff(means))) / float(np.sqrt(2))


def _sample(x: Floats) -> Floats | None:
    """Return some of the finite values; None where too few of them are distinct."""
    finite = x[np.isfinite(x)]
    some = np.unique(finite[:: max(len(finite) // SUBSAMPLE_SIZE, 1)])
    return some if len(some) >= _DISTINCT else None


def _unit(x: Floats, scale: Floats) -> Floats:
    """Return by how much values of these sizes may differ for the way in which ``x`` was written.

    That is the unit of the last decimal or of the last significant digit that all values have, or
    the distance of two numbers in bfloat16; 0 where too few values tell.
    """
    some = _sample(x)
    if some is None:
        return np.zeros(len(scale))
    single = some.astype(np.float32)
    if np.all(single == some) and not np.any(single.view(np.uint32) & _LOW_BITS):
        return _BF16 * scale
    for decimals in range(_DIGITS):
        if _are_round(some * 10.0**decimals):
            return np.full(len(scale), (1 + RELATIVE_TOLERANCE) * 10.0**-decimals)
    first = _first_digit(some)
    for digits in range(_DIGITS):
        if _are_round(some * 10.0 ** (digits - first)):
            return np.asarray((1 + RELATIVE_TOLERANCE) * 10.0 ** (_first_digit(scale) - digits))
    return np.zeros(len(scale))


def _first_digit(x: Floats) -> Floats:
    """Return the power of ten of each value's first digit."""
    size = np.abs(x)
    return np.floor(np.log10(size, out=np.zeros(len(x)), where=size > 0))


def _are_round(x: Floats) -> bool:
    return bool(np.all(np.abs(x - np.round(x)) <= 1e-9 * np.maximum(np.abs(x), 1.0)))
