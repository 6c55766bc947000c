"""The tree's original fixed rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.rolling import trailing_moments
from stabdiag.stats.shape import Reach, Spike
from stabdiag.stats.spikes import SpikeScan
from stabdiag.tree.measure import Measures
from stabdiag.tree.rises import rise_of

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.run import Run


def measure_literally(run: Run) -> Measures:
    """Measure a run by the original rules: every outlier is a spike, and nothing excuses one."""
    limits = run.limits.spike
    scan = literal_spikes(run.loss.values, run.spike_window, run.reach, limits.sigma)
    whole = slice(0, len(run.loss))
    rise = rise_of(run, whole, scan.spikes)
    return Measures(scan=scan, spikes=scan.spikes, settled=whole, rise=rise)


def literal_spikes(x: Floats, window: int, reach: Reach, sigmas: float) -> SpikeScan:
    """Return every exceedance of the rolling mean plus ``sigmas`` deviations as a spike.

    Args:
        x: shape (n,), finite.
        window: points before each one that mean and deviation are taken over.
        reach: the time to recover, in points, and how near.
        sigmas: the limit, in deviations.

    A spike has recovered at the first point, however lucky, that is back in time; the next one is
    looked for after that.
    """
    mean, sigma = trailing_moments(x, window)
    tested = ~np.isnan(mean)
    scores = np.where(tested, (x - mean) / sigma, -np.inf)
    high = x > mean + sigmas * sigma
    scores[x == mean] = 0.0  # of a loss that stands still, no deviation is no distance
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
