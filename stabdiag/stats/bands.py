"""The level of a series on a logarithmic grid of steps, and the band that reference runs span.

The statistic is a supremum over the grid of a modulated deviation (Diquigiovanni, Fontana and
Vantini 2025). Few references say little about their own spread, so it is an empirical-Bayes
moderated variance: a prior that holds for most training runs carries most of it (Smyth 2004,
doi:10.2202/1544-6115.1027).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.profile import Levels
from stabdiag.model.unique import unique_values
from stabdiag.stats.standards import BEYOND_CHANCE, MIN_CONSECUTIVE, QUARTERS, TWICE

BINS_PER_OCTAVE: Final = 8
"""Width of a bin: 9 % of the step. Wide enough to average noise, narrow enough to date an onset."""

MIN_COMMON_BINS: Final = 6
"""Fewer common bins are not enough to compare two runs."""

MAX_SPREAD_FACTOR: Final = 40.0
"""References whose variance exceeds the prior by more than this are not comparable. Evaluation
losses of seeds that also draw the data reach 13."""

BAND_PRIOR_WEIGHT: Final = 6.0
"""The number of reference runs that the prior variance is worth."""

# The mean |difference| of two normal values is 2σ/√π.
_DIFFERENCE_TO_SIGMA: Final = float(np.sqrt(np.pi)) / 2

# Bars of the statistic by the number of references: calibrated on reruns with other seeds.
BAND_BARS: Final[tuple[tuple[int, float], ...]] = (
    (16, 3.0),
    (10, 3.2),
    (7, 3.5),
    (5, 3.8),
    (4, 4.3),
    (3, 4.7),
    (2, 9.0),
    (1, 20.0),
)

# At the end of the references, a run is judged once, and only on its worse side. This part of the
# bar then has about as few false alarms as the whole bar has over all bins and both sides.
_END_BAR: Final = 0.75


@frozen
class Prior:
    """The usual spread of good runs, in level and in time.

    ``level`` is a standard deviation relative to the level. ``shift`` is a standard deviation of
    ln(step): some runs learn a few percent later than others.
    """

    level: float
    shift: float


@frozen
class Band:
    """The range of reference runs, bin by bin: all arrays have the shape (k,).

    ``center`` is the median of the references. ``variance`` is the expected variance of another
    good run, without the noise of the logged values. ``error`` is the squared standard error of the
    center due to that noise. ``factor`` is the variance of the references relative to the prior.
    ``low`` and ``high`` are the extremes of the references. If ``log`` is set, all values are
    logarithms.
    """

    bins: Ints
    center: Floats
    variance: Floats
    error: Floats
    low: Floats
    high: Floats
    factor: float
    log: bool

    def __len__(self) -> int:
        return len(self.bins)


@frozen
class AverageDeviation:
    """The average deviation over the last ``bins`` common bins, in standard deviations."""

    value: float
    difference: float
    bins: int


@frozen
class Deviation:
    """The deviation of a run from a band, in standard deviations, on their common bins.

    ``variance`` is the variance of ``difference`` between good runs, and ``noise`` the part that
    the noise of the logged values adds. ``peak`` is the largest absolute deviation that two
    neighboring bins share with the same sign.
    """

    bins: Ints
    values: Floats
    difference: Floats
    variance: Floats
    noise: Floats
    peak: float

    def outside(self, bar: float) -> Mask:
        """Return the bins that share a deviation beyond the bar with a neighbor."""
        pairs = _shared(self.values) > bar
        out = np.zeros(len(self.values), np.bool_)
        out[:-1] |= pairs
        out[1:] |= pairs
        return out

    def outside_at_end(self, bar: float, direction: int) -> Mask:
        """Return the last bins, without a gap, that share a deviation beyond the bar.

        Args:
            bar: in standard deviations.
            direction: 1 for deviations above the band, -1 for deviations below.
        """
        out: Mask = self.outside(bar) & (np.sign(self.values) == direction)
        inside = np.flatnonzero(~out)
        out[: inside[-1] + 1 if len(inside) else 0] = False
        return out

    def average_at_end(self) -> AverageDeviation | None:
        """Return the average over the last octave; None if fewer than half of its bins are common.

        A good run that is better or worse than others usually stays so from bin to bin, but the
        noise of each bin is its own, and averages out.
        """
        number = int((self.bins > self.bins[-1] - BINS_PER_OCTAVE).sum())
        if 2 * number < BINS_PER_OCTAVE:
            return None
        last = slice(-number, None)
        variance = self.variance[last].mean() + self.noise[last].sum() / number**2
        difference = float(self.difference[last].mean())
        return AverageDeviation(
            value=difference / float(np.sqrt(variance)), difference=difference, bins=number
        )


def step_bins(steps: Ints) -> Ints:
    """Return the bin of each step: eight bins per octave, the same for every run."""
    positive = np.maximum(steps, 1).astype(np.float64)
    bins: Ints = np.floor(BINS_PER_OCTAVE * np.log2(positive)).astype(np.int64)
    return bins


def bin_start(number: int) -> int:
    """Return the first whole step of a bin."""
    return int(np.ceil(2.0 ** (number / BINS_PER_OCTAVE)))


def bin_levels(steps: Ints, values: Floats, last_step: int) -> Levels:
    """Return the level and noise of a series in each bin that has a finite value.

    Args:
        steps: shape (n,), rising.
        values: shape (n,). NaN and ±inf are left out.
        last_step: the last step of the run. Its bin counts once half of it was seen.
    """
    good = np.isfinite(values)
    if not good.all():
        steps, values = steps[good], values[good]
    return levels_of_rows(steps, values[np.newaxis], last_step)[0]


def levels_of_rows(steps: Ints, rows: Floats, last_step: int) -> list[Levels]:
    """Return the levels of several series with the same steps, as ``bin_levels`` does for each.

    An operation on many rows of a short log takes about as long as on one.

    Args:
        steps: shape (n,), rising.
        rows: shape (series, n), finite.
        last_step: the last step of the run.
    """
    bins = step_bins(steps)
    excluded = _bin_barely_seen(last_step)
    if excluded is not None:
        kept = int(bins.searchsorted(excluded))
        bins, rows = bins[:kept], rows[:, :kept]
    if not len(bins):
        none = np.zeros(0)
        empty = np.zeros(0, np.int64)
        nothing = Levels(
            bins=empty, count=empty, mean=none, noise=none, log_mean=none, log_noise=none
        )
        return [nothing] * len(rows)
    begins = np.flatnonzero(np.concatenate(([True], bins[1:] != bins[:-1])))
    count = np.diff(np.append(begins, len(bins)))
    is_positive = rows.min(axis=1) > 0
    mean, noise = _moments(np.concatenate([rows, np.log(rows[is_positive])]), begins, count)
    log_mean, log_noise = np.full((2, len(rows), len(begins)), np.nan)
    log_mean[is_positive], log_noise[is_positive] = mean[len(rows) :], noise[len(rows) :]
    return [
        Levels(
            bins=bins[begins],
            count=count,
            mean=mean[row],
            noise=noise[row],
            log_mean=log_mean[row],
            log_noise=log_noise[row],
        )
        for row in range(len(rows))
    ]


@lru_cache(maxsize=1)  # the same for all series of a run
def _bin_barely_seen(last_step: int) -> int | None:
    """Return the bin of a run's last step if the run ended before its middle, else None."""
    number = int(step_bins(np.array([last_step]))[0])
    first, end = (2.0 ** (at / BINS_PER_OCTAVE) for at in (number, number + 1))
    return None if last_step + 1 >= (first + end) / 2 else number


