"""A rise of the loss that was never made good."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import (
    CONTEXT_POINTS,
    block_levels,
    level_noise,
    moving_means,
    noise_of_means,
    pair_means,
)
from stabdiag.stats.quantiles import MIN_SAMPLE, MIN_TREND_POINTS, diff_sigma, median
from stabdiag.stats.trend import mann_kendall

# Levels are taken over these shares of the window: fast climbs show in short ones, slow in long.
_SHARES = (0.1, 0.5)

# In a series shorter than twice MIN_TREND_POINTS, a rise needs no trend if at least two points
# exceed everything before them by this many times its range, and by a factor. The factor is smaller
# after many points and larger after a single one. Chosen on pieces of 3 to 19 losses cut out of
# healthy runs: 1 in 500 is called a rise.
MIN_RANGE_MULTIPLE = 3.0
_TIMES, _TIMES_OF_MANY, _TIMES_OF_ONE = 10.0, 2.0, 100.0

# Nor does it if so many in a row each lie above the last, and the last so many times as high as the
# first of them; fewer are enough after as many of which each lies below the last. Of the same
# pieces, one in two thousand is called a rise by either.
_IN_ORDER = 6
_TURNED = 4
_FAR_ABOVE = 1.5

# A rise counts against this many deviations of such levels, and this many times the largest rise
# that the run had made good before. That many times what both explain is obvious.
_LEVEL_SIGMAS = 3.0
DRAWUP_FACTOR = 2.0

# A climb has begun where this share of it was made: by means whose deviation is less than that by
# this factor.
ONSET_FRACTION = 0.1
_STANDS_OUT = 2.0

# A level is no more exact than its last digit, even one that never varies.
_EPSILON = float(np.finfo(np.float64).eps)
_LEAST = float(np.finfo(np.float64).tiny)


@frozen
class Rise:
    """How far the loss ends above its best level, and how it got there.

    ``best``, ``onset``, ``crest`` are positions: of the best level, of the last point near it, and
    where most of the way up was made. ``bar`` is what the run's own noise, ups and downs explain,
    ``progress`` the distance from the first level to the best; both, and the levels, are in units
    of the loss, and a level is a mean of ``points`` losses; single ones vary by ``deviation`` from
    one to the next. ``p_value`` is that of a rising trend on the way up or, if that is clearer,
    over the last window; ``recent_p_value`` that of the latter.
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
        """The rise that is left at the end."""
        return self.last_level - self.best_level


