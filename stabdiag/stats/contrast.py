"""Exact tests of many splits: is a property more frequent on one side of a split?

A split divides n runs into inside and outside; K of the n runs have the property (hits).
By chance, the number of hits inside is hypergeometric (Fisher 1935, doi:10.2307/2342435).
"""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.stats.standards import RELATIVE_EPS

# With more outcomes, a test is almost continuous and the remainder of a small tail is negligible.
_OUTCOMES = 1000


def upper_tail(hits: Ints, size: Ints, total_hits: int, total: int) -> Floats:
    """Return the probability of at least ``hits`` hits inside each split by chance.

    This is the upper tail of the hypergeometric distribution, the one-sided exact test of Fisher
    (1935); 1 for at most the expected number of hits.

    Args:
        hits: any shape, the number of hits inside.
        size: the same shape, the number of runs inside.
        total_hits: K, the number of hits.
        total: n, the number of runs.
    """
    k = hits[..., None] + np.arange(min(total_hits, _OUTCOMES) + 1)
    tail = _chances(k, size[..., None], total_hits, total).sum(axis=-1)
    return np.where(hits * total > total_hits * size, np.minimum(tail, 1.0), 1.0)


def split_chance(p: Floats, size: Ints, total_hits: int, total: int) -> Floats:
    """Return for each p the probability that any split shows a tail of at most p.

    The probabilities of the splits are added (Boole's inequality). A split contributes not p but
    the largest tail up to p that it can attain: small splits attain none and cost nothing (Tarone
    1990, doi:10.2307/2531456; Westfall and Wolfinger 1997, doi:10.1080/00031305.1997.10473577,
    who assume independent tests; here they may depend on each other). With many hits, tails are
    almost continuous and p is used.

    Args:
        p: shape (h,), tails of these or other splits.
        size: shape (s,), the number of runs inside each split, in one direction each.
        total_hits: K, the number of hits.
        total: n, the number of runs.
    """
    if total_hits > _OUTCOMES:
        return p * len(size)
    sizes, splits = np.unique(size, return_counts=True)
    chances = _chances(np.arange(total_hits + 1)[None], sizes[:, None], total_hits, total)
    tails = chances[:, ::-1].cumsum(axis=1)
    # Equal tails may differ in their last digits.
    bounds = p * (1 + RELATIVE_EPS)
    chance = [
        np.where(tails <= bound, tails, 0.0).max(axis=1) @ splits for bound in bounds.tolist()
    ]
    return np.asarray(chance, dtype=np.float64)


def chance_in_strata(inside: Mask, has: Mask, stratum: Ints) -> float:
    """Return the probability of at least as many hits inside by chance, within strata.

    The one-sided test of Mantel and Haenszel (1959, doi:10.1093/jnci/22.4.719) with their
    continuity correction.

    Args:
        inside: shape (n,), the runs inside the split.
        has: shape (n,), the hits.
        stratum: shape (n,), the index of each run's stratum, from 0.
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
    """Return the probability of exactly k hits among ``size`` runs; shapes are broadcast."""
    log = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    possible = (k <= total_hits) & (k <= size) & (size - k <= total - total_hits)
    hits, misses = np.where(possible, k, 0), np.where(possible, size - k, 0)
    chance = (
        log[total_hits] - log[hits] - log[total_hits - hits]
        + log[total - total_hits] - log[misses] - log[total - total_hits - misses]
        - log[total] + log[size] + log[total - size]
    )  # fmt: skip
    return np.where(possible, np.exp(chance), 0.0)
