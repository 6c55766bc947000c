"""Which points of a long series a page keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stabdiag.model.arrays import Floats, Ints, Mask


MOST = 8000
"""A series of more points than this is thinned to about so many: three to a pixel."""

_AROUND = 250
_MOST_STRETCHES = 1000


def kept(values: Floats, places: Iterable[int], most: int = MOST) -> Ints:
    """Return the positions of the points to keep, rising.

    Of a long series these are the lowest and the highest of each of ``most / 2`` stretches, so that
    a spike of one step is not lost; all points around the ``places``; both ends; and the ends of
    what is not finite.
    """
    n = len(values)
    if n <= most:
        return np.arange(n)
    # The downsampler itself may pass over the last point, which in a failed run matters most.
    parts = [np.array([0, n - 1]), _extremes(values, most)]
    parts += [ends[:_MOST_STRETCHES] for ends in stretches(~np.isfinite(values))]
    parts += [np.arange(max(at - _AROUND, 0), min(at + _AROUND + 1, n)) for at in places]
    return np.unique(np.concatenate(parts))


def stretches(mask: Mask) -> tuple[Ints, Ints]:
    """Return the first and the last position of each stretch in which the mask holds."""
    edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


def _extremes(values: Floats, most: int) -> Ints:
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= most:
        return finite
    from tsdownsample import MinMaxDownsampler

    extremes = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    at: Ints = extremes.downsample(values[finite], n_out=most // 2 * 2)  # two of each stretch
    return finite[at]
