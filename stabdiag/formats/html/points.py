"""The points of a series that a chart draws."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask

MAX_CHART_POINTS = 8000
"""A longer series is thinned to about this number of points: three per pixel."""

_CONTEXT_POINTS = 250

MAX_STRETCHES = 500
"""The maximum number of non-finite stretches whose ends are kept."""


def look_up_values(steps: Ints, logged: Ints, values: Floats) -> Floats:
    """Return the values at some steps, NaN if there is none."""
    if not len(logged):
        return np.full(len(steps), np.nan)
    indices = np.minimum(np.searchsorted(logged, steps), len(logged) - 1)
    return np.where(logged[indices] == steps, values[indices], np.nan)


def select_points(
    values: Floats, centers: Iterable[int], max_points: int = MAX_CHART_POINTS
) -> Ints:
    """Return the positions of the points to keep, in order.

    A long series keeps the lowest and the highest point of each of ``max_points / 2`` stretches,
    which saves single-step spikes; all points around the ``centers``; both ends; and the ends of
    non-finite stretches.
    """
    n = len(values)
    if n <= max_points:
        return np.arange(n)
    # The downsampler may skip the last point, which matters most in a failed run.
    parts = [np.array([0, n - 1]), _extremes(values, max_points)]
    parts += [ends[:MAX_STRETCHES] for ends in stretches(~np.isfinite(values))]
    parts += [
        np.arange(max(at - _CONTEXT_POINTS, 0), min(at + _CONTEXT_POINTS + 1, n)) for at in centers
    ]
    return np.unique(np.concatenate(parts))


def stretches(mask: Mask) -> tuple[Ints, Ints]:
    """Return the first and the last position of each stretch where the mask is True."""
    edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


def _extremes(values: Floats, max_points: int) -> Ints:
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= max_points:
        return finite
    from tsdownsample import MinMaxDownsampler

    extremes = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    indices: Ints = extremes.downsample(
        values[finite], n_out=max_points // 2 * 2
    )  # two per stretch
    return finite[indices]
