"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.abrupt import abrupt_spikes
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.peaks import COMPARABLE, MAX_GAP, Residuals, median_residuals, point_residuals
from stabdiag.stats.quantiles import MIN_SAMPLE, SUBSAMPLE_SIZE, median
from stabdiag.stats.recurrence import PeakGroup, find_peak_group
from stabdiag.stats.rolling import Baseline, baseline, trailing_moments
from stabdiag.stats.shape import SearchWindows, Spike, describe
from stabdiag.stats.tails import CLEAR, UpperTail, declustered, medians_tail, noise_tail

# A spike is more likely after a logged cause, so the probability of a false alarm may be larger by
# this factor there.
_CAUSE_FACTOR = 5

# On a descent, the slope inflates the deviation of a window. In a log of fewer windows than this,
# stretches are compared with a narrower window: the log divided by this number.
_WINDOWS = 5


@frozen
class SpikeScan:
    """All spikes of a log, the limit of the scores, and the largest score.

    ``abrupt`` are the spikes that were found from the few points before them. ``largest_chance`` is
    the probability that noise leaves a gap as wide as the one below the largest score. ``group``
    are rare peaks separated from the noise, ``frequent_peaks`` are too many to be spikes.
    """

    spikes: tuple[Spike, ...]
    limit: float
    largest: float
    largest_at: int
    tested: int
    largest_chance: float = 1.0
    abrupt: tuple[Spike, ...] = ()
    group: PeakGroup | None = None
    frequent_peaks: PeakGroup | None = None


