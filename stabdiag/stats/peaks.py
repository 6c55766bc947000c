"""The peaks of a log above its baseline, and whether a peak is usual for the run."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, medians, quantiles, typical
from stabdiag.stats.rolling import TrailingBaseline, preceding_median, rounding
from stabdiag.stats.shape import SearchWindows, Spike, centered_median
from stabdiag.stats.standards import (
    CLEAR,
    CONTEXT_POINTS,
    FEW_EVENTS,
    FIFTH,
    HALF,
    LEAST,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    QUARTER,
    QUARTERS,
    SUBSAMPLE_SIZE,
    TENTHS,
    TINY,
)
from stabdiag.stats.tails import FAR_OUT, PRIOR_WEIGHT

# Outlying points with at most this many other points between them belong to one excursion.
MAX_GAP = 2

# A peak recurs if others reach half of its height: one other for a single point, two for a stretch,
# and one in _POINTS points of a long log. A few isolated points without any peaks between them and
# the noise are spikes, so a single point needs FEW_EVENTS others (one less in a short log) unless
# other peaks are comparable. A comparable peak reaches a fifth of the height and of the score. A
# spike has left its level when it reaches a fifth of its height.
COMPARABLE = FIFTH
_POINTS = 750

# The index of the tail of the noise is estimated from this many scores below a gap. The prior for
# its inverse, the weight of the tail, is worth _PRIOR scores.
BELOW = (10, 30)
_PRIOR = 5


@frozen
class Excursions:
    """The excursions of a log, each run of high scores reduced to its highest point: shape (k,).

    ``positions`` are the positions of their first points. ``heights`` are the largest distances
    from the baseline in units of the loss, ``scores`` the same in standard deviations. ``rises``
    marks excursions above the baseline, ``levels`` is the baseline there. ``points`` is the length
    of the log. Runs declustering (Smith and Weissman 1994, JRSS B 56, 515-528, section 2).
    """

    positions: Ints
    heights: Floats
    scores: Floats
    rises: Mask
    levels: Floats
    points: int

    def others(
        self, height: float, score: float, first: int, last: int, highest: float = np.inf
    ) -> Floats:
        """Return the heights of comparable excursions outside a stretch, relative to ``height``.

        Heights are larger at the start of a run, where the noise is larger, so scores have to be
        comparable as well. Rises from a level above ``highest`` do not count: the run is already
        broken there.
        """
        is_clear = self.scores >= min(COMPARABLE * score, CLEAR)
        ratios: Floats = self.heights[self._outside(first, last, highest) & is_clear] / height
        return ratios

    def _outside(self, first: int, last: int, highest: float) -> Mask:
        outside = (self.positions < first) | (self.positions > last)
        return outside & (~self.rises | (self.levels <= highest))

    def is_recurring(self, others: Floats, *, single: bool) -> bool:
        """Return True if an excursion is a recurring outlier of the run.

        Examples: a hard batch every hundred steps, the first batch of each epoch, shards of data.

        Args:
            others: heights of comparable excursions, relative to the height of this excursion.
            single: whether the excursion is a single point rather than a stretch.
        """
        halves, comparable = int((others >= HALF).sum()), int((others >= COMPARABLE).sum())
        if halves < max(1 if single else 2, self.points // _POINTS):
            return False
        return not single or comparable > halves or halves >= FEW_EVENTS - (self.points < _POINTS)

    def alone(self, window: int) -> list[int]:
        """Return the position of the highest clear rise if no other excursion reaches half of it.

        Excursions within the next ``window`` points belong to the same rise.
        """
        clear = np.flatnonzero(self.rises & (self.scores >= CLEAR))
        if not len(clear):
            return []
        top = clear[np.argmax(self.heights[clear])]
        first = int(self.positions[top])
        others = self.others(self.heights[top], self.scores[top], first - MAX_GAP, first + window)
        return [] if (others >= HALF).any() else [first]

    def is_separated_by_gap(self, score: float, first: int, last: int, highest: float) -> bool:
        """Return True if a gap too wide for noise separates a score from most others."""
        return self.chance_of_separation(score, first, last, highest) <= MAX_CHANCE

    def chance_of_separation(
        self, score: float, first: int, last: int, highest: float = np.inf
    ) -> float:
        """Return the probability that noise leaves the widest gap below a score.

        The score is in standard deviations. The others are rises outside the positions from
        ``first`` to ``last``, from levels up to ``highest``. Up to three scores may be above the
        gap: two or three spikes are still spikes. The probability is corrected for the number of
        gaps (Bonferroni).
        """
        rises = self.rises & self._outside(first, last, highest)
        scores = np.sort(np.append(self.scores[rises], score))[::-1]
        rank = int((scores >= score).sum())
        chances = (
            chance_of_gap(scores[: above + depth + 1], above) * above * len(BELOW)
            for above in range(rank, FEW_EVENTS + 1)
            for depth in BELOW
        )
        return min(chances, default=1.0)


def chance_of_gap(scores: Floats, above: int) -> float:
    """Return the probability of a gap as wide as the one below the highest scores.

    Args:
        scores: shape (n,), positive, in falling order: the scores above the gap and the next ones.
        above: the number of scores above the gap, at least 1.

    If the tail is a power law, r * log(x_r / x_(r+1)) of the ordered scores x_1 > x_2 > ... are
    independent exponentials whose mean is the inverse of the index (Rényi 1953,
    doi:10.1007/BF02127580; Hill 1975, doi:10.1214/aos/1176343247); lighter tails leave smaller
    gaps. With a gamma prior for the index, and k spacings of sum s below the gap, a gap g has the
    probability (1 + g / (s + s0)) ** -(k + k0).
    """
    below = scores[above:]
    if not len(below):
        return 0.0
    gap = above * math.log(scores[above - 1] / below[0])
    spacings = float(np.log(below / below[-1]).sum()) + _PRIOR * PRIOR_WEIGHT
    return float((1 + gap / spacings) ** -(len(below) - 1 + _PRIOR))


@frozen
class Residuals:
    """The distances of medians of the next ``width`` points from the baseline: shape (n,) each.

    ``values`` are the medians, ``level`` is the baseline, ``scores`` are the distances in standard
    deviations. Spikes are searched from the position ``first``. They are compared only with points
    from ``burn_in_end``, the end of the initial descent.
    """

    values: Floats
    level: Floats
    scores: Floats
    width: int
    first: int
    burn_in_end: int

    def heights(self, where: Ints | slice) -> Floats:
        """Return the distances from the baseline at some positions, in units of the loss."""
        return self.values[where] - self.level[where]

    @cached_property
    def excursions(self) -> Excursions:
        """The excursions after the initial descent: rises, and for medians also falls."""
        scores = self.scores if self.width == 1 else np.abs(self.scores)
        far = np.flatnonzero(scores[self.burn_in_end :] > FAR_OUT) + self.burn_in_end
        starts = np.flatnonzero(np.diff(far, prepend=-np.inf) > MAX_GAP * self.width)
        heights = self.heights(far)
        return Excursions(
            positions=far[starts],
            heights=np.maximum.reduceat(np.abs(heights), starts) if len(far) else np.empty(0),
            scores=np.maximum.reduceat(scores[far], starts) if len(far) else np.empty(0),
            rises=heights[starts] > 0,
            levels=self.level[far[starts]],
            points=len(scores),
        )

    def went_up(self, where: Ints) -> Mask:
        """Return the mask of positions that are well above the three points before them, too.

        At the end of a steep descent the baseline is too low, so a distance from it is not noise.
        """
        before = np.maximum(
            where[:, np.newaxis] - self.width * np.arange(1, MIN_CONSECUTIVE + 1), 0
        )
        return self.values[where] - medians(self.values[before]) > COMPARABLE * self.heights(where)

    @cached_property
    def highest(self) -> Ints:
        """The positions of the highest points after the initial descent."""
        heights = self.heights(slice(self.burn_in_end, None))
        if len(heights) <= SUBSAMPLE_SIZE:
            return np.arange(self.burn_in_end, len(self.values))
        return np.argpartition(heights, -SUBSAMPLE_SIZE)[-SUBSAMPLE_SIZE:] + self.burn_in_end


@frozen
class Surroundings:
    """The other excursions of a run, compared with a spike found at a position of its residuals.

    Excursions near the spike belong to it. Those that start above half of its height belong to a
    run that is already broken.
    """

    residuals: Residuals
    at: int
    spike: Spike
    reach: SearchWindows

    @property
    def is_recurring(self) -> bool:
        """Whether similar excursions recur in the run."""
        single = self.residuals.width == 1
        others = self.residuals.excursions.others(
            self._height, self._score, self._first, self._last, self._halfway
        )
        is_point = single and self.spike.recovered is not False
        return self.residuals.excursions.is_recurring(others, single=is_point)

    @property
    def is_separated(self) -> bool:
        """Whether a gap too wide for noise separates the spike from most other excursions."""
        return self.residuals.excursions.is_separated_by_gap(
            self._score, self._first, self._last, self._halfway
        )

    def has_noise_as_high(self, limit: float) -> bool:
        """Return True if noise below ``limit`` standard deviations is as high elsewhere."""
        residuals, where = self.residuals, self.residuals.highest
        where = where[
            (where < self.spike.onset - 2 * residuals.width) | (where >= self._last - MAX_GAP)
        ]
        is_noise = residuals.scores[where] < min(self._score, limit)
        where = where[(residuals.level[where] <= self._halfway) & is_noise]
        # Medians of noise vary less than points.
        ratio = 1.0 if residuals.width == 1 else HALF
        high = where[residuals.heights(where) > ratio * self._height]
        return bool(residuals.went_up(high).any())

    @cached_property
    def _part(self) -> slice:
        single = self.residuals.width == 1
        last = self.spike.peak if single else self.at + self.residuals.width
        return slice(self.at, last + 1)

    @cached_property
    def _height(self) -> float:
        return float(self.residuals.heights(self._part).max())

    @cached_property
    def _score(self) -> float:
        return float(self.residuals.scores[self._part].max())

    @cached_property
    def _halfway(self) -> float:
        return float(self.residuals.level[self.at]) + self.spike.height / 2

    @property
    def _first(self) -> int:
        return self.spike.onset - 2 * MAX_GAP

    @property
    def _last(self) -> int:
        after = self.reach.window // QUARTERS if self.spike.recovered else self.reach.window
        return self.spike.end + after + MAX_GAP


def has_similar_noise(x: Floats, spike: Spike) -> bool:
    """Return True if single losses elsewhere in a short log are similarly far above their level.

    Args:
        x: shape (n,), finite.
        spike: a spike that did not last.

    A short log has few points after its initial descent, and too few show the noise. The level
    here is a centered median, which follows a descent without a lag, so only the first tenth of
    the log is excluded, and nothing if the log begins at its later level. One other excursion has
    to reach half of the height, and FEW_EVENTS have to be comparable.
    """
    heights = x - centered_median(x, 2 * MIN_TREND_POINTS + 1)
    early = max(len(x) // TENTHS, MIN_SAMPLE)
    if median(x[:early]) > float(quantiles(x[early:], (1 - QUARTER,))[0]):
        heights[:early] = 0.0
    heights[max(spike.onset - CONTEXT_POINTS, 0) : spike.end + CONTEXT_POINTS] = 0.0
    highest: list[float] = []
    for _ in range(FEW_EVENTS):
        top = int(np.argmax(heights))
        highest.append(float(heights[top]))
        heights[max(top - CONTEXT_POINTS, 0) : top + CONTEXT_POINTS + 1] = 0.0
    return highest[0] >= HALF * spike.height and highest[-1] >= COMPARABLE * spike.height


def point_residuals(x: Floats, base: TrailingBaseline, first: int) -> Residuals:
    """Return the distances of single points of ``x``, shape (n,) and finite, from the baseline.

    Spikes are searched from the position ``first``.
    """
    scores = x - base.level
    scores /= base.sigma
    return Residuals(
        values=x,
        level=base.level,
        scores=scores,
        width=1,
        first=first,
        burn_in_end=_burn_in_end(base.level, first),
    )


def centered_baseline(x: Floats) -> TrailingBaseline:
    """Return the level and deviation of the points around each point: ``x`` has shape (n,), finite.

    On a descent, the slope inflates the deviation of the points before. The mean of the medians
    before and after a point follows a descent, so the distance from it is noise.
    """
    padded = np.pad(x, CONTEXT_POINTS, mode="edge")
    sides = medians(np.lib.stride_tricks.sliding_window_view(padded, CONTEXT_POINTS))
    level = (sides[: len(x)] + sides[CONTEXT_POINTS + 1 :]) / 2
    distances = np.abs(x - level)
    sigma = MAD_TO_SIGMA * centered_median(distances, 2 * LEAST + 1)
    floor = max(QUARTER * MAD_TO_SIGMA * median(distances), rounding(x), TINY)
    return TrailingBaseline(level=level, sigma=np.maximum(sigma, floor))


def median_residuals(
    x: Floats, base: TrailingBaseline, width: int, points: Residuals
) -> Residuals | None:
    """Return the distances of medians of ``width`` points from the baseline.

    None if the log is too short for these windows.
    """
    if len(x) < points.first + 2 * width:
        return None
    # The median of the next points is the trailing median, shifted by one window.
    values = preceding_median(x, width)[width - 1 :]
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
        burn_in_end=points.burn_in_end,
    )


def _burn_in_end(level: Floats, first: int) -> int:
    """Return the position where the level has completed 3/4 of its descent to the usual value.

    It may be before ``first``: in a short log, the first points are many of those that show the
    noise.
    """
    usual = typical(level[first:])
    begin = min(MIN_SAMPLE, first)
    return begin + int(np.argmax(level[begin:] <= usual + QUARTER * (level[begin] - usual)))
