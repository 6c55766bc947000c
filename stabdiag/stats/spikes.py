"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.rolling import MAD_TO_SIGMA, trailing_median
from stabdiag.stats.tails import UpperTail, medians_tail, noise_tail, upper_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# On long logs, or over wide windows, each median holds for a few points: more of them than this are
# not taken, nor are more values than this sorted for them.
_MOST_MEDIANS = 20_000
_MOST_SORTED = 2_000_000

# Points this far out that lie within so many points of one another are one excursion.
_FAR_OUT = 2.5
_APART = 5
_FEW_EVENTS = 3

# Values were rounded if, of so many of them, no more than this share differ.
_SAMPLE = 10_000
_FEW_VALUES = 0.2

# The level follows at least so many points: fewer are noisier than what they follow.
_SHORTEST = 12

# A loss that grows by this factor has exploded.
_EXPLODES = 20.0

# A shift is looked for in the medians of so many points.
_LASTING = (5, 10)

# So many points may lie in one shift and must not shape the tail that it is judged by.
_SHIFTED_POINTS = 128

# A shift that lasts counts from this many deviations on.
_LEAST_SHIFT = 2.0


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far the search for spikes looks, in logged points.

    ``window`` is the baseline's length, ``least`` the fewest points of it to judge by, ``recovery``
    the time a spike has to come back to within ``recovery_sigma`` deviations of its base.
    """

    window: int
    least: int
    recovery: int
    lasting: int = 10
    recovery_sigma: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Spike:
    """One spike, as positions in the array it was found in.

    ``base`` and ``sigma`` are mean and deviation frozen from before the onset; ``score`` is the
    largest rise above the local trend in units of the local, robust deviation; ``rise`` counts the
    points that the loss took for most of its way up. ``recovered`` is None where the log ends too
    early to tell, and ``end`` the point where it had recovered, or that up to which it was watched.
    """

    onset: int
    peak: int
    end: int
    base: float
    sigma: float
    height: float
    score: float
    rise: int
    recovered: bool | None


@dataclass(frozen=True, kw_only=True)
class SpikeScan:
    """All spikes of a log, the limit that the scores were held against and the largest of them."""

    spikes: tuple[Spike, ...]
    limit: float
    largest: float
    largest_at: int
    tested: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """What is expected of each point from those before it: shape (n,) each, in units of the loss.

    ``level`` is a local median corrected for the trend, ``sigma`` a robust deviation from it.
    """

    level: Floats
    sigma: Floats


def baseline(x: Floats, window: int) -> Baseline:
    """Return level and deviation of the points before each point.

    Args:
        x: shape (n,), finite, n at least 2.
        window: points that the deviation is taken over; the level follows a quarter of them.

    Medians keep earlier spikes out of the baseline that judges the next one (Hampel 1974,
    doi:10.1080/01621459.1974.10482962). A trailing median lags behind a falling loss: the median
    of its own residuals is added, which takes a steady slope, up or down, out of them.
    """
    short = max(window // 4, _SHORTEST)
    level = _before(x, short)
    level[0] = x[0]
    lag = _before(x - level, 2 * short)
    lag[0] = 0.0
    level = level + lag
    sigma = _before(np.abs(x - level), window) * MAD_TO_SIGMA
    floor = max(0.1 * float(np.nanmedian(sigma)), rounding(x), 1e-9 * float(np.ptp(x)), 1e-300)
    return Baseline(level=level, sigma=np.fmax(sigma, floor))


def rounding(x: Floats) -> float:
    """Return the step to which the values were rounded, 0 if they were not or hardly.

    A loss that was logged to one digit stands still and then moves by a whole step: a deviation
    smaller than the step would make a spike of every move.
    """
    values, counts = np.unique(x[-_SAMPLE:], return_counts=True)
    if len(values) > _FEW_VALUES * min(len(x), _SAMPLE):
        return 0.0
    # What was seen once or twice may be a spike above a constant.
    usual = values[counts > 2]
    return float(np.diff(usual).min()) if len(usual) > 1 else 0.0


def _before(x: Floats, window: int) -> Floats:
    hop = max(-(-len(x) // _MOST_MEDIANS), -(-len(x) * window // _MOST_SORTED), 1)
    return trailing_median(x, window, hop)


def find_spikes(
    x: Floats,
    reach: Reach,
    sigmas: float,
    false_alarm: float,
    least_height: float,
    atypical: NDArray[np.bool_] | None = None,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: a spike's peak lies more than so many deviations above the mean of its window.
        false_alarm: the chance that noise alone gives one spike anywhere in the log.
        least_height: rises below this, in units of ``x``, are passed over.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.

    A point is too high if its distance from the baseline, in deviations, lies beyond the
    family-wise limit of this run's own scores; a stretch if the median of the next few points
    does, so that a small but lasting shift is found as well.
    """
    n, first = len(x), reach.least
    if n <= first + 1:
        return SpikeScan(spikes=(), limit=np.inf, largest=0.0, largest_at=0, tested=0)
    base = baseline(x, reach.window)
    scores = ((x - base.level) / base.sigma)[first:]
    chance = min(false_alarm / len(scores), 0.25)
    noise = noise_tail(_declustered(scores), chance)
    limit = noise.exceeded_with_chance(chance)
    candidates = {int(at): int(at) for at in np.flatnonzero(scores > limit) + first}
    for lasting in _LASTING:
        shifted = _shifted(x, base, noise, lasting, chance, first)
        for at in shifted:
            candidates.setdefault(at, _change_point(x, base, at, lasting))
    spikes: list[Spike] = []
    resume = 0
    for at in sorted(candidates):
        if at >= resume:
            spike = _describe(x, base, candidates[at], reach, atypical)
            if spike.height <= max(sigmas * spike.sigma, least_height):
                continue
            spikes.append(spike)
            # After a shift that stays, the baseline needs a window to find its new level.
            resume = spike.end + (0 if spike.recovered else reach.window)
    largest = int(np.argmax(scores))
    return SpikeScan(
        spikes=tuple(spikes),
        limit=limit,
        largest=float(scores[largest]),
        largest_at=largest + first,
        tested=n - first,
    )


