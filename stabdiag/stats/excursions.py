"""The excursions of a log, each compared with all others of the same log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Points this far out, with no more than so many between them, are one excursion.
FAR_OUT = 2.5
APART = 2

# Another excursion compares with this one if its score reaches this share of this one's, or is
# clear in itself: heights alone are larger at the start of a run, where noise is.
_SHARE_OF_SCORE = 0.3
_CLEAR = 5.0

# What others reach half of, at least once in so many points, is a habit. Of single points one other
# is enough, and of lasting rises two. But two or three spikes with nothing else between them and
# the noise are spikes: then single points take three others.
_HALF = 0.5
_POINTS = 750
_NEAR = 0.2
_MANY = 3

# What no other reaches this share of stands alone. So many of the highest are asked.
_ALONE = 0.35
_MOST = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Excursions:
    """The excursions of a log: shape (k,) each.

    ``places`` are the positions of their first points, ``heights`` those of their highest points
    above the baseline in units of the loss, ``scores`` the same in deviations, ``rises`` says that
    they lie above it, ``levels`` are those of the baseline; ``points`` is the length of the log.
    """

    places: Ints
    heights: Floats
    scores: Floats
    rises: NDArray[np.bool_]
    levels: Floats
    points: int

    def others(
        self, height: float, score: float, first: int, last: int, highest: float = np.inf
    ) -> Floats:
        """Return how high comparable excursions outside a stretch reach, as shares of this height.

        Rises from a level above ``highest`` do not count: that run is broken already.
        """
        outside = (self.places < first) | (self.places > last)
        outside &= ~self.rises | (self.levels <= highest)
        clear = self.scores >= min(_SHARE_OF_SCORE * score, _CLEAR)
        shares: Floats = self.heights[outside & clear] / height
        return shares

    def are_habit(self, others: Floats, *, single: bool) -> bool:
        """Tell whether excursions like this one, whose shares are ``others``, are the rule.

        A loss that has jumped as high before or after, and for as long, is like that: a hard batch
        every hundred steps, the first batch of each epoch, shards of data.
        """
        halves, near = int((others >= _HALF).sum()), int((others >= _NEAR).sum())
        if halves < max(1 if single else 2, self.points // _POINTS):
            return False
        return not single or near > halves or halves >= _MANY

    def alone(self, window: int) -> list[int]:
        """Return the places of the clear rises that no other excursion comes close to.

        What follows within ``window`` points belongs to the same.
        """
        found = []
        for i in np.argsort(-self.heights)[:_MOST].tolist():
            if self.rises[i] and self.scores[i] >= _CLEAR:
                place = int(self.places[i])
                others = self.others(self.heights[i], self.scores[i], place - APART, place + window)
                if not (others >= _ALONE).any():
                    found.append(place)
        return sorted(found)


def excursions(
    heights: Floats, scores: Floats, level: Floats, first: int, apart: int, up: NDArray[np.bool_]
) -> Excursions:
    """Return the excursions of a log: each run of high scores, reduced to its highest point.

    Args:
        heights: distances from the baseline, shape (n,), in units of the loss.
        scores: the same in deviations.
        level: the baseline.
        first: positions before this one do not count.
        apart: points between two excursions, at least.
        up: which points lie above the baseline.

    Runs declustering (Smith and Weissman 1994, JRSS B 56, 515-528, section 2).
    """
    far = np.flatnonzero(scores[first:] > FAR_OUT) + first
    if not len(far):
        nothing = np.empty(0)
        return Excursions(
            places=far,
            heights=nothing,
            scores=nothing,
            rises=far > 0,
            levels=nothing,
            points=len(scores),
        )
    starts = np.concatenate([[0], np.flatnonzero(np.diff(far) > apart) + 1])
    tops = np.maximum.reduceat(heights[far], starts)
    peaks = np.maximum.reduceat(scores[far], starts)
    return Excursions(
        places=far[starts],
        heights=tops,
        scores=peaks,
        rises=up[far[starts]],
        levels=level[far[starts]],
        points=len(scores),
    )
