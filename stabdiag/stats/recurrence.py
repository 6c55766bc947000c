"""Recurring spikes: the group of peaks that a gap separates from the noise of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.peaks import BELOW, MAX_GAP, Residuals, chance_of_gap
from stabdiag.stats.standards import CLEAR_RATIO, FAR_RATIO, HALF, TENTH
from stabdiag.stats.tails import FAR_OUT

# The maximum probability that the tail of the noise leaves a gap this wide below a few highest
# peaks.
_MAX_CHANCE = 0.0003

# The minimum score of a peak in a group, in standard deviations, and its minimum ratios to the
# highest peak of the noise, in scores and in units of the loss. The noise of a falling loss is
# larger at its start.
_MIN_SCORE = 8.0
_MIN_RATIO = 1.75
_MIN_HEIGHT_RATIO = CLEAR_RATIO

# The maximum fraction of points in a rare group. If the ratio is at least _CLEAR_RATIO, the second
# fraction applies, or the third to up to _MAX_FEW peaks, so that a short log may have as many.
# Peaks with a clear ratio that are not rare, up to _MAX_FREQUENT_RATE, are frequent.
_MAX_RATE = 0.01
_CLEAR_RATIO = FAR_RATIO
_MAX_CLEAR_RATE = 0.02
_MAX_FEW_RATE, _MAX_FEW = 0.04, 10
_MAX_FREQUENT_RATE = TENTH


@frozen
class PeakGroup:
    """The peaks that a gap separates from the noise: shape (k,) each, in the order of the log.

    ``starts`` are the positions where the excursions first reach half of their score, ``ends``
    the positions after their last points, and ``peaks`` their highest points. ``heights`` are in
    units of the loss above the level before them and ``scores`` in deviations. ``noise`` is the
    highest score of the other peaks. Peaks that are not ``is_rare`` are too many to be single
    events, such as hard batches in a few percent of the steps.
    """

    starts: Ints
    ends: Ints
    peaks: Ints
    heights: Floats
    scores: Floats
    noise: float
    is_rare: bool

    def __len__(self) -> int:
        return len(self.peaks)

    def take(self, which: Mask) -> PeakGroup:
        """Return the group restricted to a mask of its peaks, shape (k,)."""
        return replace(
            self,
            starts=self.starts[which],
            ends=self.ends[which],
            peaks=self.peaks[which],
            heights=self.heights[which],
            scores=self.scores[which],
        )

    def has(self, position: int) -> bool:
        """Return True if a position belongs to one of the peaks."""
        at = int(np.searchsorted(self.starts, position, side="right")) - 1
        return at >= 0 and position < self.ends[at]


def find_peak_group(points: Residuals) -> PeakGroup | None:
    """Return the largest group of peaks that is separated from the noise, or None.

    Args:
        points: the distances of single losses from the level before them.

    The k highest declustered peaks are a group if the gap below them is too wide for the tail of
    the noise (Rényi 1953, doi:10.1007/BF02127580), in scores and in units of the loss.
    """
    excursions = _decluster(points)
    if excursions is None:
        return None
    peak_scores, heights, late = excursions.scores, excursions.heights, excursions.late
    order = np.flatnonzero(late)[np.argsort(-peak_scores[late], kind="stable")]
    tested = len(points.scores) - max(points.first, points.burn_in_end)
    count, is_rare = _group_size(peak_scores[order], heights[order], tested)
    if not count:
        return None
    group, others = order[:count], order[count:]
    noise = float(peak_scores[others].max(initial=FAR_OUT))
    high = peak_scores >= max(_MIN_SCORE, _MIN_RATIO * noise)
    high &= heights >= _MIN_HEIGHT_RATIO * heights[others].max(initial=0.0)
    # Noise of the initial descent is not compared, but its spikes count.
    members = np.flatnonzero(np.isin(np.arange(len(late)), group) | (high & ~late))
    return _group(points, excursions, members, noise, is_rare=is_rare)


def high_peaks(points: Residuals) -> PeakGroup | None:
    """Return all peaks that are high enough for a group, unless they are too frequent.

    No gap needs to separate them from the noise.
    """
    excursions = _decluster(points)
    if excursions is None:
        return None
    high = excursions.scores >= _MIN_SCORE
    if high.sum() > _MAX_FREQUENT_RATE * len(points.scores):
        return None
    noise = float(excursions.scores[~high].max(initial=FAR_OUT))
    return _group(points, excursions, np.flatnonzero(high), noise, is_rare=False)


@frozen
class _Declustered:
    """The declustered excursions of a log: shape (k,), and the positions of their points.

    ``begins`` are indices of their first points in ``far``. ``late`` marks those after the initial
    descent.
    """

    far: Ints
    begins: Ints
    scores: Floats
    heights: Floats
    late: Mask


def _decluster(points: Residuals) -> _Declustered | None:
    """Return the excursions, or None if none is as high as a peak of a group."""
    scores = points.scores
    far = np.flatnonzero(scores[points.first :] > FAR_OUT) + points.first
    if not len(far) or scores[far].max() < _MIN_SCORE:
        return None
    begins = np.flatnonzero(np.diff(far, prepend=-np.inf) > MAX_GAP)
    return _Declustered(
        far=far,
        begins=begins,
        scores=np.maximum.reduceat(scores[far], begins),
        heights=np.maximum.reduceat(points.heights(far), begins),
        late=far[begins] >= points.burn_in_end,
    )


def _group(
    points: Residuals, excursions: _Declustered, members: Ints, noise: float, *, is_rare: bool
) -> PeakGroup:
    """Return excursions as a group, without parts of the initial descent that did not rise."""
    scores, far, begins = points.scores, excursions.far, excursions.begins
    ends = np.append(begins[1:], len(far))[members]
    parts = [far[begin:end] for begin, end in zip(begins[members], ends, strict=True)]
    peaks = np.array([part[np.argmax(scores[part])] for part in parts])
    starts = np.array(
        [
            part[np.argmax(scores[part] >= HALF * scores[peak])]
            for part, peak in zip(parts, peaks, strict=True)
        ]
    )
    group = PeakGroup(
        starts=starts,
        ends=far[ends - 1] + 1,
        peaks=peaks,
        heights=excursions.heights[members],
        scores=excursions.scores[members],
        noise=noise,
        is_rare=is_rare,
    )
    return group.take(excursions.late[members] | points.went_up(peaks))


def _group_size(scores: Floats, heights: Floats, points: int) -> tuple[int, bool]:
    """Return the number of highest peaks that a gap separates from the others, and if it is rare.

    Args:
        scores: shape (n,), of all peaks, in falling order.
        heights: shape (n,), of the same peaks.
        points: the number of tested points.

    A rare group is preferred. The number is 0 if no group is separated.
    """
    next_scores = np.append(scores[1:], FAR_OUT)
    ratios = scores / next_scores
    lowest = np.minimum.accumulate(heights)
    highest_below = np.append(np.maximum.accumulate(heights[::-1])[::-1][1:], 0.0)
    counts = np.arange(1, len(scores) + 1)
    has_clear_ratio = ratios >= _CLEAR_RATIO
    clear_rates = np.where(counts <= _MAX_FEW, _MAX_FEW_RATE, _MAX_CLEAR_RATE)
    is_rare = counts <= np.where(has_clear_ratio, clear_rates, _MAX_RATE) * points
    is_frequent = has_clear_ratio & ~is_rare & (counts <= _MAX_FREQUENT_RATE * points)
    clear = (scores >= _MIN_SCORE) & (ratios >= _MIN_RATIO)
    clear &= lowest >= _MIN_HEIGHT_RATIO * highest_below
    by_height = np.sort(heights)[::-1]
    for kind in (is_rare, is_frequent):
        clear_counts: list[int] = counts[clear & kind][::-1].tolist()
        for count in clear_counts:
            chance = max(_gap_chance(scores, count), _gap_chance(by_height, count))
            if chance <= _MAX_CHANCE:
                return count, kind is is_rare
    return 0, False


def _gap_chance(values: Floats, count: int) -> float:
    """Return the probability that a tail leaves this gap below its ``count`` highest values."""
    return min(chance_of_gap(values[: count + depth + 1], count) for depth in BELOW)
