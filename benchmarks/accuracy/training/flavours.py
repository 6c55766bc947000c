"""How hard each batch is: the shape of a healthy run's noise comes from its data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def plain(number: int, seed: int, steps: int) -> float:
    """All batches are alike."""
    return 0.0


def hard(number: int, seed: int, steps: int) -> float:
    """One batch in 30 is harder: skewed noise."""
    return float(np.random.default_rng((seed, number, 1)).random() < 1 / 30)


def sparse(number: int, seed: int, steps: int) -> float:
    """Harder batches in 0.5 to 3 % of the steps, depending on the seed."""
    rate = np.random.default_rng((seed, 3)).uniform(0.005, 0.03)
    return float(np.random.default_rng((seed, number, 1)).random() < rate)


def tails(number: int, seed: int, steps: int) -> float:
    """A batch's difficulty has a heavy tail."""
    return min(8.0, 0.3 * float(np.random.default_rng((seed, number, 1)).pareto(2.0)))


def wave(number: int, seed: int, steps: int) -> float:
    """Sorted data: difficulty wanders over tens of batches, so that the noise is autocorrelated."""
    angle = 2 * math.pi * number
    return 0.4 + 0.25 * math.sin(angle / 37 + seed) + 0.2 * math.sin(angle / 91.3)


def blocks(number: int, seed: int, steps: int) -> float:
    """Shards of 60 batches, each of its own difficulty."""
    return float(np.random.default_rng((seed, number // 60, 2)).random()) * 0.6


def curriculum(number: int, seed: int, steps: int) -> float:
    """Easy data first; harder data from a tenth of the run to its half."""
    return 0.12 * min(1.0, max(0.0, (number / max(1, steps) - 0.1) / 0.4))


FLAVOURS: dict[str, Callable[[int, int, int], float]] = {
    "plain": plain,
    "hard": hard,
    "sparse": sparse,
    "tails": tails,
    "wave": wave,
    "blocks": blocks,
    "curriculum": curriculum,
    "epochs": hard,
}
