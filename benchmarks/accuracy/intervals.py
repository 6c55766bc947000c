"""How far a share or a rate could be off: 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

Z = 1.959964  # the normal distribution's 97.5 % point
RESAMPLES = 10_000


def wilson(hits: int, runs: int) -> tuple[float, float]:
    """The interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""
    share, square = hits / runs, Z * Z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    half = Z / (1 + square / runs) * sqrt(share * (1 - share) / runs + square / (4 * runs**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def rate(counts: Sequence[int], steps: Sequence[int]) -> tuple[float, float]:
    """The interval of counts per step, by drawing the units again (percentile bootstrap).

    Where nothing was counted there is nothing to draw: then up to what would stay without a count
    in one case of forty (Poisson, exact).
    """
    count, length = np.array(counts), np.array(steps)
    if not count.any():
        return 0.0, -log(0.025) / float(length.sum())
    random = np.random.default_rng(1927)
    drawn = random.integers(len(count), size=(RESAMPLES, len(count)))
    rates = count[drawn].sum(-1) / length[drawn].sum(-1)
    low, high = np.quantile(rates, (0.025, 0.975))
    return float(low), float(high)
