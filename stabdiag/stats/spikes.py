"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stabdiag.stats.baseline import Baseline, baseline
from stabdiag.stats.habit import FAR_OUT
from stabdiag.stats.quantiles import median
from stabdiag.stats.seen import Seen, seen_ahead, seen_singly
from stabdiag.stats.shape import Reach, Spike, describe
from stabdiag.stats.tails import UpperTail, medians_tail, noise_tail, upper_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# So many of the longest excursions count as one point each where the tail is fitted.
_FEW_EVENTS = 3

# A shift is looked for in the medians of so many points.
_LASTING = (8, 20)

# So many points may lie in one shift and must not shape the tail that it is judged by.
_SHIFTED_POINTS = 128

# The tail of medians is taken from no more than about so many of them.
_SAMPLE = 50_000

# A shift that lasts counts from this many deviations on, and from fewer after a logged cause.
_LEAST_SHIFT = 2.0
_LEAST_CAUSED = 1.0

# What a run made good unaided is told if its peak reaches half as far as the noise of single points
# does; so many deviations are always far enough, and a single point has to reach so many.
_FAR = 10.0
_FAR_FOR_ONE = 5.0

# After a logged cause a spike is the likelier story: so many times the chance of a false alarm.
_CAUSED = 5


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
    single = seen_singly(x, base, first)
    scores = single.scores[first:]
    noise = noise_tail(_declustered(scores), min(false_alarm / len(scores), 0.25))
    limit = noise.exceeded_with_chance(min(false_alarm / len(scores), 0.25))
    found = _candidates(x, base, single, noise, false_alarm, suspect)
    found += [_Candidate(at, at, single) for at in single.excursions.alone(reach.window)]
    spans = _spans(base.level, [onset for _, onset, _ in found])
    spikes: list[Spike] = []
    resume = 0
    habits = dict.fromkeys((1, *_LASTING), 0)
    for at, onset, seen in sorted(found, key=lambda one: (one.at, one.seen.width)):
        if at < max(resume, habits[seen.width]):
            continue
        spike = describe(x, base, onset, reach, atypical)
        if spike.height <= max(sigmas * spike.sigma, least_share * spans[onset]):
            continue
        caused = suspect is not None and bool(suspect[onset])
        if not caused and spike.recovered and not _peak_stands_out(spike, seen, limit):
            continue
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


def _spans(level: Floats, places: list[int]) -> dict[int, float]:
    """Return the range that the levels up to each of these places span."""
    ordered = sorted(set(places))
    begins = [0, *(place + 1 for place in ordered[:-1])]
    if not ordered:
        return {}
    so_far = level[: ordered[-1] + 1]
    highest = np.maximum.accumulate(np.maximum.reduceat(so_far, begins))
    lowest = np.minimum.accumulate(np.minimum.reduceat(so_far, begins))
    return dict(zip(ordered, (highest - lowest).tolist(), strict=True))


def _peak_stands_out(spike: Spike, seen: Seen, limit: float) -> bool:
    """Tell whether the peak of a rise that came back is high for this run, as a single point, too.

    ``limit`` is how far its single points reach by noise alone, in deviations.
    """
    least = min(limit / 2, _FAR)
    if seen.width == 1:
        least = max(least, _FAR_FOR_ONE)
    return spike.height > least * spike.sigma


class _Candidate(NamedTuple):
    """Where something is too high, where it begins, and through which windows it was seen."""

    at: int
    onset: int
    seen: Seen


def _candidates(
    x: Floats,
    base: Baseline,
    single: Seen,
    noise: UpperTail,
    false_alarm: float,
    suspect: NDArray[np.bool_] | None,
) -> list[_Candidate]:
    """Return the points and stretches that lie beyond what the noise's tail allows."""
    first, scores = single.first, single.scores
    chance = lower = min(false_alarm / (len(scores) - first), 0.25)
    high = scores > noise.exceeded_with_chance(chance)
    if suspect is not None and suspect[first:].any():
        # After a logged cause the question is only about these points: fewer tests, lower bar.
        lower = min(_CAUSED * false_alarm / int(suspect[first:].sum()), 0.25)
        high |= (scores > noise.exceeded_with_chance(lower)) & suspect
    high[:first] = False
    found = [_Candidate(at, at, single) for at in np.flatnonzero(high).tolist()]
    for width in _LASTING:
        seen = seen_ahead(x, base, width, single)
        if seen is None:
            continue
        places = _shifted(seen, noise, chance, _LEAST_SHIFT)
        if suspect is not None and lower > chance:
            places += [at for at in _shifted(seen, noise, lower, _LEAST_CAUSED) if suspect[at]]
        found += [_Candidate(at, _change_point(x, base, at, width), seen) for at in places]
    return found


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


def _shifted(seen: Seen, noise: UpperTail, chance: float, least: float) -> list[int]:
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
    limit = max(*(tail.exceeded_with_chance(chance) for tail in tails), least)
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
