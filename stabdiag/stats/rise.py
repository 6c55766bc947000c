"""Net increase of the loss that did not recover."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import (
    block_levels,
    level_noise,
    moving_means,
    noise_of_means,
    pair_means,
)
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR_RATIO,
    CONTEXT_POINTS,
    FIFTH,
    HALF,
    HUNDREDFOLD,
    MAJORITY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    QUARTERS,
    TENFOLD,
    TENTH,
    TWENTIETHS,
    TWICE,
)
from stabdiag.stats.trend import mann_kendall

# Levels are means over these fractions of the window: short for fast climbs, long for slow ones.
_WINDOW_FRACTIONS = (TENTH, HALF)

# In a series shorter than twice MIN_TREND_POINTS, a rise needs no trend if at least two points
# exceed everything before them by this many times its range, and by a factor. The factor is smaller
# after many points and larger after a single one. Chosen on pieces of 3 to 19 losses cut out of
# healthy runs: 1 in 500 is called a rise.
MIN_RANGE_MULTIPLE = 3.0
_TIMES, _TIMES_OF_MANY, _TIMES_OF_ONE = TENFOLD, TWICE, HUNDREDFOLD

# A rise also needs no trend if this many consecutive points increase, by at least this factor in
# total. Fewer are enough after as many decreasing points. In the same pieces, 1 in 2,000 is called
# a rise by either rule.
_MIN_INCREASING = 6
_MIN_AFTER_DECREASE = 4
_MIN_TOTAL_RATIO = CLEAR_RATIO

# A loss that ends ten times above everything before it, and above this value, needs fewer points:
# one before and several after, or three that grow by a clear factor each. The value is larger than
# the cross-entropy of a uniform guess among 256k tokens, which the noise of the first steps does
# not reach. In the same pieces, 1 in 8,000 is called a rise.
_BEYOND_GUESSING = math.log(2**18)
_MIN_INCREASING_TENFOLD = MIN_CONSECUTIVE

# A rise has to exceed this many standard deviations of such levels, and the largest earlier rise
# that recovered by this factor. A rise of DRAWUP_FACTOR times both is obvious.
_LEVEL_SIGMAS = BEYOND_CHANCE
DRAWUP_FACTOR = TWICE

# The onset of a climb is the point where it reached this fraction of its height, measured by means
# whose standard deviation is smaller by the factor _MIN_SIGNAL_RATIO.
ONSET_FRACTION = TENTH
_MIN_SIGNAL_RATIO = TWICE

# The precision of a level is limited by its last digit, even if the level is constant.
_EPSILON = float(np.finfo(np.float64).eps)
_LEAST = float(np.finfo(np.float64).tiny)


@frozen
class Rise:
    """The rise from the best level of the loss to its end.

    ``best``, ``onset`` and ``crest`` are the positions of the best level, of the last point near
    it, and of the point where most of the rise was complete. ``bar`` is the largest rise that the
    run's own noise and earlier rises explain, ``progress`` is the distance from the first level to
    the best. Levels, ``bar`` and ``progress`` are in units of the loss. A level is a mean of
    ``points`` losses; ``deviation`` is the deviation of a single loss. ``p_value`` is the p-value
    of a rising trend during the rise or over the last window, the smaller of the two;
    ``recent_p_value`` is the one over the last window.
    """

    best: int
    onset: int
    crest: int
    best_level: float
    last_level: float
    bar: float
    progress: float
    points: int
    deviation: float
    p_value: float
    recent_p_value: float

    @property
    def amount(self) -> float:
        """The net rise at the end."""
        return self.last_level - self.best_level


def net_rise(x: Floats, window: int, significance: float) -> Rise | None:
    """Measure the net rise from the best level to the end.

    Args:
        x: shape (n,), finite, without recovered spikes.
        window: points over which a rise counts.
        significance: p-value below which a rise is a trend.

    Returns:
        The rise at the time scale where it is clearest. Scales where the rise exceeds the run's
        own noise are preferred: the one with the most significant trend, else the one with the
        largest amount. None if there are fewer points than ``window`` or ``MIN_TREND_POINTS``. In a
        series shorter than twice ``MIN_TREND_POINTS``, a rise far above everything before it has
        priority.

    No model of the noise is needed: levels are means of blocks, and a rise that recovered before
    the best level may happen again.
    """
    if len(x) < 2 * MIN_TREND_POINTS:
        rise = _far_above_past(x) or _steady(x)
        if rise is not None:
            return rise
    if len(x) < max(window, MIN_TREND_POINTS):
        return None
    recent, deviation = mann_kendall(x[-window:]), diff_sigma(x)
    sizes = [max(round(window * share), 2) for share in _WINDOW_FRACTIONS]
    rises = [
        _at_scale(x, window, size, recent, deviation)
        for size in sizes
        if len(x) >= CONTEXT_POINTS * size
    ]
    # A loss that ends at its best level has recovered, even if the mean of the last window is high.
    rises = [rise for rise in rises if x[-CONTEXT_POINTS:].max() > rise.best_level] or rises[:1]
    clearest = _clearest(_without_dips(rises, sizes, len(x)), significance)
    return replace(clearest, onset=climb_onset(x, clearest, sizes[0]))


def _without_dips(rises: list[Rise], sizes: list[int], count: int) -> list[Rise]:
    """Return the rises without those from a dip back to the usual level.

    The lowest of many short levels is low by chance. After a climb, the loss is higher than before
    it, which long levels show as well if it stayed up for twice their length. An obvious rise is
    not a chance.

    Args:
        rises: one for each scale, from short to long levels.
        sizes: the numbers of losses in half a level, for all scales.
        count: the number of losses.
    """
    *short, long = rises
    if long.points != 2 * sizes[-1] or long.amount > long.bar:
        return rises

    def is_dip(rise: Rise) -> bool:
        is_moderate = rise.bar < rise.amount <= DRAWUP_FACTOR * rise.bar
        return is_moderate and count - rise.crest >= 2 * long.points

    return [*(rise for rise in short if not is_dip(rise)), long]


def _clearest(rises: list[Rise], significance: float) -> Rise:
    clear = [rise for rise in rises if rise.amount > rise.bar]
    if clear:
        steady = min(clear, key=lambda rise: rise.p_value)
        if steady.p_value < significance:
            return steady
    return max(rises, key=lambda rise: rise.amount / rise.bar)


def _far_above_past(x: Floats) -> Rise | None:
    """Return the rise of a short series that stays far above all earlier points, if there is one.

    Args:
        x: shape (n,), finite.

    Its ``p_value`` is the probability that the highest points come last in a random order.
    """
    n = len(x)
    high = np.maximum.accumulate(x)[:-1]
    span = high - np.minimum.accumulate(x)[:-1]
    low = np.minimum.accumulate(x[::-1])[::-1][1:]
    count = np.arange(n - 1, 0, -1)
    times = np.where(count < CONTEXT_POINTS, _TIMES, _TIMES_OF_MANY)
    times[:1] = _TIMES if n > MIN_CONSECUTIVE and x[-1] > _BEYOND_GUESSING else _TIMES_OF_ONE
    is_far = (
        (count > 1) & (high > 0) & (low > times * high) & (low > high + MIN_RANGE_MULTIPLE * span)
    )
    if not is_far.any():
        return None
    first = int(np.argmax(is_far)) + 1
    # If the loss falls again, its low start may have been a coincidence, unless it ends far above.
    ends_far_above = x[-1] > max(_TIMES_OF_ONE * high[first - 1], _BEYOND_GUESSING)
    if x[-1] < x[first] / 2 and not ends_far_above:
        return None
    chance = 1 / math.comb(n, first)
    return _of_few(x, first, max(float(span[first - 1]), _LEAST), chance)


def _steady(x: Floats) -> Rise | None:
    """Return the rise of a short series that increases steadily by a large factor, if it does.

    Args:
        x: shape (n,), finite.

    Its ``p_value`` is the probability that a random order is increasing.
    """
    if len(x) < MIN_CONSECUTIVE:
        return None
    best = int(np.argmin(x))
    count = len(x) - best
    if count < _min_increasing(x, best) or not (np.diff(x[best:]) > 0).all():
        return None
    if not x[-1] > _MIN_TOTAL_RATIO * x[best] > 0:
        return None
    return _of_few(x, best + 1, _LEAST, 1 / math.factorial(count))


def _min_increasing(x: Floats, best: int) -> int:
    """Return the number of points after ``best`` that have to increase."""
    past, climbing = x[: best + 1], x[best:]
    is_tenfold = x[-1] > max(TENFOLD * past.max(initial=0.0), _BEYOND_GUESSING)
    if is_tenfold and bool((climbing[1:] > _MIN_TOTAL_RATIO * climbing[:-1]).all()):
        return _MIN_INCREASING_TENFOLD
    is_turn = best + 1 >= _MIN_AFTER_DECREASE and bool((np.diff(past) < 0).all())
    return _MIN_AFTER_DECREASE if is_turn else _MIN_INCREASING


def _of_few(x: Floats, first: int, bar: float, chance: float) -> Rise:
    """Return the rise of a short series that begins before the position ``first``."""
    best = int(np.argmin(x[:first]))
    return Rise(
        best=best,
        onset=first - 1,
        crest=first + int(np.argmax(x[first:])),
        best_level=float(x[best]),
        last_level=float(x[-1]),
        bar=bar,
        progress=float(x[0] - x[best]),
        points=1,
        deviation=diff_sigma(x),
        p_value=chance,
        recent_p_value=chance,
    )


def _at_scale(x: Floats, window: int, size: int, recent: float, deviation: float) -> Rise:
    levels, starts = block_levels(x, size)
    low = pair_means(levels)
    best = int(np.argmin(low))
    up = low[best:] - low[best]
    high = float(up.max())
    crest = best + int(np.argmax(up >= MAJORITY * high))
    foot = best + _last_low_position(up[: crest - best + 1], FIFTH * high)
    drawup = levels[: best + 1] - np.minimum.accumulate(levels[: best + 1])
    # The noise of a diverging run grows with its loss, so it is measured before the rise.
    calm = slice(0, foot + 1 if foot >= MIN_SAMPLE else len(levels))
    # The initial descent curves more than the noise, so it is skipped.
    down = int(np.argmax(levels <= low[-1]))
    if calm.stop - down >= MIN_SAMPLE:
        calm = slice(down, calm.stop)
    progress = max(median(x[: max(window // TWENTIETHS, MIN_CONSECUTIVE)]) - float(low[best]), 0.0)
    noise = max(level_noise(levels[calm]), noise_of_means(x[starts[0] :], size, calm))
    bar = max(_LEVEL_SIGMAS * noise, DRAWUP_FACTOR * float(drawup.max(initial=0.0)))
    # A loss that grew a millionfold left its level long before a fifth of its final height.
    onset = best + _last_low_position(up[: foot - best + 1], max(FIFTH * progress, bar))
    begin, end = int(starts[onset]), int(starts[crest]) + 2 * size
    at_crest = recent if end == len(x) else mann_kendall(x[max(end - window, 0) : end])
    during = recent if (begin, end) == (len(x) - window, len(x)) else mann_kendall(x[begin:end])
    return Rise(
        best=int(starts[best]),
        onset=begin,
        crest=end - 1,
        best_level=float(low[best]),
        last_level=float(low[-1]),
        bar=max(bar, _EPSILON * float(np.abs(levels).max()), _LEAST),
        progress=progress,
        points=2 * size,
        deviation=deviation,
        p_value=min(recent, at_crest, during),
        recent_p_value=recent,
    )


def _last_low_position(up: Floats, height: float) -> int:
    """Return the last position at most ``height`` above the best level, which is the first."""
    return int(np.flatnonzero(up <= height)[-1])


def climb_onset(x: Floats, rise: Rise, size: int) -> int:
    """Return the position where a climb reached a tenth of its height.

    Args:
        x: shape (n,), finite.
        rise: the climb.
        size: the number of losses in the shortest level.

    Means over enough losses to resolve a tenth of the rise locate the last time the loss was near
    its best. Means of ``size`` losses then refine the position.
    """
    if rise.amount <= rise.bar:
        return rise.onset
    climbing = x[rise.best : rise.crest + 1]
    # A loss that grew a millionfold left its level long before a tenth of its final height.
    height = min(ONSET_FRACTION * rise.amount, max(ONSET_FRACTION * rise.progress, rise.bar))
    # The noise of a diverging run grows with its loss.
    noise = level_noise(block_levels(x[: max(rise.onset, MIN_SAMPLE * size)], size)[0])
    wide = round(size * min(_MIN_SIGNAL_RATIO * noise / height, len(climbing)) ** 2)
    levels = moving_means(climbing, max(min(wide, len(climbing) // QUARTERS), size))
    bar = levels.min() + height
    last = int(np.flatnonzero(levels <= bar)[-1])
    above = moving_means(climbing, size)[last:] > bar
    return rise.best + last + int(np.argmax(above)) + size - 1 if above.any() else rise.onset
