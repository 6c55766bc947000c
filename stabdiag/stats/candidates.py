"""Points and stretches that may be spikes: too high for the noise around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stabdiag.stats.residuals import Residuals, median_residuals
from stabdiag.stats.shifts import Shifts, change_point
from stabdiag.stats.yardstick import Yardstick, chance_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.stats.baseline import Baseline

# Shifts are looked for in medians of this many points.
LASTING = (8, 20)

# A shift counts from this many deviations on, and from fewer after a logged cause.
_LEAST_SHIFT = 2.0
_LEAST_CAUSED = 1.0

# After a logged cause a spike is the likelier story, and so it is where another series goes up and
# stays there with the loss: there, the chance of a false alarm may be this many times larger.
_LIKELIER = 5


class Candidate(NamedTuple):
    """A place that is too high, where it begins, and the residuals in which it was seen.

    ``limit`` is how far noise reaches among these residuals, in deviations; ``alone`` says that no
    other point comes near.
    """

    at: int
    onset: int
    residuals: Residuals
    limit: float
    alone: bool = False


def candidates(
    x: Floats,
    single: Yardstick,
    lasting: Yardstick,
    *,
    suspect: Mask,
    witness: Callable[[int], bool],
) -> list[Candidate]:
    """Return the places that may be spikes, in order.

    They are the points, and the stretches, that lie beyond what the noise's tail allows, and the
    points that no other comes near, which need no tail to be judged by.

    Args:
        x: shape (n,), finite.
        single: what points are held against.
        lasting: what stretches are held against.
        suspect: points, shape (n,), where a spike is to be expected.
        witness: tells whether another series goes up and stays there, from a position on.
    """
    points, limit, first = single.points, single.limit, single.points.first
    high = points.scores > limit
    suspects = int(suspect[first:].sum())
    # After a logged cause the question is only about these points: fewer tests, a lower bar.
    suspects_chance = chance_of_one(_LIKELIER * single.false_alarm, max(suspects, 1))
    if suspects:
        high |= (points.scores > single.tail.exceeded_with_chance(suspects_chance)) & suspect
    high[:first] = False
    alone = points.excursions.alone(single.reach.window)
    found = [
        *(Candidate(at, at, points, limit) for at in np.flatnonzero(high).tolist()),
        *(Candidate(at, at, points, limit, alone=True) for at in alone if at >= first),
    ]
    base, chance = lasting.base, lasting.chance
    for width in LASTING:
        medians = median_residuals(x, base, width, lasting.points)
        if medians is None:
            continue
        shifts = Shifts(medians=medians, points=lasting.points, noise=lasting.tail)
        places = shifts.beyond(chance, _LEAST_SHIFT)
        if suspects:
            places += [at for at in shifts.beyond(suspects_chance, _LEAST_CAUSED) if suspect[at]]
        onsets = {at: change_point(x, base, at, width) for at in places}
        onsets |= _witnessed(x, base, shifts, _LIKELIER * chance, onsets, witness)
        bar = shifts.limit(chance, _LEAST_SHIFT)
        found += [Candidate(at, onset, medians, bar) for at, onset in onsets.items()]
    return sorted(found, key=lambda one: (one.at, one.residuals.width))


def _witnessed(
    x: Floats,
    base: Baseline,
    shifts: Shifts,
    chance: float,
    known: Mapping[int, int],
    witness: Callable[[int], bool],
) -> dict[int, int]:
    """Return the onsets of further shifts, with which another series goes up, by their places."""
    further = set(shifts.beyond(chance, _LEAST_SHIFT)) - known.keys()
    onsets = {at: change_point(x, base, at, shifts.medians.width) for at in further}
    return {at: onset for at, onset in onsets.items() if witness(onset)}
