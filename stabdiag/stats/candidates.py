"""Points and stretches that may be spikes: too high for the noise around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stabdiag.stats.seen import Seen, seen_ahead
from stabdiag.stats.shifts import Shifts, change_point, tails_of
from stabdiag.stats.tails import UpperTail
from stabdiag.stats.undone import undone_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stabdiag.stats.baseline import Baseline

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# A shift is looked for in the medians of so many points.
LASTING = (8, 20)

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
    """A place that is too high, where it begins, and through which windows it was seen.

    ``limit`` is how far noise reaches in these windows, in deviations; ``alone`` says that no other
    point comes near, ``undone`` that the run loses all it had gained.
    """

    at: int
    onset: int
    seen: Seen
    limit: float
    alone: bool = False
    undone: bool = False


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The upper tail of a run's scores, and what its points are held against.

    ``false_alarm`` is the chance that noise alone gives one candidate anywhere among ``points``.
    """

    tail: UpperTail
    false_alarm: float
    points: int

    @property
    def chance(self) -> float:
        """The chance of a false alarm at one point."""
        return chance_of_one(self.false_alarm, self.points)

    @property
    def limit(self) -> float:
        """How far noise reaches, in deviations."""
        return self.tail.exceeded_with_chance(self.chance)


def chance_of_one(false_alarm: float, points: int) -> float:
    """Return the chance of a false alarm at each of this many points (Bonferroni)."""
    return min(false_alarm / points, 0.25)


def candidates(
    x: Floats,
    base: Baseline,
    single: Seen,
    noise: Noise,
    *,
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
        suspect: points, shape (n,), where a spike is to be expected.
        witness: tells whether another series goes up and stays there, from a position on.
        window: points; what stands alone has no like of it farther away.

    Stretches are too high if the median of the next few points is: a small but lasting shift is
    found as well. What no other point comes near, or undoes the run, needs no tail.
    """
    first, scores = single.first, single.scores
    chance = lower = noise.chance
    limit = noise.limit
    high = scores > limit
    if suspect is not None and suspect[first:].any():
        # After a logged cause the question is only about these points: fewer tests, lower bar.
        lower = chance_of_one(_LIKELIER * noise.false_alarm, int(suspect[first:].sum()))
        high |= (scores > noise.tail.exceeded_with_chance(lower)) & suspect
    high[:first] = False
    found = [Candidate(at, at, single, limit) for at in np.flatnonzero(high).tolist()]
    for width in LASTING:
        seen = seen_ahead(x, base, width, single)
        if seen is None:
            continue
        shifts = Shifts(seen=seen, single=single, tails=tails_of(seen, noise.tail))
        places = shifts.beyond(chance, _LEAST_SHIFT)
        if suspect is not None and lower > chance:
            places += [at for at in shifts.beyond(lower, _LEAST_CAUSED) if suspect[at]]
        onsets = {at: change_point(x, base, at, width) for at in places}
        for at in set(shifts.beyond(_LIKELIER * chance, _LEAST_SHIFT)) - onsets.keys():
            onset = change_point(x, base, at, width)
            if witness(onset):
                onsets[at] = onset
        bar = shifts.limit(chance, _LEAST_SHIFT)
        found += [Candidate(at, onset, seen, bar) for at, onset in onsets.items()]
    alone = single.excursions.alone(window)
    found += [Candidate(at, at, single, limit, alone=True) for at in alone]
    found += [Candidate(at, at, single, limit) for at in _early_and_unlike(x, first)]
    if (broken := undone_at(x)) is not None:
        onset = change_point(x, base, broken, LASTING[-1])
        found.append(Candidate(broken, onset, single, limit, undone=True))
    return sorted(found, key=lambda one: (one.at, one.seen.width))


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
