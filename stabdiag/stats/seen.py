"""The log through windows: how high each point, or the next few, lie above the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.baseline import Baseline, median_before
from stabdiag.stats.excursions import APART, Excursions, excursions
from stabdiag.stats.quantiles import median, medians, typical
from stabdiag.stats.rolling import MAD_TO_SIGMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.stats.shape import Reach, Spike

    Floats = NDArray[np.float64]

# Another series goes up with the loss, and stays there, where the median of so many points lies so
# many deviations above what it was before; one that hardly varies, above a thousandth of itself.
_STAY = 20
_HIGH = 4.0
_HARDLY = 1e-3

# A stretch is surpassed by noise that reaches this share of its height, a point by what is higher.
# So many of the highest points are asked; each has to lie above what came just before it, so many
# like it, by a share of its height.
_AS_HIGH = 0.6
_ASKED = 4096
_BEFORE = np.arange(1, 4)
_UP = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
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
        """Tell whether the run has excursions like this spike again and again."""
        height, score = self._top(at, spike)
        others = self.excursions.others(height, score, *self._own(at, spike, reach))
        return self.excursions.are_habit(
            others, single=self.width == 1 and spike.recovered is not False
        )

    def is_in_tail(self, at: int, spike: Spike, reach: Reach) -> bool:
        """Tell whether a single point that came back may be the farthest of heavy-tailed noise."""
        if self.width > 1 or not spike.recovered:
            return False
        _, score = self._top(at, spike)
        return not self.excursions.are_parted(score, *self._own(at, spike, reach))

    def _own(self, at: int, spike: Spike, reach: Reach) -> tuple[int, int, float]:
        """Return the first and last position that are a spike's own, and a level halfway up it."""
        halfway = float(self.level[at]) + spike.height / 2
        return spike.onset - 2 * APART, _over(spike, reach) + APART, halfway

    def is_surpassed(self, at: int, spike: Spike, reach: Reach, limit: float) -> bool:
        """Tell whether the run's own noise reaches as high as this spike.

        Noise is what lies elsewhere and stands out no farther than ``limit``, in deviations: where
        it is wide, on hard data or early on, it goes higher than much of what is far out on a quiet
        stretch. What goes up from a level that the spike hardly reaches does not count. A jump that
        stayed is more than the single point that it begins with: it is held against no points.
        """
        if self.width == 1 and spike.recovered is False:
            return False
        height, score = self._top(at, spike)
        where, first = self._highest, spike.onset - 2 * self.width
        elsewhere = where[(where < first) | (where >= _over(spike, reach))]
        elsewhere = elsewhere[self.level[elsewhere] <= self.level[at] + spike.height / 2]
        noise = elsewhere[self.scores[elsewhere] < min(score, limit)]
        share = 1.0 if self.width == 1 else _AS_HIGH
        return bool(self._went_up(noise[self.heights[noise] > share * height]).any())

    def _went_up(self, where: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell at which positions the log lies well above what came just before, too.

        Where a steep descent ends, the baseline goes on downwards for a while: what lies above it
        there is no noise.
        """
        if not len(where):
            return np.empty(0, dtype=bool)
        values = self.level[: len(self.heights)] + self.heights
        before = np.maximum(where[:, np.newaxis] - self.width * _BEFORE, 0)
        return values[where] - medians(values[before]) > _UP * self.heights[where]

    def _top(self, at: int, spike: Spike) -> tuple[float, float]:
        """Return how high a spike lies that is seen at a position, and in deviations."""
        around = slice(at, (spike.peak if self.width == 1 else at + self.width) + 1)
        return float(self.heights[around].max()), float(self.scores[around].max())

    @cached_property
    def _highest(self) -> NDArray[np.intp]:
        """The positions of the highest points once the run has made its progress.

        Of a long log, these are enough to ask.
        """
        heights = self.heights[self.settled :]
        if len(heights) <= _ASKED:
            return np.arange(self.settled, len(self.heights))
        return np.argpartition(heights, -_ASKED)[-_ASKED:] + self.settled


def _over(spike: Spike, reach: Reach) -> int:
    """Return where the baseline has got over a spike."""
    return spike.end + (reach.window // 4 if spike.recovered else reach.window)


def seen_singly(x: Floats, base: Baseline, first: int) -> Seen:
    """Return how high each point lies above the baseline."""
    heights = x - base.level
    return Seen(
        level=base.level,
        heights=heights,
        scores=heights / base.sigma,
        width=1,
        first=first,
        settled=_settled(base.level, first),
    )


def seen_ahead(x: Floats, base: Baseline, width: int, single: Seen) -> Seen | None:
    """Return how high the median of the next points lies above the baseline, from each point on.

    None for a log too short for such windows.
    """
    if len(x) < single.first + 2 * width:
        return None
    # The median of the points before, one window later, is the median of the points from here.
    ahead = median_before(np.append(x, x[-1]), width)[width:]
    heights = ahead - base.level[: len(ahead)]
    return Seen(
        level=base.level,
        heights=heights,
        scores=heights / base.sigma[: len(ahead)],
        width=width,
        first=single.first,
        settled=single.settled,
    )


def stays_up(x: Floats, at: int, window: int) -> bool:
    """Tell whether a series rises far above its earlier level at a position, and stays there.

    Args:
        x: shape (n,), finite.
        at: the position; one beyond the end has nothing above.
        window: points before it that tell what was usual.

    What is compared is the median of the next points, of fewer at the end.
    """
    before, ahead = x[max(at - window, 0) : at], x[at : at + _STAY]
    if len(before) < _STAY or not len(ahead):
        return False
    level = median(before)
    deviation = median(np.abs(before - level)) * MAD_TO_SIGMA
    return median(ahead) - level > _HIGH * max(deviation, _HARDLY * abs(level))


def _settled(level: Floats, first: int) -> int:
    """Return the position from which on a fall of the loss is no part of its descent."""
    usual = typical(level[first:])
    return first + int(np.argmax(level[first:] <= usual + (level[first] - usual) / 4))
