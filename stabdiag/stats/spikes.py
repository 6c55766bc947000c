"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import Baseline, baseline, median_before
from stabdiag.stats.shape import Reach, Spike, describe
from stabdiag.stats.tails import UpperTail, medians_tail, noise_tail, upper_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Points this far out that lie within so many points of one another are one excursion.
_FAR_OUT = 2.5
_APART = 5
_FEW_EVENTS = 3

# A shift is looked for in the medians of so many points.
_LASTING = (5, 10)

# So many points may lie in one shift and must not shape the tail that it is judged by.
_SHIFTED_POINTS = 128

# The tail of medians is taken from no more than about so many of them.
_SAMPLE = 50_000

# A shift that lasts counts from this many deviations on.
_LEAST_SHIFT = 2.0


@dataclass(frozen=True, kw_only=True)
class SpikeScan:
    """All spikes of a log, the limit that the scores were held against and the largest of them."""

    spikes: tuple[Spike, ...]
    limit: float
    largest: float
    largest_at: int
    tested: int


def find_spikes(
    x: Floats,
    reach: Reach,
    sigmas: float,
    false_alarm: float,
    least_height: float,
    atypical: NDArray[np.bool_] | None = None,
    suspect: NDArray[np.bool_] | None = None,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: a spike's peak lies more than so many deviations above the mean of its window.
        false_alarm: the chance that noise alone gives one spike anywhere in the log.
        least_height: rises below this, in units of ``x``, are passed over.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.
        suspect: points, shape (n,), where a spike is to be expected.

    A point is too high if its distance from the baseline, in deviations, lies beyond the
    family-wise limit of this run's own scores; a stretch if the median of the next few points
    does, so that a small but lasting shift is found as well.
    """
    n, first = len(x), reach.least
    if n <= first + 1:
        return SpikeScan(spikes=(), limit=np.inf, largest=0.0, largest_at=0, tested=0)
    base = baseline(x, reach.window)
    scores = ((x - base.level) / base.sigma)[first:]
    chance = min(false_alarm / len(scores), 0.25)
    noise = noise_tail(_declustered(scores), chance)
    limit = noise.exceeded_with_chance(chance)
    candidates = {int(at): int(at) for at in np.flatnonzero(scores > limit) + first}
    if suspect is not None and suspect[first:].any():
        # Where a cause was logged the question is only about these points: fewer tests, lower bar.
        lower = noise.exceeded_with_chance(min(false_alarm / int(suspect[first:].sum()), 0.25))
        for at in (np.flatnonzero((scores > lower) & suspect[first:]) + first).tolist():
            candidates.setdefault(at, at)
    for lasting in _LASTING:
        shifted = _shifted(x, base, noise, lasting, chance, first)
        for at in shifted:
            candidates.setdefault(at, _change_point(x, base, at, lasting))
    spikes: list[Spike] = []
    resume = 0
    for at in sorted(candidates):
        if at >= resume:
            spike = describe(x, base, candidates[at], reach, atypical)
            if spike.height <= max(sigmas * spike.sigma, least_height):
                continue
            spikes.append(spike)
            # After a shift that stays, the baseline needs a window to find its new level.
            resume = spike.end + (0 if spike.recovered else reach.window)
    largest = int(np.argmax(scores))
    return SpikeScan(
        spikes=tuple(spikes),
        limit=limit,
        largest=float(scores[largest]),
        largest_at=largest + first,
        tested=n - first,
    )


def _declustered(scores: Floats) -> Floats:
    """Return the scores with the largest few excursions reduced to their highest point.

    A spike that takes ten points to decay is one event, not ten draws of heavy-tailed noise (runs
    declustering; Smith and Weissman 1994, JRSS B 56, 515-528, section 2). Only a few are reduced:
    where excursions are the rule, as in autocorrelated noise, they are what it is like.
    """
    far = np.flatnonzero(scores > _FAR_OUT)
    if len(far) < 2:
        return scores
    begins = np.append(0, np.flatnonzero(np.diff(far) > _APART) + 1)
    ends = np.append(begins[1:], len(far))
    kept = np.ones(len(scores), dtype=bool)
    for at in np.argsort(ends - begins, kind="stable")[-_FEW_EVENTS:]:
        excursion = far[begins[at] : ends[at]]
        kept[excursion] = False
        kept[excursion[np.argmax(scores[excursion])]] = True
    return scores[kept]


def _shifted(
    x: Floats,
    base: Baseline,
    noise: UpperTail,
    lasting: int,
    chance: float,
    first: int,
) -> list[int]:
    """Return the positions from which on the next ``lasting`` points lie too high.

    The score of a shift is the median of the points from here on, against the baseline.
    """
    if len(x) < first + 2 * lasting:
        return []
    # The median of the points before, one window later, is the median of the points from here.
    ahead = median_before(np.append(x, x[-1]), lasting)[lasting:]
    scores = (ahead - base.level[: len(ahead)]) / base.sigma[: len(ahead)]
    # Windows that overlap are not so many tests.
    chance = min(lasting * chance, 0.25)
    deepest = int(np.log2(len(x) / _SHIFTED_POINTS))
    sample = scores[first :: -(-len(x) // _SAMPLE)]
    tails = (
        medians_tail(noise, sample, lasting),
        # Neighbours that go together (blocks of like data) make medians that go farther.
        upper_tail(sample, deepest),
    )
    limit = max(*(tail.exceeded_with_chance(chance) for tail in tails), _LEAST_SHIFT)
    hit = scores > limit
    hit[:first] = False
    return np.flatnonzero(hit).tolist()


def _change_point(x: Floats, base: Baseline, at: int, lasting: int) -> int:
    """Return where the shift that is seen from ``at`` on begins.

    The maximum-likelihood change point between the level before and the level after (Hinkley 1970,
    doi:10.1093/biomet/57.1.1, eq. 2.1, with the levels taken from medians).
    """
    ahead = x[at : at + 2 * lasting]
    level = float(base.level[at])
    height = float(np.median(ahead[lasting // 2 :])) - level
    gain = np.cumsum((ahead - level - height / 2)[::-1])[::-1]
    return at + int(np.argmax(gain[:lasting]))