def _moments(values: Floats, begins: Ints, count: Ints) -> tuple[Floats, Floats]:
    """Return the mean and the noise of each bin: shape (rows, bins), of values of (rows, n).

    A bin with a single value takes the noise of the next larger bin. If no bin has two values, the
    noise is unknown and counts as 0: the spread between the references contains it.
    """
    mean = np.add.reduceat(values, begins, axis=1) / count
    change = np.zeros(values.shape)
    np.abs(values[:, 1:] - values[:, :-1], out=change[:, :-1])
    change[:, begins + count - 1] = 0.0  # the difference to the next bin's first value
    total = np.add.reduceat(change, begins, axis=1)
    pairs = count - 1
    noise = _DIFFERENCE_TO_SIGMA * total / np.maximum(pairs, 1)
    measured = np.flatnonzero(pairs)
    if 0 < len(measured) < len(pairs):
        at = np.minimum(measured.searchsorted(np.arange(len(pairs))), len(measured) - 1)
        noise = noise[:, measured[at]]
    return mean, noise


def comparable_levels(series: Sequence[Levels | None]) -> list[Levels | None]:
    """Return the levels of runs, with logarithms of means if the runs log at different strides."""
    logged = [levels for levels in series if levels is not None]
    last = min((int(levels.bins[-1]) for levels in logged), default=0)
    counts = [_count_in_octave(levels, last) for levels in logged]
    if not counts or max(counts) < TWICE * min(counts):
        return [*series]
    return [None if levels is None else levels.with_logs_of_means() for levels in series]


def _count_in_octave(levels: Levels, last: int) -> int:
    within = (levels.bins <= last) & (levels.bins > last - BINS_PER_OCTAVE)
    return int(levels.count[within].sum())


