"""Where a log may have spiked: points, or stretches, too high for the noise around them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stabdiag.stats.quantiles import median
from stabdiag.stats.seen import Seen, seen_ahead
from stabdiag.stats.tails import UpperTail, medians_tail, upper_tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stabdiag.stats.baseline import Baseline

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# A shift is looked for in the medians of so many points.
LASTING = (8, 20)

# So many points may lie in one shift and must not shape the tail that it is judged by.
_SHIFTED_POINTS = 128

# The tail of medians is taken from no more than about so many of them.
_SAMPLE = 50_000

# A shift that lasts counts from this many deviations on, and from fewer after a logged cause.
_LEAST_SHIFT = 2.0
_LEAST_CAUSED = 1.0

# After a logged cause a spike is the likelier story, and so it is where another series goes up and
# stays there with the loss: so many times the chance of a false alarm.
_LIKELIER = 5

# Before there are points enough to judge by, only what lies so many times as far above all other
# points as these lie apart is a spike, from the position on that has a few points before it.
_UNLIKE = 10.0
_EARLIEST = 5


class Candidate(NamedTuple):
    """Where something is too high, where it begins, and through which windows it was seen.

    ``limit`` is how far noise reaches in these windows, in deviations; ``alone`` says that no other
    point comes near.
    """

    at: int
    onset: int
    seen: Seen
    limit: float
    alone: bool = False


def candidates(
    x: Floats,
    base: Baseline,
    single: Seen,
    noise: UpperTail,
    false_alarm: float,
    suspect: Mask | None,
    witness: Callable[[int], bool],
    window: int,
) -> list[Candidate]:
    """Return the points and stretches that lie beyond what the noise's tail allows, in order.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        single: the log, point by point.
        noise: the upper tail of its scores.
        false_alarm: the chance that noise alone gives one candidate anywhere in the log.
        suspect: points, shape (n,), where a spike is to be expected.
        witness: tells whether another series goes up and stays there, from a position on.
        window: points; what stands alone has no like of it farther away.

    Stretches are too high if the median of the next few points is: a small but lasting shift is
    found as well. A point that no other comes near needs no tail.
    """
    first, scores = single.first, single.scores
    chance = lower = min(false_alarm / (len(scores) - first), 0.25)
    limit = noise.exceeded_with_chance(chance)
    high = scores > limit
    if suspect is not None and suspect[first:].any():
        # After a logged cause the question is only about these points: fewer tests, lower bar.
        lower = min(_LIKELIER * false_alarm / int(suspect[first:].sum()), 0.25)
        high |= (scores > noise.exceeded_with_chance(lower)) & suspect
    high[:first] = False
    found = [Candidate(at, at, single, limit) for at in np.flatnonzero(high).tolist()]
    for width in LASTING:
        seen = seen_ahead(x, base, width, single)
        if seen is None:
            continue
        shifts = _Shifts(seen=seen, single=single, tails=_tails(seen, noise))
        places = shifts.beyond(chance, _LEAST_SHIFT)
        if suspect is not None and lower > chance:
            places += [at for at in shifts.beyond(lower, _LEAST_CAUSED) if suspect[at]]
        onsets = {at: _change_point(x, base, at, width) for at in places}
        for at in set(shifts.beyond(_LIKELIER * chance, _LEAST_SHIFT)) - onsets.keys():
            onset = _change_point(x, base, at, width)
            if witness(onset):
                onsets[at] = onset
        bar = shifts.limit(chance, _LEAST_SHIFT)
        found += [Candidate(at, onset, seen, bar) for at, onset in onsets.items()]
    alone = single.excursions.alone(window)
    found += [Candidate(at, at, single, limit, alone=True) for at in alone]
    found += [Candidate(at, at, single, limit) for at in _early_and_unlike(x, first)]
    return sorted(found, key=lambda one: (one.at, one.seen.width))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shifts:
    """Where the next points may lie too high together, by the tails that their medians have.

    The score of a shift is the median of the points from here on, against the baseline.
    """

    seen: Seen
    single: Seen
    tails: tuple[UpperTail, ...]

    def limit(self, chance: float, least: float) -> float:
        """Return the score that medians exceed with this chance."""
        # Windows that overlap are not so many tests.
        chance = min(self.seen.width * chance, 0.25)
        return max(*(tail.exceeded_with_chance(chance) for tail in self.tails), least)

    def beyond(self, chance: float, least: float) -> list[int]:
        """Return the positions from which on the next points lie higher than by this chance."""
        seen, single = self.seen, self.single
        hit = seen.scores > self.limit(chance, least)
        chance = min(seen.width * chance, 0.25)
        hit[: seen.first] = False
        places = np.flatnonzero(hit)
        rare = np.maximum(
            _chances(seen.scores[places], single.scores[seen.first :], seen.width),
            _chances(seen.heights[places], single.heights[single.settled :], seen.width),
        )
        found: list[int] = places[rare < chance].tolist()
        return found


def _tails(seen: Seen, noise: UpperTail) -> tuple[UpperTail, ...]:
    """Return the tails that the medians have by the single points', and by their own scores."""
    scores = seen.scores
    deepest = int(np.log2(len(scores) / _SHIFTED_POINTS))
    sample = scores[seen.first :: -(-len(scores) // _SAMPLE)]
    # Neighbours that go together (blocks of like data) make medians that go farther.
    return medians_tail(noise, sample, seen.width), upper_tail(np.sort(sample), deepest)


def _chances(medians: Floats, points: Floats, width: int) -> Floats:
    """Return the chance that half of ``width`` points lie above each of these medians.

    The number of points above a value is binomial (David & Nagaraja 2003, doi:10.1002/0471722162,
    eq. 2.1.3), with the share of all points above it, but for as many as the window holds. A loss
    that goes back and forth between two levels has no tail that tells how far its medians go.
    """
    if not len(medians):
        return medians
    high = np.sort(points[points >= medians.min()])
    above = len(high) - np.searchsorted(high, medians)
    share = np.maximum(above - width, 0.5) / max(len(points), 1)
    chances = np.zeros(len(medians))
    for count in range(width // 2, width + 1):
        chances += math.comb(width, count) * share**count * (1 - share) ** (width - count)
    return chances


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


def _early_and_unlike(x: Floats, first: int) -> list[int]:
    """Return the position before ``first`` that is beyond comparison with the whole log, if any.

    At its start a run may do anything for some points, but no run starts with a single loss many
    times as far from all others as these ever are from each other.
    """
    early = x[_EARLIEST:first]
    if not len(early):
        return []
    at = _EARLIEST + int(np.argmax(early))
    parts = [part for part in (x[:at], x[at + 3 :]) if len(part)]
    highest = max(float(part.max()) for part in parts)
    lowest = min(float(part.min()) for part in parts)
    return [at] if x[at] - highest > _UNLIKE * (highest - lowest) > 0 else []