def _declustered(scores: Floats) -> Floats:
    """Return the scores with the largest few excursions reduced to their highest point.

    A spike that takes ten points to decay is one event, not ten draws of heavy-tailed noise (runs
    declustering; Smith and Weissman 1994, JRSS B 56, 515-528, section 2). Only a few are reduced:
    where excursions are the rule, as in autocorrelated noise, they are what it is like.
    """
    far = np.flatnonzero(scores > _FAR_OUT)
    if len(far) < 2:
        return scores
    excursions = np.split(far, np.flatnonzero(np.diff(far) > _APART) + 1)
    kept = np.ones(len(scores), dtype=bool)
    for excursion in sorted(excursions, key=len)[-_FEW_EVENTS:]:
        kept[excursion] = False
        kept[excursion[np.argmax(scores[excursion])]] = True
    return scores[kept]


def _shifted(
    x: Floats,
    base: Baseline,
    noise: UpperTail,
    lasting: int,
    chance: float,
    first: int,
) -> list[int]:
    """Return the positions from which on the next ``lasting`` points lie too high.

    The score of a shift is the median of the points from here on, against the baseline.
    """
    if len(x) < first + 2 * lasting:
        return []
    # The median of the points before, one window later, is the median of the points from here.
    ahead = _before(np.append(x, x[-1]), lasting)[lasting:]
    scores = (ahead - base.level[: len(ahead)]) / base.sigma[: len(ahead)]
    # Windows that overlap are not so many tests.
    chance = min(lasting * chance, 0.25)
    deepest = int(np.log2(len(x) / _SHIFTED_POINTS))
    tails = (
        medians_tail(noise, scores[first:], lasting),
        # Neighbours that go together (blocks of like data) make medians that go farther.
        upper_tail(scores[first:], deepest),
    )
    limit = max(*(tail.exceeded_with_chance(chance) for tail in tails), _LEAST_SHIFT)
    hit = scores > limit
    hit[:first] = False
    return np.flatnonzero(hit).tolist()


