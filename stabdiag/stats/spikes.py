"""Spikes: how they are merged, and the original rule for outliers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.stats.course import level_before, position_after
from stabdiag.stats.peaks import COMPARABLE
from stabdiag.stats.recurrence import PeakGroup
from stabdiag.stats.rolling import trailing_moments
from stabdiag.stats.shape import SearchWindows, Spike
from stabdiag.stats.standards import CONTEXT_POINTS


@frozen
class SpikeScan:
    """All spikes of a log, the limit of the scores, and the largest score.

    ``largest_level`` is the expected value where the score is largest, and ``largest_chance`` the
    probability that noise leaves a gap as wide as the one below that score. ``abrupt`` are the
    spikes that were found from the few points before them. ``group`` are rare peaks separated from
    the noise, ``frequent_peaks`` are too many to be spikes. ``high_peaks`` are all high peaks if
    no gap separates any.
    """

    spikes: tuple[Spike, ...]
    limit: float = np.inf
    largest: float = 0.0
    largest_at: int = 0
    largest_level: float = np.nan
    tested: int = 0
    largest_chance: float = 1.0
    abrupt: tuple[Spike, ...] = ()
    group: PeakGroup | None = None
    frequent_peaks: PeakGroup | None = None
    high_peaks: PeakGroup | None = None


def with_rise_as_onset(x: Floats, spike: Spike) -> Spike:
    """Return a recovered spike whose onset is the first point that has left the level.

    A stretch, or the change point in it, may begin with points of usual height. A loss that was
    high before the first tested point rose earlier.
    """
    if not spike.recovered:
        return spike
    is_high = x[: spike.peak + 1] > spike.base + COMPARABLE * spike.height
    onset = spike.onset + int(np.argmax(is_high[spike.onset :]))
    start = position_after(~is_high[:onset])
    if not 0 < start < onset:
        return replace(spike, onset=onset)
    peak = start + int(np.argmax(x[start : spike.peak + 1]))
    level = level_before(x, start, CONTEXT_POINTS)
    return replace(spike, onset=start, peak=peak, height=float(x[peak]) - spike.base, level=level)


def next_start(spike: Spike, reach: SearchWindows) -> int:
    """Return the first position where another spike may begin.

    After a shift that does not recover, the baseline needs a window to adapt to the new level.
    """
    return spike.end + (0 if spike.recovered else reach.window)


def level_spans(level: Floats, positions: list[int]) -> dict[int, float]:
    """Return the range of the levels up to each of these positions."""
    if not positions:
        return {}
    history = level[: max(positions) + 1]
    spans = np.maximum.accumulate(history) - np.minimum.accumulate(history)
    return {position: float(spans[position]) for position in positions}


def merged(
    spikes: Iterable[Spike], others: Iterable[Spike], reach: SearchWindows
) -> tuple[Spike, ...]:
    """Return the spikes and the others that do not overlap with them, in order."""
    spikes = tuple(spikes)

    def is_apart(other: Spike) -> bool:
        return all(
            next_start(spike, reach) <= other.onset or next_start(other, reach) <= spike.onset
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
        largest_level=float(mean[largest]) if tested.any() else np.nan,
        tested=int(tested.sum()),
    )
