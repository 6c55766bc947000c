"""Stretches whose points are too high together: the medians of the points ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import median
from stabdiag.stats.residuals import Residuals
from stabdiag.stats.tails import UpperTail, medians_tail, upper_tail

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.stats.baseline import Baseline

# So many points may lie in one shift and must not shape the tail that it is judged by.
_SHIFTED_POINTS = 128

# The tail of medians is taken from no more than about so many of them.
_SAMPLE = 50_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Shifts:
    """Tests which medians of the points ahead lie too high, against the tail of single points."""

    medians: Residuals
    points: Residuals
    noise: UpperTail

    def limit(self, chance: float, least: float) -> float:
        """Return the score that a median exceeds with this chance at any one point."""
        chance = self._of_windows(chance)
        return max(*(tail.exceeded_with_chance(chance) for tail in self._tails), least)

    def beyond(self, chance: float, least: float) -> list[int]:
        """Return the positions from which the next points are higher than this chance allows."""
        shifted, points = self.medians, self.points
        high = shifted.scores > self.limit(chance, least)
        high[: shifted.first] = False
        places = np.flatnonzero(high)
        rare = np.maximum(
            _chances(shifted.scores[places], points.scores[points.first :], shifted.width),
            _chances(shifted.heights[places], points.heights[points.settled :], shifted.width),
        )
        found: list[int] = places[rare < self._of_windows(chance)].tolist()
        return found

    def _of_windows(self, chance: float) -> float:
        """Return the chance for a window: those that overlap are not independent tests."""
        return min(self.medians.width * chance, 0.25)

    @cached_property
    def _tails(self) -> tuple[UpperTail, UpperTail]:
        """The upper tail of the medians, from that of single points and from their own sample.

        Neighbours that go together (blocks of like data) make medians that reach farther than the
        first of these tells.
        """
        scores, width = self.medians.scores, self.medians.width
        deepest = int(np.log2(len(scores) / _SHIFTED_POINTS))
        sample = scores[self.medians.first :: -(-len(scores) // _SAMPLE)]
        return medians_tail(self.noise, sample, width), upper_tail(np.sort(sample), deepest)


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
    share = np.maximum(above - width, 0.5) / len(points)
    chances = np.zeros(len(medians))
    for count in range(width // 2, width + 1):
        chances += math.comb(width, count) * share**count * (1 - share) ** (width - count)
    return chances


def change_point(x: Floats, base: Baseline, at: int, lasting: int) -> int:
    """Return where the shift that is seen from position ``at`` begins, as a position.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        at: from here on the next points are too high.
        lasting: how many points the shift lasts at least.

    The maximum-likelihood change point between the level before and the level after (Hinkley 1970,
    doi:10.1093/biomet/57.1.1, eq. 2.1, with the levels taken from medians).
    """
    ahead = x[at : at + 2 * lasting]
    level = float(base.level[at])
    height = median(ahead[lasting // 2 :]) - level
    # Summed up from the front: beside what a loss explodes to, the points before it are rounding.
    lost = np.cumsum(ahead[: lasting - 1] - level - height / 2)
    return at + int(np.argmin(np.append(0.0, lost)))