def _change_point(x: Floats, base: Baseline, at: int, lasting: int) -> int:
    """Return where the shift that is seen from ``at`` on begins.

    The maximum-likelihood change point between the level before and the level after (Hinkley 1970,
    doi:10.1093/biomet/57.1.1, eq. 2.1, with the levels taken from medians).
    """
    ahead = x[at : at + 2 * lasting]
    level = float(base.level[at])
    height = float(np.median(ahead[lasting // 2 :])) - level
    gain = np.cumsum((ahead - level - height / 2)[::-1])[::-1]
    return at + int(np.argmax(gain[:lasting]))


def _describe(
    x: Floats, base: Baseline, at: int, reach: Reach, atypical: NDArray[np.bool_] | None
) -> Spike:
    level, sigma = _frozen(x, base, at, reach, atypical)
    stop = min(at + reach.recovery, len(x))
    back = _recovery(x, at, level, reach.recovery_sigma * sigma, reach.recovery)
    end = stop if back is None else back
    peak = at + int(np.argmax(x[at : max(end, at + 1)]))
    complete = at + reach.recovery <= len(x)
    return Spike(
        onset=at,
        peak=peak,
        end=end,
        base=level,
        sigma=sigma,
        height=float(x[peak] - level),
        score=float((x[peak] - base.level[at]) / base.sigma[at]),
        rise=_rise_points(x, at, reach),
        recovered=True if back is not None else (False if complete else None),
    )


def _frozen(
    x: Floats, base: Baseline, at: int, reach: Reach, atypical: NDArray[np.bool_] | None
) -> tuple[float, float]:
    """Return mean and deviation of the window before the onset, earlier outliers left out."""
    before = x[:at] if atypical is None else x[:at][~atypical[:at]]
    before = (
        before[-reach.window :] if len(before) >= reach.least else x[max(at - reach.window, 0) : at]
    )
    usual = np.abs(before - np.median(before)) <= 5 * base.sigma[at]
    kept = before[usual] if usual.any() else before
    return float(kept.mean()), max(float(kept.std()), float(base.sigma[at]))


def _recovery(x: Floats, at: int, level: float, slack: float, reach: int) -> int | None:
    """Return the first position after ``at`` from which on the smoothed loss is within bounds.

    The loss is smoothed by its median over a fifth of the time to recover, and must not rise again
    by twice as much soon after: one lucky point is no recovery.
    """
    smooth = min(max(reach // 5, 3), 10)
    least = smooth // 2 + 1
    for back in range(at + 1, min(at + reach, len(x) - 1) + 1):
        soon, later = x[back : back + smooth], x[back : back + 3 * smooth]
        if len(soon) < least or x[back] > level + 4 * slack:
            continue
        if np.median(soon) <= level + slack and np.median(later) <= level + 2 * slack:
            return back
    return None


def _rise_points(x: Floats, at: int, reach: Reach) -> int:
    """Return how many points the loss took from 20% to 60% of its way up to the peak.

    The way up begins at the lowest level before ``at`` and ends at the peak after it. A spike is up
    at once; a climb takes its time. The loss is smoothed by medians of 5; a peak that does not
    survive that is a spike of a few points. A loss that explodes is told by its logarithm: from 2 to
    9,000 is a jump, whether or not it then goes on to a million.
    """
    first, last = max(at - 2 * reach.window, 0), min(at + 4 * reach.recovery, len(x))
    part = x[first:last]
    if part.min() > 0 and part.max() > _EXPLODES * float(np.median(part[: at - first + 1])):
        x, first, last, at = np.log(part), 0, last - first, at - first
    smooth = _centred_median(x[first:last], 5)
    before, after = smooth[: at - first + 1], smooth[at - first :]
    low = min(float(np.median(part)) for part in np.array_split(before, max(len(before) // 10, 1)))
    peak = at - first + int(np.argmax(after))
    height = float(smooth[peak]) - low
    if height < 0.5 * (float(x[at:last].max()) - low):
        return 1
    below = np.flatnonzero(smooth[:peak] <= low + 0.2 * height)
    foot = int(below[-1]) if len(below) else 0
    most = foot + int(np.argmax(smooth[foot : peak + 1] >= low + 0.6 * height))
    return max(most - foot, 1)


def _centred_median(x: Floats, width: int) -> Floats:
    padded = np.pad(x, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
