"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import Baseline, baseline, median_before
from stabdiag.stats.habit import APART, FAR_OUT, Excursions, excursions
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import Reach, Spike, describe
from stabdiag.stats.tails import UpperTail, medians_tail, noise_tail, upper_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_FEW_EVENTS = 3

# A shift is looked for in the medians of so many points.
_LASTING = (8, 20)

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
    least_share: float,
    atypical: NDArray[np.bool_] | None = None,
    suspect: NDArray[np.bool_] | None = None,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: a spike's peak lies more than so many deviations above the mean of its window.
        false_alarm: the chance that noise alone gives one spike anywhere in the log.
        least_share: rises below this share of the range that the levels before them span are passed
            over.
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
    heights = x - base.level
    scores = (heights / base.sigma)[first:]
    chance = min(false_alarm / len(scores), 0.25)
    noise = noise_tail(_declustered(scores), chance)
    limit = noise.exceeded_with_chance(chance)
    settled = _settled(base.level, first)
    single = _Seen(
        level=base.level,
        heights=heights,
        scores=heights / base.sigma,
        width=1,
        first=first,
        settled=settled,
    )
    high = scores > limit
    lower = chance
    if suspect is not None and suspect[first:].any():
        # Where a cause was logged the question is only about these points: fewer tests, lower bar.
        lower = min(false_alarm / int(suspect[first:].sum()), 0.25)
        high |= (scores > noise.exceeded_with_chance(lower)) & suspect[first:]
    places = [*(np.flatnonzero(high) + first).tolist(), *single.excursions.alone(reach.window)]
    candidates = [(at, at, single) for at in places]
    for width in _LASTING:
        seen = _ahead(x, base, width, first, settled)
        if seen is not None:
            found = _shifted(seen, noise, chance)
            if suspect is not None and lower > chance:
                found += [at for at in _shifted(seen, noise, lower) if suspect[at]]
            candidates += [(at, _change_point(x, base, at, width), seen) for at in found]
    least = least_share * (np.maximum.accumulate(base.level) - np.minimum.accumulate(base.level))
    spikes: list[Spike] = []
    resume = 0
    habits = dict.fromkeys((1, *_LASTING), 0)
    for at, onset, seen in sorted(set(candidates), key=lambda one: (one[0], one[2].width)):
        if at >= max(resume, habits[seen.width]):
            spike = describe(x, base, onset, reach, atypical)
            if spike.height <= max(sigmas * spike.sigma, least[onset]):
                continue
            caused = suspect is not None and bool(suspect[onset])
            if not caused and seen.is_habit(at, spike, reach):
                habits[seen.width] = at + seen.width
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
    far = np.flatnonzero(scores > FAR_OUT)
    if len(far) < 2:
        return scores
    begins = np.append(0, np.flatnonzero(np.diff(far) > 5) + 1)
    ends = np.append(begins[1:], len(far))
    kept = np.ones(len(scores), dtype=bool)
    for at in np.argsort(ends - begins, kind="stable")[-_FEW_EVENTS:]:
        excursion = far[begins[at] : ends[at]]
        kept[excursion] = False
        kept[excursion[np.argmax(scores[excursion])]] = True
    return scores[kept]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """The log through windows of ``width`` points: shape (n,) heights above the baseline, scores.

    Nothing is judged before the position ``first``, nor held against it before ``settled``.
    """

    level: Floats
    heights: Floats
    scores: Floats
    width: int
    first: int
    settled: int

    @cached_property
    def excursions(self) -> Excursions:
        """All that stands out once the run has made its progress: rises, and lasting falls."""
        heights, scores = self.heights, self.scores
        if self.width > 1:
            heights, scores = np.abs(heights), np.abs(scores)
        return excursions(
            heights, scores, self.level, self.settled, APART * self.width, self.heights > 0
        )

    def is_habit(self, at: int, spike: Spike, reach: Reach) -> bool:
        """Tell whether the run does the like again and again."""
        around = slice(at, (spike.peak if self.width == 1 else at + self.width) + 1)
        last = spike.end + (reach.window // 4 if spike.recovered else reach.window)
        others = self.excursions.others(
            float(self.heights[around].max()),
            float(self.scores[around].max()),
            spike.onset - 2 * APART,
            last + APART,
            float(self.level[at]) + spike.height / 2,
        )
        return self.excursions.are_habit(others, single=self.width == 1)


def _ahead(x: Floats, base: Baseline, width: int, first: int, settled: int) -> _Seen | None:
    """Return how high the median of the next points, from each on, lies above the baseline."""
    if len(x) < first + 2 * width:
        return None
    # The median of the points before, one window later, is the median of the points from here.
    ahead = median_before(np.append(x, x[-1]), width)[width:]
    heights = ahead - base.level[: len(ahead)]
    scores = heights / base.sigma[: len(ahead)]
    return _Seen(
        level=base.level,
        heights=heights,
        scores=scores,
        width=width,
        first=first,
        settled=settled,
    )


def _settled(level: Floats, first: int) -> int:
    """Return the position from which on a lasting fall of the loss is no part of its descent."""
    usual = median(level[first:])
    return first + int(np.argmax(level[first:] <= usual + (level[first] - usual) / 4))


def _shifted(seen: _Seen, noise: UpperTail, chance: float) -> list[int]:
    """Return the positions from which on the next points lie too high.

    The score of a shift is the median of the points from here on, against the baseline.
    """
    first, scores = seen.first, seen.scores
    # Windows that overlap are not so many tests.
    chance = min(seen.width * chance, 0.25)
    deepest = int(np.log2(len(scores) / _SHIFTED_POINTS))
    sample = scores[first :: -(-len(scores) // _SAMPLE)]
    tails = (
        medians_tail(noise, sample, seen.width),
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
    height = median(ahead[lasting // 2 :]) - level
    gain = np.cumsum((ahead - level - height / 2)[::-1])[::-1]
    return at + int(np.argmax(gain[:lasting]))
