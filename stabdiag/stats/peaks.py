"""The peaks of a log above its baseline, and whether one of them is usual for this run."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import MIN_SAMPLE, SUBSAMPLE_SIZE, median, medians, typical
from stabdiag.stats.rolling import Baseline, median_before
from stabdiag.stats.shape import SearchWindows, Spike
from stabdiag.stats.tails import CLEAR, FAR_OUT, FEW_EVENTS, PRIOR_WEIGHT

# Points this many deviations out, with no more than so many between them, are one excursion.
APART = 2

# A peak recurs if others reach half of its height: one other for a single point, two for a stretch,
# and one in so many points of a long log. A few points with nothing between them and the noise are
# spikes: unless some others come near, it takes a few others, in a short log one less. Below a
# fifth of a height, or of a score, nothing comes near it, and a spike has not left its level yet.
HALF = 0.5
NEAR = 0.2
_POINTS = 750

# The tail of noise leaves a gap as wide with at most this chance. Its index is estimated from so
# many of the next scores below the gap. The prior for the inverse of the index, the weight of the
# tail, counts as much as five scores.
BY_CHANCE = 0.05
BELOW = (10, 30)
_PRIOR = 5


@frozen
class Excursions:
    """The excursions of a log, each run of high scores reduced to its highest point: shape (k,).

    ``places`` are the positions of their first points; ``heights`` how far the farthest lie from
    the baseline, in units of the loss; ``scores`` the same in deviations; ``rises`` which of them
    lie above it; ``levels`` the baseline there. ``points`` is the length of the log.
    Runs declustering (Smith and Weissman 1994, JRSS B 56, 515-528, section 2).
    """

    places: Ints
    heights: Floats
    scores: Floats
    rises: Mask
    levels: Floats
    points: int

    def others(
        self, height: float, score: float, first: int, last: int, highest: float = np.inf
    ) -> Floats:
        """Return how high comparable excursions outside a stretch reach, as shares of this height.

        Heights alone would not do: they are larger at the start of a run, where noise is. Rises
        from a level above ``highest`` do not count: there the run is broken already.
        """
        clear = self.scores >= min(NEAR * score, CLEAR)
        shares: Floats = self.heights[self._outside(first, last, highest) & clear] / height
        return shares

    def _outside(self, first: int, last: int, highest: float) -> Mask:
        outside = (self.places < first) | (self.places > last)
        return outside & (~self.rises | (self.levels <= highest))

    def is_recurring(self, others: Floats, *, single: bool) -> bool:
        """Tell whether an excursion is a recurring outlier of this run, by how high others reach.

        Such are a hard batch every hundred steps, the first batch of each epoch, shards of data.

        Args:
            others: heights of comparable excursions, as shares of this one's.
            single: whether it is a single point, and not a stretch.
        """
        halves, near = int((others >= HALF).sum()), int((others >= NEAR).sum())
        if halves < max(1 if single else 2, self.points // _POINTS):
            return False
        return not single or near > halves or halves >= FEW_EVENTS - (self.points < _POINTS)

    def alone(self, window: int) -> list[int]:
        """Return the place of the highest clear rise, if no other excursion comes close to it.

        What follows within ``window`` points counts as part of the same.
        """
        clear = np.flatnonzero(self.rises & (self.scores >= CLEAR))
        if not len(clear):
            return []
        top = clear[np.argmax(self.heights[clear])]
        place = int(self.places[top])
        others = self.others(self.heights[top], self.scores[top], place - APART, place + window)
        return [] if (others >= HALF).any() else [place]

    def is_separated_by_gap(self, score: float, first: int, last: int, highest: float) -> bool:
        """Tell whether a gap too wide for noise separates this score from most others.

        The score is in deviations. The others are the rises outside the positions from ``first`` to
        ``last``, from levels up to ``highest``. Up to three may lie above the gap together: two or
        three spikes are spikes.
        """
        rises = self.rises & self._outside(first, last, highest)
        scores = np.sort(np.append(self.scores[rises], score))[::-1]
        rank = int((scores >= score).sum())
        return any(
            chance_of_gap(scores[: above + depth + 1], above) <= BY_CHANCE / above / len(BELOW)
            for above in range(rank, FEW_EVENTS + 1)
            for depth in BELOW
        )


def chance_of_gap(scores: Floats, above: int) -> float:
    """Return the chance of a gap as wide as that below the highest of some scores.

    Args:
        scores: shape (n,), above 0, in falling order: those above the gap, and the next below it.
        above: how many lie above the gap, at least 1.

    If the tail is a power law, r * log(x_r / x_(r+1)) of the ordered scores x_1 > x_2 > ... are
    independent exponentials whose mean is the inverse of the index (Rényi 1953,
    doi:10.1007/BF02127580; Hill 1975, doi:10.1214/aos/1176343247); lighter tails leave smaller
    gaps. With a gamma prior for the index, and k spacings of sum s below the gap, a gap g has the
    chance (1 + g / (s + s0)) ** -(k + k0).
    """
    below = scores[above:]
    if not len(below):
        return 0.0
    gap = above * math.log(scores[above - 1] / below[0])
    spacings = float(np.log(below / below[-1]).sum()) + _PRIOR * PRIOR_WEIGHT
    return float((1 + gap / spacings) ** -(len(below) - 1 + _PRIOR))


@frozen
class Residuals:
    """How the medians of ``width`` points ahead, ``values``, lie to the baseline: shape (n,) each.

    ``level`` is the baseline, and ``scores`` are the distances from it in deviations. Nothing
    before the position ``first`` can be a spike, and nothing before ``settled``, where the initial
    descent ends, is compared with one.
    """

    values: Floats
    level: Floats
    scores: Floats
    width: int
    first: int
    settled: int

    def heights(self, where: Ints | slice) -> Floats:
        """Return the distances from the baseline in units of the loss; all would take memory."""
        return self.values[where] - self.level[where]

    @cached_property
    def excursions(self) -> Excursions:
        """The excursions after the initial descent: rises; of medians, falls as well."""
        scores = self.scores if self.width == 1 else np.abs(self.scores)
        far = np.flatnonzero(scores[self.settled :] > FAR_OUT) + self.settled
        starts = np.flatnonzero(np.diff(far, prepend=-np.inf) > APART * self.width)
        heights = self.heights(far)
        return Excursions(
            places=far[starts],
            heights=np.maximum.reduceat(np.abs(heights), starts) if len(far) else np.empty(0),
            scores=np.maximum.reduceat(scores[far], starts) if len(far) else np.empty(0),
            rises=heights[starts] > 0,
            levels=self.level[far[starts]],
            points=len(scores),
        )

    def explain(self, at: int, spike: Spike, reach: SearchWindows, limit: float) -> bool:
        """Tell whether what the run does elsewhere makes a spike seen at a position usual for it.

        Either the run has such excursions again and again; or the spike is a single point that came
        back and may be the farthest of heavy-tailed noise; or noise reaches as high elsewhere,
        ``limit`` being how far noise goes, in deviations.
        """
        single, stayed = self.width == 1, spike.recovered is False
        around = slice(at, (spike.peak if single else at + self.width) + 1)
        height, score = float(self.heights(around).max()), float(self.scores[around].max())
        over = spike.end + (reach.window // 4 if spike.recovered else reach.window)
        # What rises from more than halfway up the spike does so in a run that is broken already.
        halfway = float(self.level[at]) + spike.height / 2
        first, last = spike.onset - 2 * APART, over + APART
        others = self.excursions.others(height, score, first, last, halfway)
        if self.excursions.is_recurring(others, single=single and not stayed):
            return True
        if single and stayed:
            return False  # a jump that stayed is more than the single point that it begins with
        if single and not self.excursions.is_separated_by_gap(score, first, last, halfway):
            return True
        where = self._highest
        where = where[(where < spike.onset - 2 * self.width) | (where >= over)]
        where = where[(self.level[where] <= halfway) & (self.scores[where] < min(score, limit))]
        share = 1.0 if single else HALF  # medians of noise vary less than points do
        return bool(self.went_up(where[self.heights(where) > share * height]).any())

    def went_up(self, where: Ints) -> Mask:
        """Tell which positions lie well above the three points just before them, too.

        Where a steep descent ends, the baseline overshoots downwards: points above it there are no
        noise.
        """
        before = np.maximum(
            where[:, np.newaxis] - self.width * np.arange(1, MIN_CONSECUTIVE + 1), 0
        )
        return self.values[where] - medians(self.values[before]) > NEAR * self.heights(where)

    @cached_property
    def _highest(self) -> Ints:
        """The positions of the highest points after the initial descent."""
        heights = self.heights(slice(self.settled, None))
        if len(heights) <= SUBSAMPLE_SIZE:
            return np.arange(self.settled, len(self.values))
        return np.argpartition(heights, -SUBSAMPLE_SIZE)[-SUBSAMPLE_SIZE:] + self.settled


def point_residuals(x: Floats, base: Baseline, first: int) -> Residuals:
    """Return how high each point of ``x``, shape (n,) and finite, lies above the baseline.

    Nothing before the position ``first`` can be a spike.
    """
    scores = x - base.level
    scores /= base.sigma
    return Residuals(
        values=x,
        level=base.level,
        scores=scores,
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
    values = median_before(x, width)[width - 1 :]
    values[:-1], values[-1] = values[1:], median(x[-width:])
    level = base.level[: len(values)]
    scores = values - level
    scores /= base.sigma[: len(values)]
    return Residuals(
        values=values,
        level=level,
        scores=scores,
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
    begin = min(MIN_SAMPLE, first)
    return begin + int(np.argmax(level[begin:] <= usual + (level[begin] - usual) / 4))
