"""Events: points and stretches of a series that may be too high for its noise."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.peaks import Residuals, median_residuals
from stabdiag.stats.profile import Profile, chance_per_point
from stabdiag.stats.quantiles import median
from stabdiag.stats.recurrence import PeakGroup
from stabdiag.stats.rolling import TrailingBaseline
from stabdiag.stats.standards import MIN_SAMPLE, QUARTER, SUBSAMPLE_SIZE
from stabdiag.stats.tails import UpperTail, medians_tail

# A spike is more likely after a logged cause, so the probability of a false alarm may be larger by
# this factor there.
_CAUSE_FACTOR = 5


@frozen
class LevelEvent:
    """A position that is too high, its onset, and the residuals that show it.

    ``limit`` is the limit of the noise in these residuals, in standard deviations.
    """

    at: int
    onset: int
    residuals: Residuals
    limit: float

    @property
    def is_single(self) -> bool:
        """Whether the event is a single point rather than a stretch."""
        return self.residuals.width == 1


def find_events(
    x: Floats, single: Profile, lasting: Profile, after_logged_cause: Mask, group: PeakGroup | None
) -> list[LevelEvent]:
    """Return the points and stretches that are too high, in order.

    Args:
        x: shape (n,), finite.
        single: the profile that points are compared with.
        lasting: the profile that stretches are compared with.
        after_logged_cause: points, shape (n,), just after a logged cause.
        group: peaks that a gap separates from the noise.
    """
    points, limit, first = single.points, single.limit, single.points.first
    high = points.scores > limit
    suspects = int(after_logged_cause[first:].sum())
    # After a logged cause only these points are tested: fewer tests, a lower limit.
    caused = chance_per_point(_CAUSE_FACTOR * single.false_alarm, max(suspects, 1))
    if suspects:
        high |= (points.scores > single.tail.exceeded_with_chance(caused)) & after_logged_cause
    high[:first] = False
    # A rise without comparable excursions is an event regardless of the tail.
    alone = [at for at in points.excursions.alone(single.reach.window) if at >= first]
    peaks = [] if group is None else group.starts.tolist()
    singles = {*np.flatnonzero(high).tolist(), *alone, *peaks}
    events = [LevelEvent(at=at, onset=at, residuals=points, limit=limit) for at in singles]
    medians = median_residuals(x, lasting.base, MIN_SAMPLE, lasting.points)
    if medians is not None:
        sample = medians.scores[first :: -(-len(x) // SUBSAMPLE_SIZE)]
        tail = medians_tail(lasting.tail, sample, MIN_SAMPLE)
        bar, positions = _stretches(medians, lasting.points, tail, lasting.chance)
        if suspects:
            likely = _stretches(medians, lasting.points, tail, caused)[1]
            positions = sorted({*positions, *(at for at in likely if after_logged_cause[at])})
        events += [
            LevelEvent(
                at=at,
                onset=change_point(x, lasting.base, at, MIN_SAMPLE),
                residuals=medians,
                limit=bar,
            )
            for at in positions
        ]
    return sorted(events, key=lambda event: (event.at, event.residuals.width))


def _stretches(
    medians: Residuals, points: Residuals, tail: UpperTail, chance: float
) -> tuple[float, list[int]]:
    """Return the limit of the noise, and the positions where the next points exceed it."""
    # Overlapping windows are not independent tests.
    chance = min(medians.width * chance, QUARTER)
    limit = tail.exceeded_with_chance(chance)
    high = medians.scores > limit
    high[: medians.first] = False
    positions = np.flatnonzero(high)
    if not len(positions):
        return limit, []
    heights = points.heights(slice(points.burn_in_end, None))
    rare = np.maximum(
        _chances(medians.scores[positions], points.scores[points.first :], medians.width),
        _chances(medians.heights(positions), heights, medians.width),
    )
    result: list[int] = positions[rare < chance].tolist()
    return limit, result


def _chances(medians: Floats, points: Floats, width: int) -> Floats:
    """Return the probability that half of ``width`` points exceed each of these medians.

    The number of points above a value is binomial (David & Nagaraja 2003, doi:10.1002/0471722162,
    eq. 2.1.3). Its rate is the fraction of all points above the value, without as many points as
    the window contains. This also covers a loss that alternates between two levels, whose tail does
    not describe its medians.
    """
    high = np.sort(points[points >= medians.min()])
    above = len(high) - np.searchsorted(high, medians)
    rate = np.maximum(above - width, 0.5) / len(points)
    chances = np.zeros(len(medians))
    for count in range(width // 2, width + 1):
        chances += math.comb(width, count) * rate**count * (1 - rate) ** (width - count)
    return chances


def change_point(x: Floats, base: TrailingBaseline, at: int, lasting: int) -> int:
    """Return the start of a shift that was detected at ``at``.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        at: the position where the next points are detected as too high.
        lasting: the minimum length of the shift, in points.

    The maximum-likelihood change point between the level before and the level after (Hinkley 1970,
    doi:10.1093/biomet/57.1.1, eq. 2.1, with the levels taken from medians).
    """
    ahead = x[at : at + 2 * lasting]
    level = float(base.level[at])
    height = median(ahead[lasting // 2 :]) - level
    # Summed from the front, because earlier points vanish in the rounding of a blown-up loss.
    lost = np.cumsum(ahead[: lasting - 1] - level - height / 2)
    return at + int(np.argmin(np.append(0.0, lost)))
