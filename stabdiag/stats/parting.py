"""Where two series of the same steps part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import medians
from stabdiag.stats.rolling import MAD_TO_SIGMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# Noise is measured over so many points, since it falls with the loss.
_BLOCK = 100

# Fewer distinct values than this do not show how they were rounded. So many are looked at.
_DISTINCT = 20
_SAMPLE = 1000
_DECIMALS = 7

# bfloat16 has 8 significant bits: the last 16 of a float32 are zero.
_BF16 = 2.0**-8
_LOW_BITS = np.uint32(0xFFFF)


@dataclass(frozen=True, kw_only=True)
class Parted:
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
) -> Parted | None:
    """Tell where two series of the same steps part; None where they are equal to the last bit.

    Args:
        x: shape (n,); NaN equals NaN, and differs from all else without measure.
        y: the same steps.
        rounding: the share of a value that rounding may change.
        sigmas: how many deviations of the noise are more than noise.
        points: a difference lasts if at least half of so many points from it on have it.
        coarse: whether values that were all written with few digits may differ in the last one.
    """
    with np.errstate(invalid="ignore"):
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
        slack = np.maximum(
            max(rounding, _share(x), _share(y)) * scale, 1.01 * max(_grain(x), _grain(y))
        )
    unrounded = size > slack
    noise = np.sqrt((local_noise(x) ** 2 + local_noise(y) ** 2) / 2)
    first = int(np.argmax(apart))
    beyond = lasting(size > np.maximum(sigmas * noise, slack), points)
    return Parted(
        first=first,
        unrounded=int(np.argmax(unrounded)) if unrounded.any() else None,
        lasting=beyond,
        largest=int(np.argmax(size)),
        noise=float(noise[first if beyond is None else beyond]),
    )


def lasting(mask: Mask, points: int) -> int | None:
    """Return the first position that is marked, as are at least half of ``points`` from it on.

    Near the end fewer points will do, but no fewer than three.
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
    middle = medians(bend[: whole * size].reshape(whole, size))
    sigma = MAD_TO_SIGMA / np.sqrt(1.5) * middle
    at = np.minimum(np.arange(len(z)) // size, whole - 1)
    out: Floats = sigma[at[np.clip(np.searchsorted(good, np.arange(len(x))), 0, len(z) - 1)]]
    return out


def _sample(x: Floats) -> Floats | None:
    """Return some of the finite values; None where too few of them are distinct."""
    finite = x[np.isfinite(x)]
    some = np.unique(finite[:: max(len(finite) // _SAMPLE, 1)])
    return some if len(some) >= _DISTINCT else None


def _grain(x: Floats) -> float:
    """Return the unit of the last decimal in which all values were written, or 0."""
    some = _sample(x)
    if some is None:
        return 0.0
    for decimals in range(_DECIMALS):
        if np.all(np.abs(some - np.round(some, decimals)) <= 1e-9 * np.abs(some)):
            return float(10.0**-decimals)
    return 0.0


def _share(x: Floats) -> float:
    """Return the share of a value by which those that bfloat16 held lie apart, or 0."""
    some = _sample(x)
    if some is None:
        return 0.0
    single = some.astype(np.float32)
    held = np.all(single == some) and not np.any(single.view(np.uint32) & _LOW_BITS)
    return _BF16 if held else 0.0
