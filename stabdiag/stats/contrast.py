"""What sets those that have something apart from the others: exact tests of many splits.

A split parts n runs into those inside and those outside; K of all runs have what is asked about.
By chance, the number of them inside is hypergeometric (Fisher 1935, doi:10.2307/2342435).
"""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.stats.quantiles import RELATIVE_EPS

# Beyond so many outcomes a test is hardly discrete, and what is left of a small tail is nothing.
_OUTCOMES = 1000


def upper_tail(hits: Ints, size: Ints, total_hits: int, total: int) -> Floats:
    """Return the chance of at least so many hits inside each split, if all splits are alike.

    It is the upper tail of the hypergeometric distribution, Fisher's exact test in one direction
    (Fisher 1935); 1 for no more hits than are to be expected.

    Args:
        hits: any shape, how many of those inside have it.
        size: the same shape, how many are inside.
        total_hits: K, how many have it.
        total: n, how many there are.
    """
    k = hits[..., None] + np.arange(min(total_hits, _OUTCOMES) + 1)
    tail = _chances(k, size[..., None], total_hits, total).sum(axis=-1)
    return np.where(hits * total > total_hits * size, np.minimum(tail, 1.0), 1.0)


def chance_of(p: Floats, size: Ints, total_hits: int, total: int) -> Floats:
    """Return for each p the chance that any of the splits shows a tail as small, or smaller.

    The chances of the splits are added (Boole's inequality). That of one is not p but the largest
    tail up to p which that split can show at all: a small one can show none, and costs nothing
    (Tarone 1990, doi:10.2307/2531456; Westfall and Wolfinger 1997,
    doi:10.1080/00031305.1997.10473577, whose tests are independent and ours need not be). Where
    many have it, tails are hardly discrete and p is taken for them.

    Args:
        p: shape (h,), tails that were found, of these splits or of others.
        size: shape (s,), how many are inside each split, in one direction each.
        total_hits: K, how many have what is asked about.
        total: n, how many there are.
    """
    if total_hits > _OUTCOMES:
        return p * len(size)
    sizes, splits = np.unique(size, return_counts=True)
    chances = _chances(np.arange(total_hits + 1)[None], sizes[:, None], total_hits, total)
    tails = chances[:, ::-1].cumsum(axis=1)
    # Tails that are equal may differ in their last digits.
    bounds = p * (1 + RELATIVE_EPS)
    chance = [np.where(tails <= one, tails, 0.0).max(axis=1) @ splits for one in bounds.tolist()]
    return np.asarray(chance, dtype=np.float64)


def chance_in_strata(inside: Mask, has: Mask, stratum: Ints) -> float:
    """Return the chance of at least so many hits inside, if within each stratum all are alike.

    The test of Mantel and Haenszel (1959, doi:10.1093/jnci/22.4.719) in one direction, with their
    correction for continuity.

    Args:
        inside: shape (n,), which are inside the split.
        has: shape (n,), which have what is asked about.
        stratum: shape (n,), the number of the stratum of each, from 0.
    """
    total = np.bincount(stratum).astype(np.float64)
    within = np.bincount(stratum, inside).astype(np.float64)
    hits = np.bincount(stratum, has).astype(np.float64)
    safe, less = np.maximum(total, 1), np.maximum(total - 1, 1)
    variance = (within * (total - within) * hits * (total - hits) / (safe**2 * less)).sum()
    if variance <= 0:
        return 1.0
    above = (inside & has).sum() - (within * hits / safe).sum()
    return math.erfc((above - 0.5) / math.sqrt(2 * variance)) / 2


def _chances(k: Ints, size: Ints, total_hits: int, total: int) -> Floats:
    """Return the chance of exactly k hits among so many, of any shapes that go together."""
    log = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    possible = (k <= total_hits) & (k <= size) & (size - k <= total - total_hits)
    hits, rest = np.where(possible, k, 0), np.where(possible, size - k, 0)
    chance = (
        log[total_hits] - log[hits] - log[total_hits - hits]
        + log[total - total_hits] - log[rest] - log[total - total_hits - rest]
        - log[total] + log[size] + log[total - size]
    )  # fmt: skip
    return np.where(possible, np.exp(chance), 0.0)