def net_rise(x: Floats, window: int, significance: float) -> Rise | None:
    """Measure the rise from the best level to the end.

    Args:
        x: shape (n,), finite, spikes that recovered taken out.
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
        plain = _left_behind(x) or _steady(x)
        if plain is not None:
            return plain
    if len(x) < max(window, MIN_TREND_POINTS):
        return None
    recent, deviation = mann_kendall(x[-window:]), diff_sigma(x)
    sizes = [max(round(window * share), 2) for share in _SHARES]
    rises = [_at_scale(x, window, size, recent, deviation) for size in sizes if len(x) >= 5 * size]
    # What ends at its best is back, however high the mean over the last window is.
    rises = [rise for rise in rises if x[-CONTEXT_POINTS:].max() > rise.best_level] or rises[:1]
    clearest = _clearest(rises, significance)
    return replace(clearest, onset=climb_onset(x, clearest, sizes[0]))


def _clearest(rises: list[Rise], significance: float) -> Rise:
    clear = [rise for rise in rises if rise.amount > rise.bar]
    if clear:
        steady = min(clear, key=lambda rise: rise.p_value)
        if steady.p_value < significance:
            return steady
    return max(rises, key=lambda rise: rise.amount / rise.bar)


def _left_behind(x: Floats) -> Rise | None:
    """Return the rise of a few points that stays far above all that was before it, if there is one.

    Args:
        x: shape (n,), finite.

    Its ``p_value`` is the chance that of so many points in any order the highest come last.
    """
    n = len(x)
    high = np.maximum.accumulate(x)[:-1]
    span = high - np.minimum.accumulate(x)[:-1]
    low = np.minimum.accumulate(x[::-1])[::-1][1:]
    count = np.arange(n - 1, 0, -1)
    times = np.where(count < CONTEXT_POINTS, _TIMES, _TIMES_OF_MANY)
    times[:1] = _TIMES_OF_ONE
    left = (
        (count > 1) & (high > 0) & (low > times * high) & (low > high + MIN_RANGE_MULTIPLE * span)
    )
    if not left.any():
        return None
    first = int(np.argmax(left)) + 1
    # What comes down again may as well have begun low by chance.
    if x[-1] < x[first] / 2:
        return None
    chance = 1 / math.comb(n, first)
    return _of_few(x, first, max(float(span[first - 1]), _LEAST), chance)


def _steady(x: Floats) -> Rise | None:
    """Return the rise of a few points of which each lies above the last, if they end far above.

    Args:
        x: shape (n,), finite.

    Its ``p_value`` is the chance that so many points in any order lie in this one.
    """
    best = int(np.argmin(x)) if len(x) else 0
    count = len(x) - best
    turned = best + 1 >= _TURNED and bool((np.diff(x[: best + 1]) < 0).all())
    if count < (_TURNED if turned else _IN_ORDER) or not (np.diff(x[best:]) > 0).all():
        return None
    if not x[-1] > _FAR_ABOVE * x[best] > 0:
        return None
    return _of_few(x, best + 1, _LEAST, 1 / math.factorial(count))


def _of_few(x: Floats, first: int, bar: float, chance: float) -> Rise:
    """Return the rise of a few points from the one before ``first`` on."""
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
    crest = best + int(np.argmax(up >= 0.8 * high))
    near = best + _last_near(up[: crest - best + 1], 0.2 * high)
    drawup = levels[: best + 1] - np.minimum.accumulate(levels[: best + 1])
    # The noise of a run that diverges grows with it: the part before tells what is usual.
    calm = slice(0, near + 1 if near >= MIN_SAMPLE else len(levels))
    # While it comes down from above where it ends, a loss bends more than its noise does.
    down = int(np.argmax(levels <= low[-1]))
    if calm.stop - down >= MIN_SAMPLE:
        calm = slice(down, calm.stop)
    progress = max(median(x[: max(window // 20, 3)]) - float(low[best]), 0.0)
    noise = max(level_noise(levels[calm]), noise_of_means(x[starts[0] :], size, calm))
    bar = max(_LEVEL_SIGMAS * noise, DRAWUP_FACTOR * float(drawup.max(initial=0.0)))
    # What ends a million times as high had left its level long before a fifth of that.
    onset = best + _last_near(up[: near - best + 1], max(0.2 * progress, bar))
    begin, end = int(starts[onset]), int(starts[crest]) + 2 * size
    trends = (mann_kendall(x[begin:end]), mann_kendall(x[max(end - window, 0) : end]))
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
        p_value=min(recent, *trends),
        recent_p_value=recent,
    )


def _last_near(up: Floats, height: float) -> int:
    """Return the last position that lies no higher than this above the best level, the first."""
    return int(np.flatnonzero(up <= height)[-1])


def climb_onset(x: Floats, rise: Rise, size: int) -> int:
    """Return where a climb had begun, as a position: where a tenth of it was made.

    Args:
        x: shape (n,), finite.
        rise: the climb in it.
        size: how many losses make the shortest level.

    After the last time that the loss was near its best, which is told by means of so many losses
    that a tenth of the rise stands out of their noise, means of ``size`` losses tell it closer.
    """
    if rise.amount <= rise.bar:
        return rise.onset
    climbing = x[rise.best : rise.crest + 1]
    # What ends a million times as high had left its level long before a tenth of that.
    share = min(ONSET_FRACTION * rise.amount, max(ONSET_FRACTION * rise.progress, rise.bar))
    # The noise of a run that diverges grows with it.
    noise = level_noise(block_levels(x[: max(rise.onset, MIN_SAMPLE * size)], size)[0])
    wide = round(size * min(_STANDS_OUT * noise / share, len(climbing)) ** 2)
    levels = moving_means(climbing, max(min(wide, len(climbing) // 4), size))
    bar = levels.min() + share
    near = int(np.flatnonzero(levels <= bar)[-1])
    above = moving_means(climbing, size)[near:] > bar
    return rise.best + near + int(np.argmax(above)) + size - 1 if above.any() else rise.onset
