"""The excursions of a log, each compared with all others of the same log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints, Mask

# Points this many deviations out, with no more than so many between them, are one excursion.
FAR_OUT = 2.5
APART = 2

# An excursion is compared with another if its score reaches this share of the other's, or is clear
# in itself. Heights alone would not do: they are larger at the start of a run, where noise is.
_SHARE_OF_SCORE = 0.3
_CLEAR = 5.0

# An excursion is a habit if others reach half of its height: one other for a single point, two for
# a stretch, and one in so many points of a long log. But two or three points with nothing between
# them and the noise are spikes: unless some others come near, it takes three, or in a log of fewer
# points two.
_HALF = 0.5
_POINTS = 750
_NEAR = 0.2
_MANY = 3

# An excursion stands alone if no other reaches this share of it. Only the highest few are checked.
ALONE = 0.4
_MOST = 64

# A gap between scores sets those above it apart if the tail of noise would leave one as wide with
# at most this chance. The index of that tail is estimated from the next scores below the gap, from
# few of them and from more, as the first may be spikes themselves; between so many and so many may
# lie above it together. The prior for the inverse of the index counts as much as five scores; it
# is a little heavier than the normal distribution is at three deviations.
_BY_CHANCE = 0.05
_BELOW = (10, 30)
_TOGETHER = (3, 16)
_PRIOR = 5
_PRIOR_MEAN = 0.15


@dataclass(frozen=True, kw_only=True, eq=False)
class Excursions:
    """The excursions of a log: shape (k,) each.

    ``places`` are the positions of their first points; ``heights`` how far the farthest lie from
    the baseline, in units of the loss; ``scores`` the same in deviations; ``rises`` which of them
    lie above it; ``levels`` the baseline there. ``points`` is the length of the log.
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

        Rises from a level above ``highest`` do not count: there the run is broken already.
        """
        clear = self.scores >= min(_SHARE_OF_SCORE * score, _CLEAR)
        shares: Floats = self.heights[self._outside(first, last, highest) & clear] / height
        return shares

    def _outside(self, first: int, last: int, highest: float) -> Mask:
        """Return which excursions lie outside a stretch and do not rise from above a level."""
        outside = (self.places < first) | (self.places > last)
        return outside & (~self.rises | (self.levels <= highest))

    def are_habit(self, others: Floats, *, single: bool) -> bool:
        """Tell whether an excursion is a habit of this run, by how high others reach.

        Such are a hard batch every hundred steps, the first batch of each epoch, shards of data.

        Args:
            others: heights of comparable excursions, as shares of this one's.
            single: whether it is a single point, and not a stretch.
        """
        halves, near = int((others >= _HALF).sum()), int((others >= _NEAR).sum())
        if halves < max(1 if single else 2, self.points // _POINTS):
            return False
        return not single or near > halves or halves >= _MANY - (self.points < _POINTS)

    def alone(self, window: int) -> list[int]:
        """Return the places of the clear rises that no other excursion comes close to.

        What follows within ``window`` points counts as part of the same.
        """
        found = []
        for i in np.argsort(-self.heights)[:_MOST].tolist():
            place, score = int(self.places[i]), float(self.scores[i])
            if self.rises[i] and score >= _CLEAR:
                others = self.others(self.heights[i], score, place - APART, place + window)
                if not (others >= ALONE).any():
                    found.append(place)
        return found

    def are_parted(self, score: float, first: int, last: int, highest: float) -> bool:
        """Tell whether a gap too wide for noise separates this score from most others.

        The score is in deviations. The others are the rises outside the positions from ``first`` to
        ``last``, from levels up to ``highest``. A few may lie above the gap together, more of them
        in a long log: two or three spikes are spikes.
        """
        rises = self.rises & self._outside(first, last, highest)
        scores = np.sort(np.append(self.scores[rises], score))[::-1]
        rank = int((scores >= score).sum())
        fewest, most = _TOGETHER
        together = min(max(fewest, self.points // _POINTS), most)
        return any(
            _chance_of_gap(scores[: above + depth + 1], above) <= _BY_CHANCE / above / len(_BELOW)
            for above in range(rank, together + 1)
            for depth in _BELOW
        )


def _chance_of_gap(scores: Floats, above: int) -> float:
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
    spacings = float(np.log(below / below[-1]).sum()) + _PRIOR * _PRIOR_MEAN
    return float((1 + gap / spacings) ** -(len(below) - 1 + _PRIOR))


def excursions(
    heights: Floats, scores: Floats, level: Floats, first: int, apart: int, up: Mask
) -> Excursions:
    """Return the excursions of a log: each run of high scores, reduced to its highest point.

    Args:
        heights: distances from the baseline, shape (n,), in units of the loss.
        scores: the same in deviations.
        level: the baseline.
        first: positions before this one do not count.
        apart: excursions with at most this many points between them are one.
        up: which points lie above the baseline.

    Runs declustering (Smith and Weissman 1994, JRSS B 56, 515-528, section 2).
    """
    far = np.flatnonzero(scores[first:] > FAR_OUT) + first
    gaps = np.diff(far, prepend=-np.inf)
    starts = np.flatnonzero(gaps > apart)
    return Excursions(
        places=far[starts],
        heights=np.maximum.reduceat(heights[far], starts) if len(far) else np.empty(0),
        scores=np.maximum.reduceat(scores[far], starts) if len(far) else np.empty(0),
        rises=up[far[starts]],
        levels=level[far[starts]],
        points=len(scores),
    )
