"""What sets those that have something apart from the others: exact tests of many splits.

A split parts n runs into those inside and those outside; K of all runs have what is asked about.
By chance, the number of them inside is hypergeometric (Fisher 1935).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.arrays import Floats, Ints, Mask

# Beyond so many the exact tails of all outcomes of a test cost more than they gain: tests of large
# groups are hardly discrete.
_DISCRETE = 200

# A tail is summed over so many terms; from above its mean on, the rest is nothing.
_TERMS = 2000

# Tails that are equal may differ in their last digits.
_ROUNDING = 1e-9


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
    log = _log_factorials(total)
    k = hits[..., None] + np.arange(min(total_hits, _TERMS) + 1)
    m = size[..., None]
    possible = (k <= total_hits) & (k <= m) & (m - k <= total - total_hits)
    at = np.where(possible, k, 0)
    rest = np.where(possible, m - k, 0)
    chance = (
        log[total_hits] - log[at] - log[total_hits - at]
        + log[total - total_hits] - log[rest] - log[np.maximum(total - total_hits - rest, 0)]
        - log[total] + log[m] + log[total - m]
    )  # fmt: skip
    tail = np.where(possible, np.exp(chance), 0.0).sum(axis=-1)
    return np.where(hits * total > total_hits * size, np.minimum(tail, 1.0), 1.0)


def chance_of(p: Floats, size: Ints, total_hits: int, total: int) -> Floats:
    """Return for each p the chance that any of the splits shows a tail as small, or smaller.

    The chances of the splits are added (Boole's inequality). That of one is not p but the largest
    tail up to p which that split can show at all: a small one can show none, and costs nothing
    (Tarone 1990; Westfall and Wolfinger 1997, the sum instead of their product).

    Args:
        p: shape (h,), tails that were found, of these splits or of others.
        size: shape (s,), how many are inside each split, in one direction each.
        total_hits: K, how many have what is asked about.
        total: n, how many there are.
    """
    if total_hits > _DISCRETE:
        return p * len(size)
    sizes, splits = np.unique(size, return_counts=True)
    hits = np.broadcast_to(np.arange(total_hits + 1), (len(sizes), total_hits + 1))
    tails = upper_tail(hits, np.broadcast_to(sizes[:, None], hits.shape), total_hits, total)
    bounds = p * (1 + _ROUNDING)
    chance = [np.where(tails <= one, tails, 0.0).max(axis=1) @ splits for one in bounds.tolist()]
    return np.asarray(chance, dtype=np.float64)


def chance_in_strata(inside: Mask, has: Mask, stratum: Ints) -> float:
    """Return the chance of at least so many hits inside, if within each stratum all are alike.

    The test of Mantel and Haenszel (1959) in one direction, with their correction for continuity.

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


def _log_factorials(most: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