def deviation_bar(references: int) -> float:
    """Return the bar of the statistic for a number of references.

    >>> deviation_bar(1), deviation_bar(6), deviation_bar(100)
    (20.0, 3.8, 3.0)
    """
    return next(bar for minimum, bar in BAND_BARS if references >= minimum)


def end_bar(bar: float) -> float:
    """Return the bar for the end of a finished run.

    >>> end_bar(20.0), end_bar(3.2)
    (15.0, 3.0)
    """
    return max(_END_BAR * bar, BEYOND_CHANCE)


def make_band(references: Sequence[Levels], prior: Prior, *, log: bool = True) -> Band | None:
    """Return the band that references span, or None if no bin is common to half of them.

    The band uses logarithms if ``log`` is set and all values of the references are positive.
    """
    log = log and all(levels.is_positive for levels in references)
    bins, grid = _on_one_grid(
        [levels.bins for levels in references],
        [levels.center(log=log) for levels in references],
    )
    _, errors = _on_one_grid(
        [levels.bins for levels in references],
        [levels.error(log=log) for levels in references],
    )
    number = np.isfinite(grid).sum(axis=0)
    kept = number >= max((len(references) + 1) // 2, 1)
    if not kept.any():
        return None
    bins, grid, errors, number = bins[kept], grid[:, kept], errors[:, kept], number[kept]
    center = np.nanmedian(grid, axis=0)
    error = np.nansum(errors, axis=0) / number**2
    scale = 1.0 if log else _scale(center)
    slope = np.zeros(len(bins))
    if len(bins) > 1:
        slope = np.gradient(center, bins * (np.log(2) / BINS_PER_OCTAVE))
    expected = (prior.level * scale) ** 2 + (prior.shift * slope) ** 2
    squares = np.nansum((grid - center) ** 2, axis=0) / np.maximum(number - 1, 1)
    noise = np.nansum(errors, axis=0) / number
    several = number > 1
    ratio = 1.0
    if several.any():
        ratio = float(np.mean(squares[several] / (expected + noise)[several]))
    max_number = int(number.max())
    degrees = 4.0 * (max_number - 1)
    factor = (BAND_PRIOR_WEIGHT + degrees * ratio) / (BAND_PRIOR_WEIGHT + degrees)
    variance = factor * expected
    if max_number >= MIN_CONSECUTIVE:
        weight = np.maximum(number - 1, 0)
        observed = np.maximum(squares - noise, 0.0)
        variance = (BAND_PRIOR_WEIGHT * variance + weight * observed) / (BAND_PRIOR_WEIGHT + weight)
    return Band(
        bins=bins,
        center=center,
        variance=variance,
        error=error,
        low=np.nanmin(grid, axis=0),
        high=np.nanmax(grid, axis=0),
        factor=factor,
        log=log,
    )


def _scale(center: Floats) -> float:
    """Return the size of a series that is not positive throughout."""
    return float(max(np.median(np.abs(center)), np.ptp(center) / QUARTERS)) or 1.0


def _on_one_grid(bins: Sequence[Ints], values: Sequence[Floats]) -> tuple[Ints, Floats]:
    """Return the union of some bins, and the values on it, NaN if a series lacks a bin."""
    union = unique_values(np.concatenate(bins))
    grid = np.full((len(bins), len(union)), np.nan)
    for row, (own_bins, own_values) in enumerate(zip(bins, values, strict=True)):
        grid[row, np.searchsorted(union, own_bins)] = own_values
    return union, grid


def measure_deviation(run: Levels, band: Band) -> Deviation:
    """Return the deviation of a run from a band, where both have values.

    If the band uses logarithms and the run has values that are not positive, no bin is common.
    """
    bins, at, of = np.intersect1d(run.bins, band.bins, assume_unique=True, return_indices=True)
    difference = run.center(log=band.log)[at] - band.center[of]
    good = np.isfinite(difference)
    bins, at, of, difference = bins[good], at[good], of[good], difference[good]
    variance = band.variance[of]
    noise = run.error(log=band.log)[at] + band.error[of]
    values = difference / np.sqrt(variance + noise)
    shared = _shared(values)
    return Deviation(
        bins=bins,
        values=values,
        difference=difference,
        variance=variance,
        noise=noise,
        peak=float(shared.max()) if len(shared) else 0.0,
    )


def _shared(values: Floats) -> Floats:
    """Return the deviation that each bin shares with the next: 0 if their signs differ."""
    same = np.sign(values[:-1]) == np.sign(values[1:])
    return np.where(same, np.minimum(np.abs(values[:-1]), np.abs(values[1:])), 0.0)
