"""The shape of a spike: how it rose, how high, and whether it came back."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import median, medians
from stabdiag.stats.rolling import Baseline
from stabdiag.stats.tails import CLEAR

# A loss that grows by this factor has exploded.
BLOWUP_RATIO = 20.0

# No healthy loss is as large as this: its square is infinite in fp32.
FP32_SQUARE_OVERFLOW = float(np.finfo(np.float32).max) ** 0.5

# A loss came back late if this share of its levels since then is low.
_NEARLY_ALL = 0.8


@frozen
class SearchWindows:
    """The lengths that the search for spikes works with, in logged points.

    ``window`` is that of the baseline, ``least`` the fewest points of it to judge by, ``recovery``
    the time a spike has to come back to within ``recovery_sigma`` deviations of its base.
    """

    window: int
    least: int
    recovery: int
    recovery_sigma: float = 0.5


@frozen(eq=True)
class Spike:
    """One spike, as positions in the array it was found in.

    ``base`` and ``sigma`` are mean and deviation frozen from before the onset, ``level`` what was
    expected at the onset; ``score`` is how far the peak lies above that level, in units of the
    local, robust deviation. ``recovered`` is None where the log ends too early to tell, and ``end``
    the point where it had recovered, or that up to which it was watched.
    """

    onset: int
    peak: int
    end: int
    base: float
    sigma: float
    level: float
    height: float
    score: float
    recovered: bool | None

    @property
    def is_blowup(self) -> bool:
        """Whether the loss grew by a factor that no mere shift does."""
        return self.height > BLOWUP_RATIO * max(abs(self.base), self.sigma)


def describe(
    x: Floats, base: Baseline, at: int, reach: SearchWindows, atypical: Mask | None
) -> Spike:
    """Return the spike that begins at a position.

    Args:
        x: shape (n,), finite.
        base: level and deviation of the points before each point.
        at: the onset.
        reach: how long to watch, in points.
        atypical: points, shape (n,), that are no part of what a spike has to come back to.
    """
    mean, sigma = _frozen(x, base, at, reach, atypical)
    stop = min(at + reach.recovery, len(x))
    back = _recovery(x, at, mean, reach.recovery_sigma * sigma, reach.recovery)
    end = stop if back is None else back
    peak = at + int(np.argmax(x[at:end]))
    complete = at + reach.recovery <= len(x)
    lately = x[max(at - reach.window, 0) : at]
    return Spike(
        onset=at,
        peak=peak,
        end=end,
        base=mean,
        sigma=sigma,
        # A trend that is extrapolated may run past all that was logged.
        level=float(np.clip(base.level[at], lately.min(), lately.max())),
        height=float(x[peak] - mean),
        score=float((x[peak] - base.level[at]) / base.sigma[at]),
        recovered=True if back is not None else (False if complete else None),
    )


def _frozen(
    x: Floats, base: Baseline, at: int, reach: SearchWindows, atypical: Mask | None
) -> tuple[float, float]:
    """Return mean and deviation of the window before the onset, earlier outliers left out."""
    before = x[:at] if atypical is None else x[:at][~atypical[:at]]
    before = (
        before[-reach.window :] if len(before) >= reach.least else x[max(at - reach.window, 0) : at]
    )
    usual = np.abs(before - median(before)) <= CLEAR * base.sigma[at]
    kept = before[usual] if usual.any() else before
    return float(kept.mean()), max(float(kept.std()), float(base.sigma[at]))


def _recovery(x: Floats, at: int, level: float, slack: float, reach: int) -> int | None:
    """Return the position after ``at`` at which the loss itself is back within bounds to stay.

    Whether it stays is told by its median over a fifth of the time to recover: one lucky point is
    no recovery. When it was back is told by the loss as logged: the first point within bounds after
    the last one that stood out.
    """
    smooth = _smoothing(reach)
    least = smooth // 2 + 1
    for back in range(at + 1, min(at + reach, len(x) - 1) + 1):
        soon = x[back : back + smooth]
        if len(soon) < min(least, MIN_CONSECUTIVE) or x[back] > level + 4 * slack:
            continue
        # Where only a few points are left at the end of the log, each of them has to be back.
        last = median(soon) if len(soon) >= least else float(soon.max())
        if last <= level + slack:
            out = np.flatnonzero(x[at:back] > level + 4 * slack)
            first = at + 1 + (int(out[-1]) if len(out) else 0)
            found = first + int(np.argmax(x[first : back + smooth] <= level + slack))
            return found if found <= at + reach else None
    return None


def _smoothing(reach: int) -> int:
    """Return over how many points to smooth a loss that has ``reach`` points to recover."""
    return min(max(reach // 5, 3), 10)


def late_recovery(x: Floats, spike: Spike, sigmas: float) -> int | None:
    """Return the position by which a loss that recovered too late was back, or None.

    Args:
        x: shape (n,), finite.
        spike: one that had not recovered in its time.
        sigmas: to within how many deviations of its base the loss has to come back.

    The loss is smoothed by medians, as for a recovery in time; nearly all of them since then have
    to be low as well.
    """
    width = _smoothing(spike.end - spike.onset)
    after = x[spike.end :]
    skipped = len(after) % width
    smooth = medians(after[skipped:].reshape(-1, width))
    low = smooth <= spike.base + sigmas * spike.sigma
    first = int(np.argmax(low)) if low.any() else 0
    if not low.any() or not low[-1] or low[first:].mean() < _NEARLY_ALL:
        return None
    return spike.end + skipped + (first + 1) * width - 1


def blowup_start(x: Floats, at: int) -> int:
    """Return since when a loss had stayed far above all that it had been, up to a position.

    Args:
        x: shape (n,), finite.
        at: the position, where trouble was found: what exploded before has raised the level that
            later points are held against. It is returned where nothing had.

    Far is by the factor of what explodes, beyond the highest of some points, and within as many.
    """
    before = x[:at]
    if len(before) < 2 * MIN_CONSECUTIVE or before.min() <= 0:
        return at
    highest, lowest = np.maximum.accumulate(before), np.minimum.accumulate(before[::-1])[::-1]
    count, since = np.arange(1, at + 1), np.searchsorted(lowest, BLOWUP_RATIO * highest, "right")
    far = (count >= MIN_CONSECUTIVE) & (since <= 2 * count) & (at - since >= MIN_CONSECUTIVE)
    return int(since[far.argmax()]) if far.any() else at


def rise_points(x: Floats, at: int, reach: SearchWindows) -> int:
    """Return how many points the loss took from 20% to 60% of its way up to the peak.

    Args:
        x: shape (n,), finite.
        at: where the rise was seen.
        reach: how far to look for its foot and its peak, in points.

    The way up begins at the lowest level before ``at`` and ends at the peak after it. A spike is up
    at once; a climb takes its time. The loss is smoothed by medians of 5; a peak that does not
    survive that is a spike of a few points. Of a loss that explodes the logarithm is taken: from 2
    to 9,000 is a jump, whether or not it then goes on to a million.
    """
    first, last = max(at - 2 * reach.window, 0), min(at + 4 * reach.recovery, len(x))
    part = x[first:last]
    if part.min() > 0 and part.max() > BLOWUP_RATIO * median(part[: at - first + 1]):
        x, first, last, at = np.log(part), 0, last - first, at - first
    smooth = _centred_median(x[first:last], 5)
    before, after = smooth[: at - first + 1], smooth[at - first :]
    low = min(median(part) for part in np.array_split(before, max(len(before) // 10, 1)))
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
    return medians(np.lib.stride_tricks.sliding_window_view(padded, width))