def find_spikes(
    x: Floats,
    reach: SearchWindows,
    sigmas: float,
    false_alarm: float,
    min_range_share: float,
    atypical: Mask | None = None,
    after_logged_cause: Mask | None = None,
    *,
    of_means: bool = False,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: minimum height of a peak above the mean of its window, in standard deviations.
        false_alarm: the probability that noise alone produces a spike anywhere in the log.
        min_range_share: minimum height as a fraction of the range of the levels before the spike.
        atypical: points, shape (n,), that are excluded from the level a spike has to return to.
        after_logged_cause: points, shape (n,), just after a logged cause.
        of_means: whether each loss is a mean over many batches: of an epoch, or an evaluation.

    A point is too high if its score, the distance from the baseline in standard deviations, exceeds
    the family-wise limit of this run's own scores. A stretch is too high if the median of the next
    few points exceeds it, which detects small but lasting shifts. Recurring peaks are not spikes.
    """
    n, first = len(x), reach.least
    abrupt: tuple[Spike, ...] = ()
    if of_means or n < 2 * reach.window:
        abrupt = abrupt_spikes(x, reach, sigmas, 1 if of_means else MIN_CONSECUTIVE, atypical)
    if n <= first + 1:
        return SpikeScan(
            spikes=abrupt, limit=np.inf, largest=0.0, largest_at=0, tested=0, abrupt=abrupt
        )
    if after_logged_cause is None:
        after_logged_cause = np.zeros(n, dtype=bool)
    single = _noise(x, reach, false_alarm)
    narrow = replace(reach, window=max(n // _WINDOWS, reach.least))
    lasting = single if narrow.window >= reach.window else _noise(x, narrow, false_alarm)
    separated = find_peak_group(single.points)
    group = separated if separated is not None and separated.is_rare else None
    candidates = _candidates(x, single, lasting, after_logged_cause, group)
    spans = _spans(single.base.level, [candidate.onset for candidate in candidates])
    spikes: list[Spike] = []
    resume = 0
    # After a candidate was found to be usual for the run, windows that overlap it are skipped.
    explained_until = {1: 0, MIN_SAMPLE: 0}
    for candidate in candidates:
        width = candidate.residuals.width
        if candidate.at < max(resume, explained_until[width]):
            continue
        noise = single if width == 1 else lasting
        spike = describe(x, noise.base, candidate.onset, noise.reach, atypical)
        if spike.height <= max(sigmas * spike.sigma, min_range_share * spans[candidate.onset]):
            continue
        if candidate.is_short and not spike.recovered:
            continue
        is_separated = group is not None and group.has(candidate.at) and spike.recovered is True
        if not after_logged_cause[candidate.onset] and not is_separated:
            if not _is_significant(spike, 2 * sigmas if width == 1 else CLEAR):
                continue
            if candidate.residuals.explain(candidate.at, spike, reach, candidate.limit):
                explained_until[width] = candidate.at + width
                continue
        spikes.append(_from_its_rise(x, spike))
        resume = _over(spike, reach)
    largest = int(np.argmax(single.points.scores[first:])) + first
    largest_score = float(single.points.scores[largest])
    return SpikeScan(
        spikes=_joined(abrupt, spikes, reach) if of_means else _joined(spikes, abrupt, reach),
        limit=single.limit,
        largest=largest_score,
        largest_at=largest,
        largest_chance=single.points.excursions.chance_of_separation(
            largest_score, largest - 2 * MAX_GAP, largest + 2 * MAX_GAP
        ),
        tested=n - first,
        abrupt=abrupt,
        group=group,
        frequent_peaks=separated if group is None else None,
    )


def _is_significant(spike: Spike, sigmas: float) -> bool:
    """Return True if a spike did not recover, or is at least ``sigmas`` deviations high."""
    return not spike.recovered or spike.height > sigmas * spike.sigma


@frozen
class _Noise:
    """The residuals of each loss from the window before it, and the tail of their noise.

    ``points`` are the residuals of single losses, ``tail`` is the upper tail of their scores, and
    ``false_alarm`` is the probability that noise alone produces a candidate anywhere in the log.
    """

    reach: SearchWindows
    base: Baseline
    points: Residuals
    tail: UpperTail
    false_alarm: float

    @cached_property
    def chance(self) -> float:
        """The probability of a false alarm at one point."""
        return _chance_of_one(self.false_alarm, len(self.points.scores) - self.points.first)

    @cached_property
    def limit(self) -> float:
        """The limit of the noise, in standard deviations."""
        return self.tail.exceeded_with_chance(self.chance)


def _noise(x: Floats, reach: SearchWindows, false_alarm: float) -> _Noise:
    base = baseline(x, reach.window)
    points = point_residuals(x, base, reach.least)
    scores = points.scores[reach.least :]
    tail = noise_tail(declustered(scores), _chance_of_one(false_alarm, len(scores)))
    return _Noise(reach=reach, base=base, points=points, tail=tail, false_alarm=false_alarm)


def _chance_of_one(false_alarm: float, points: int) -> float:
    """Return the probability of a false alarm at each of several points (Bonferroni)."""
    return min(false_alarm / points, 0.25)


class _Candidate(NamedTuple):
    """A position that is too high, its onset, and the residuals in which it was found.

    ``limit`` is the limit of the noise in these residuals, in standard deviations. A candidate that
    ``is_short`` is a spike only if it recovers.
    """

    at: int
    onset: int
    residuals: Residuals
    limit: float
    is_short: bool = False


def _candidates(
    x: Floats, single: _Noise, lasting: _Noise, after_logged_cause: Mask, group: PeakGroup | None
) -> list[_Candidate]:
    """Return the possible spikes, in order.

    Points are compared with ``single``, stretches with ``lasting``.
    """
    points, limit, first = single.points, single.limit, single.points.first
    high = points.scores > limit
    suspects = int(after_logged_cause[first:].sum())
    # After a logged cause only these points are tested: fewer tests, a lower limit.
    caused = _chance_of_one(_CAUSE_FACTOR * single.false_alarm, max(suspects, 1))
    if suspects:
        high |= (points.scores > single.tail.exceeded_with_chance(caused)) & after_logged_cause
    high[:first] = False
    # A rise without comparable excursions is a candidate regardless of the tail.
    alone = [at for at in points.excursions.alone(single.reach.window) if at >= first]
    singles = {*np.flatnonzero(high).tolist(), *alone}
    candidates = [_Candidate(at, at, points, limit) for at in singles]
    if group is not None:
        starts = {*group.starts.tolist()} - singles
        candidates += [_Candidate(at, at, points, limit, is_short=True) for at in starts]
    medians = median_residuals(x, lasting.base, MIN_SAMPLE, lasting.points)
    if medians is not None:
        sample = medians.scores[first :: -(-len(x) // SUBSAMPLE_SIZE)]
        tail = medians_tail(lasting.tail, sample, MIN_SAMPLE)
        bar, positions = _stretches(medians, lasting.points, tail, lasting.chance)
        if suspects:
            likely = _stretches(medians, lasting.points, tail, caused)[1]
            positions = sorted({*positions, *(at for at in likely if after_logged_cause[at])})
        candidates += [
            _Candidate(at, change_point(x, lasting.base, at, MIN_SAMPLE), medians, bar)
            for at in positions
        ]
    return sorted(candidates, key=lambda candidate: (candidate.at, candidate.residuals.width))


def _stretches(
    medians: Residuals, points: Residuals, tail: UpperTail, chance: float
) -> tuple[float, list[int]]:
    """Return the limit of the noise, and the positions where the next points exceed it."""
    # Overlapping windows are not independent tests.
    chance = min(medians.width * chance, 0.25)
    limit = tail.exceeded_with_chance(chance)
    high = medians.scores > limit
    high[: medians.first] = False
    positions = np.flatnonzero(high)
    if not len(positions):
        return limit, []
    heights = points.heights(slice(points.burn_in_end, None))
    rare = np.maximum(
        _chances(medians.scores[positions], points.scores[points.first :], medians.width),
        _chances(medians.heights(positions), heights, medians.width),
    )
    result: list[int] = positions[rare < chance].tolist()
    return limit, result


def _chances(medians: Floats, points: Floats, width: int) -> Floats:
    """Return the probability that half of ``width`` points exceed each of these medians.

    The number of points above a value is binomial (David & Nagaraja 2003, doi:10.1002/0471722162,
    eq. 2.1.3). Its rate is the fraction of all points above the value, without as many points as
    the window contains. This also covers a loss that alternates between two levels, whose tail does
    not describe its medians.
    """
    high = np.sort(points[points >= medians.min()])
    above = len(high) - np.searchsorted(high, medians)
    rate = np.maximum(above - width, 0.5) / len(points)
    chances = np.zeros(len(medians))
    for count in range(width // 2, width + 1):
        chances += math.comb(width, count) * rate**count * (1 - rate) ** (width - count)
    return chances


def change_point(x: Floats, base: Baseline, at: int, lasting: int) -> int:
    """Return the position at which a shift begins that was detected at ``at``.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        at: the position from which the next points are too high.
        lasting: the minimum length of the shift, in points.

    The maximum-likelihood change point between the level before and the level after (Hinkley 1970,
    doi:10.1093/biomet/57.1.1, eq. 2.1, with the levels taken from medians).
    """
    ahead = x[at : at + 2 * lasting]
    level = float(base.level[at])
    height = median(ahead[lasting // 2 :]) - level
    # Summed from the front, because earlier points vanish in the rounding of a blown-up loss.
    lost = np.cumsum(ahead[: lasting - 1] - level - height / 2)
    return at + int(np.argmin(np.append(0.0, lost)))


def _from_its_rise(x: Floats, spike: Spike) -> Spike:
    """Return a recovered spike whose onset is the first point that has left the level.

    A stretch, or the change point in it, may begin with points of usual height.
    """
    if not spike.recovered:
        return spike
    up = x[spike.onset : spike.peak + 1] > spike.base + COMPARABLE * spike.height
    return replace(spike, onset=spike.onset + int(np.argmax(up)))


def _over(spike: Spike, reach: SearchWindows) -> int:
    """Return the first position at which another spike may begin.

    After a shift that does not recover, the baseline needs a window to adapt to the new level.
    """
    return spike.end + (0 if spike.recovered else reach.window)


def _spans(level: Floats, positions: list[int]) -> dict[int, float]:
    """Return the range of the levels up to each of these positions."""
    if not positions:
        return {}
    history = level[: max(positions) + 1]
    spans = np.maximum.accumulate(history) - np.minimum.accumulate(history)
    return {position: float(spans[position]) for position in positions}


def _joined(
    spikes: Iterable[Spike], others: Iterable[Spike], reach: SearchWindows
) -> tuple[Spike, ...]:
    """Return the spikes and the others that do not overlap with them, in order."""
    spikes = tuple(spikes)

    def is_apart(other: Spike) -> bool:
        return all(
            _over(spike, reach) <= other.onset or _over(other, reach) <= spike.onset
            for spike in spikes
        )

    both = [*spikes, *filter(is_apart, others)]
    return tuple(sorted(both, key=lambda spike: spike.onset))


def outliers(x: Floats, window: int, reach: SearchWindows, sigmas: float) -> SpikeScan:
    """Return every outlier above the rolling mean plus ``sigmas`` deviations as a spike.

    Args:
        x: shape (n,), finite.
        window: the number of points before each point used for the mean and the deviation.
        reach: the time to recover, in points, and the recovery threshold.
        sigmas: the limit, in deviations.

    This is the original rule of the tree: a spike recovers at the first point that is back in time,
    even a lucky one, and the search for the next spike continues there.
    """
    mean, sigma = trailing_moments(x, window)
    # The rule is stated for t > window, with t counted from 0.
    mean[window : window + 1] = sigma[window : window + 1] = np.nan
    tested = ~np.isnan(mean)
    scores = np.where(tested, (x - mean) / sigma, -np.inf)
    high = x > mean + sigmas * sigma
    scores[x == mean] = 0.0  # a constant loss has no deviation: 0/0
    spikes: list[Spike] = []
    resume = 0
    for at in np.flatnonzero(high).tolist():
        if at < resume:
            continue
        ahead = x[at + 1 : at + 1 + reach.recovery]
        back = np.flatnonzero(ahead <= mean[at] + reach.recovery_sigma * sigma[at])
        complete = at + reach.recovery < len(x)
        end = at + 1 + (int(back[0]) if len(back) else len(ahead))
        peak = at + int(np.argmax(x[at:end]))
        spikes.append(
            Spike(
                onset=at,
                peak=peak,
                end=end,
                base=float(mean[at]),
                sigma=float(sigma[at]),
                level=float(mean[at]),
                height=float(x[peak] - mean[at]),
                score=float(scores[peak]),
                recovered=True if len(back) else (False if complete else None),
            )
        )
        resume = end
    largest = int(np.argmax(scores)) if tested.any() else 0
    return SpikeScan(
        spikes=tuple(spikes),
        limit=sigmas,
        largest=float(scores[largest]) if tested.any() else 0.0,
        largest_at=largest,
        tested=int(tested.sum()),
    )
