"""How high the log lies above its baseline: each point, or the median of the next few."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import Baseline, median_before
from stabdiag.stats.excursions import APART, Excursions, excursions
from stabdiag.stats.quantiles import medians, typical

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.stats.shape import Reach, Spike

# Noise matches a single point if it reaches as high, and a stretch from this share of its height
# on: medians of noise vary less than points do.
_STRETCH_SHARE = 0.6

# A level of fewer points than this is none to compare excursions by.
_FEWEST = 8

# Only this many of the highest points of a long log are compared with a spike. Each has to lie
# above the median of the three before it, by this share of its height above the baseline.
_COMPARED = 4096
_BEFORE = np.arange(1, 4)
_UP = 0.25

# This many losses in a row that reach this share of the highest are no single loss.
_IN_A_ROW = 3
_AS_ONE = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Distances from the baseline, shape (n,) each, of the medians of ``width`` points ahead.

    ``heights`` are in units of the loss, ``scores`` in deviations, ``level`` is the baseline.
    Nothing before the position ``first`` can be a spike, and nothing before ``settled``, where the
    initial descent ends, is compared with one.
    """

    level: Floats
    heights: Floats
    scores: Floats
    width: int
    first: int
    settled: int

    @cached_property
    def excursions(self) -> Excursions:
        """The excursions after the initial descent: rises; of medians, falls as well."""
        heights, scores = self.heights, self.scores
        if self.width > 1:
            heights, scores = np.abs(heights), np.abs(scores)
        return excursions(
            heights, scores, self.level, self.settled, APART * self.width, self.heights > 0
        )

    def explain(self, at: int, spike: Spike, reach: Reach, limit: float) -> bool:
        """Tell whether what the run does elsewhere makes a spike seen at a position usual for it.

        Either the run has such excursions again and again; or the spike is a single point that came
        back and may be the farthest of heavy-tailed noise; or noise reaches as high elsewhere,
        ``limit`` being how far noise goes, in deviations.
        """
        single, stayed = self.width == 1, spike.recovered is False
        around = slice(at, (spike.peak if single else at + self.width) + 1)
        height, score = float(self.heights[around].max()), float(self.scores[around].max())
        over = spike.end + (reach.window // 4 if spike.recovered else reach.window)
        # What rises from more than halfway up the spike does so in a run that is broken already.
        halfway = float(self.level[at]) + spike.height / 2
        first, last = spike.onset - 2 * APART, over + APART
        others = self.excursions.others(height, score, first, last, halfway)
        if self.excursions.are_habit(others, single=single and not stayed):
            return True
        if single and stayed:
            return False  # a jump that stayed is more than the single point that it begins with
        # Where a few losses in a row are as high, each of them would have to be in the tail.
        near = self.scores[spike.onset : spike.peak + _IN_A_ROW]
        is_one = single and (near > _AS_ONE * score).sum() < _IN_A_ROW
        if is_one and not self.excursions.are_parted(score, first, last, halfway):
            return True
        where = self._highest
        where = where[(where < spike.onset - 2 * self.width) | (where >= over)]
        where = where[(self.level[where] <= halfway) & (self.scores[where] < min(score, limit))]
        share = 1.0 if single else _STRETCH_SHARE
        return bool(self._went_up(where[self.heights[where] > share * height]).any())

    def _went_up(self, where: Ints) -> Mask:
        """Tell which positions lie well above the points just before them, too.

        Where a steep descent ends, the baseline overshoots downwards: points above it there are no
        noise.
        """
        values = self.level[: len(self.heights)] + self.heights
        before = np.maximum(where[:, np.newaxis] - self.width * _BEFORE, 0)
        return values[where] - medians(values[before]) > _UP * self.heights[where]

    @cached_property
    def _highest(self) -> Ints:
        """The positions of the highest points after the initial descent."""
        heights = self.heights[self.settled :]
        if len(heights) <= _COMPARED:
            return np.arange(self.settled, len(self.heights))
        return np.argpartition(heights, -_COMPARED)[-_COMPARED:] + self.settled


def point_residuals(x: Floats, base: Baseline, first: int) -> Residuals:
    """Return how high each point of ``x``, shape (n,) and finite, lies above the baseline.

    Nothing before the position ``first`` can be a spike.
    """
    heights = x - base.level
    return Residuals(
        level=base.level,
        heights=heights,
        scores=heights / base.sigma,
        width=1,
        first=first,
        settled=_settled(base.level, first),
    )


def median_residuals(x: Floats, base: Baseline, width: int, points: Residuals) -> Residuals | None:
    """Return how high the median of the ``width`` points from each one on lies above the baseline.

    None for a log too short for such windows.
    """
    if len(x) < points.first + 2 * width:
        return None
    # The median of the points before, one window later, is the median of the points from here.
    ahead = median_before(np.append(x, x[-1]), width)[width:]
    heights = ahead - base.level[: len(ahead)]
    return Residuals(
        level=base.level,
        heights=heights,
        scores=heights / base.sigma[: len(ahead)],
        width=width,
        first=points.first,
        settled=points.settled,
    )


def _settled(level: Floats, first: int) -> int:
    """Return where the level has made three quarters of its way to its usual value.

    That may be before ``first``: in a short log the first points are many of those that tell how
    far its noise goes.
    """
    usual = typical(level[first:])
    begin = min(_FEWEST, first)
    return begin + int(np.argmax(level[begin:] <= usual + (level[begin] - usual) / 4))
