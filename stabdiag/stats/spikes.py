"""Spikes: points, or stretches, that a run's own noise does not explain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.abrupt import abrupt_spikes
from stabdiag.stats.candidates import LASTING, Candidate, candidates
from stabdiag.stats.shape import Reach, Spike, describe
from stabdiag.stats.yardstick import yardstick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.stats.residuals import Residuals

# A spike that came back is reported if its peak reaches half as far as the noise of single points,
# or this many deviations; a single point has to reach at least the second number.
_FAR = 10.0
_FAR_FOR_ONE = 5.0

# On a descent the deviation over a window is that of the way down: in a log of fewer windows than
# these, stretches are held against a narrower one, that share of the log.
_WINDOWS = 5

# In a log of fewer points than this the search of the whole log is blind to much that is plain to
# see. Of losses that are no means over an epoch, so many in a row are no single hard batch.
_SHORT = 200
_TOGETHER = 3

# A loss towers above those before it if it lies so many times their range above them.
_RANGES = 3.0

# A spike that came back begins where it has made this share of its height.
_LEFT = 0.25


@dataclass(frozen=True, kw_only=True)
class SpikeScan:
    """All spikes of a log, the limit that the scores were held against and the largest of them.

    ``abrupt`` are such as what was just before them is enough to tell.
    """

    spikes: tuple[Spike, ...]
    limit: float
    largest: float
    largest_at: int
    tested: int
    abrupt: tuple[Spike, ...] = ()


def find_spikes(
    x: Floats,
    reach: Reach,
    sigmas: float,
    false_alarm: float,
    least_share: float,
    atypical: Mask | None = None,
    suspect: Mask | None = None,
    witness: Callable[[int], bool] | None = None,
    *,
    of_epochs: bool = False,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: a spike's peak lies more than so many deviations above the mean of its window.
        false_alarm: the chance that noise alone gives one spike anywhere in the log.
        least_share: rises below this share of the range that the levels before them span are passed
            over.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.
        suspect: points, shape (n,), where a spike is to be expected.
        witness: tells whether another series goes up with the loss and stays there, from a position
            on.
        of_epochs: whether each loss is of an epoch: a mean over many batches.

    A point is too high if its distance from the baseline, in deviations, lies beyond the
    family-wise limit of this run's own scores; a stretch if the median of the next few points
    does, so that a small but lasting shift is found as well.
    """
    n, first = len(x), reach.least
    abrupt: tuple[Spike, ...] = ()
    if of_epochs or n < _SHORT:
        abrupt = abrupt_spikes(x, reach, sigmas, 1 if of_epochs else _TOGETHER, atypical)
    if n <= first + 1:
        return SpikeScan(
            spikes=abrupt, limit=np.inf, largest=0.0, largest_at=0, tested=0, abrupt=abrupt
        )
    if suspect is None:
        suspect = np.zeros(n, dtype=bool)
    single = yardstick(x, reach, false_alarm)
    narrow = replace(reach, window=max(n // _WINDOWS, reach.least))
    lasting = single if narrow.window >= reach.window else yardstick(x, narrow, false_alarm)
    witness = cache(witness or (lambda _: False))
    found = candidates(x, single, lasting, suspect=suspect, witness=witness)
    spans = _spans(single.base.level, [one.onset for one in found])
    points, limit = single.points, single.limit
    spikes: list[Spike] = []
    resume = 0
    # Where a spike of a width was explained by what the run does elsewhere, the windows that
    # overlap with it are not asked again.
    explained_until = dict.fromkeys((1, *LASTING), 0)
    for one in found:
        width = one.residuals.width
        if one.at < max(resume, explained_until[width]):
            continue
        held = single if width == 1 else lasting
        spike = describe(x, held.base, one.onset, held.reach, atypical)
        towers = one.alone and _towers(spike, points, reach)
        height = spike.score if towers else spike.height / spike.sigma
        if height <= sigmas or spike.height <= least_share * spans[one.onset]:
            continue
        if not suspect[one.onset]:
            if spike.recovered and not towers and not _stands_out(one, spike, limit, witness):
                continue
            if one.residuals.explain(one.at, spike, reach, one.limit):
                explained_until[width] = one.at + width
                continue
        spikes.append(_from_its_rise(x, spike))
        resume = _over(spike, reach)
    largest = int(np.argmax(points.scores[first:])) + first
    return SpikeScan(
        spikes=_joined(abrupt, spikes, reach) if of_epochs else _joined(spikes, abrupt, reach),
        limit=limit,
        largest=float(points.scores[largest]),
        largest_at=largest,
        tested=n - first,
        abrupt=abrupt,
    )


def _joined(spikes: Iterable[Spike], others: Iterable[Spike], reach: Reach) -> tuple[Spike, ...]:
    """Return spikes in their order, and of others those that do not overlap with them."""
    spikes = tuple(spikes)

    def is_apart(other: Spike) -> bool:
        return all(
            _over(spike, reach) <= other.onset or _over(other, reach) <= spike.onset
            for spike in spikes
        )

    both = [*spikes, *filter(is_apart, others)]
    return tuple(sorted(both, key=lambda spike: spike.onset))


def _over(spike: Spike, reach: Reach) -> int:
    """Return from where on there may be another spike.

    After a shift that stays, the baseline needs a window to find its new level.
    """
    return spike.end + (0 if spike.recovered else reach.window)


def _from_its_rise(x: Floats, spike: Spike) -> Spike:
    """Return a spike that came back, its onset the first point that has left the level.

    A window, or the change point in it, may begin on points that lie no higher than usual.
    """
    if not spike.recovered:
        return spike
    up = x[spike.onset : spike.peak + 1] > spike.base + _LEFT * spike.height
    return replace(spike, onset=spike.onset + int(np.argmax(up)))


def _spans(level: Floats, places: list[int]) -> dict[int, float]:
    """Return the range that the levels up to each of these places span."""
    ordered = sorted(set(places))
    begins = [0, *(place + 1 for place in ordered[:-1])]
    if not ordered:
        return {}
    so_far = level[: ordered[-1] + 1]
    highest = np.maximum.accumulate(np.maximum.reduceat(so_far, begins))
    lowest = np.minimum.accumulate(np.minimum.reduceat(so_far, begins))
    return dict(zip(ordered, (highest - lowest).tolist(), strict=True))


def _stands_out(one: Candidate, spike: Spike, limit: float, witness: Callable[[int], bool]) -> bool:
    """Tell whether a rise that came back is high for this run as a single point, or has a witness.

    ``limit`` is how far its single points reach by noise alone, in deviations.
    """
    least = min(limit / 2, _FAR)
    if one.residuals.width > 1:
        return spike.height > least * spike.sigma or witness(one.onset)
    return spike.height > max(least, _FAR_FOR_ONE) * spike.sigma


def _towers(spike: Spike, points: Residuals, reach: Reach) -> bool:
    """Tell whether a rise that no other comes near is far above what the run did lately.

    On a descent the window is wider than its noise: what the loss did lately, apart from the trend,
    tells more. The usual deviation would not do, as it is that of the whole window, too.
    """
    lately = points.heights[max(spike.onset - max(reach.window // 4, reach.least), 1) : spike.onset]
    height = float(points.heights[spike.onset : spike.peak + 1].max())
    return height > _RANGES * float(np.ptp(lately))
