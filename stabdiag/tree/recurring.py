"""Recurring spikes: count, heights, period, and series that coincide with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.quantiles import median
from stabdiag.stats.recurrence import PeakGroup
from stabdiag.stats.shape import Spike
from stabdiag.stats.standards import CLEAR_RATIO, FEW_EVENTS, MAJORITY, MAX_CHANCE
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.run import Run

GRADIENT_NORM = "gradient norm"

# Maximum p-value of a period, batch or coincidence.
_MAX_PERIOD_CHANCE = 0.01

# Minimum period in logged points; nearly any distance is a multiple of a shorter one.
_MIN_PERIOD = 5

# Tolerance of multiples as a fraction of the period; at least one logged point.
_JITTER = 0.02

# Spikes belong to one batch if at least this fraction of them is on it.
_MIN_HIT_FRACTION = MAJORITY

# Spikes grow if the later half of their heights is this many times the earlier half and the trend
# is significant. The same rule, inverted, applies to their distances.
_MIN_GROWTH = CLEAR_RATIO
_TREND_CHANCE = MAX_CHANCE


@frozen
class Coincidence:
    """A series with unusual values at ``hits`` of the spikes.

    ``low`` and ``high`` are the range of its values there. ``fraction`` is the fraction of all
    records with values of at least ``low``. ``ratio`` is ``low`` over the median of all records.
    """

    name: str
    hits: int
    low: float
    high: float
    fraction: float
    ratio: float


@frozen
class RecurringSpikes:
    """The separated spikes of a run: positions, heights and scores, in the order of the log.

    The distances of the spikes are multiples of ``period`` steps, and ``per_epoch`` means that this
    is the length of an epoch. ``batch`` is the id of the batch of nearly all spikes. ``noise`` is
    the highest score of all other peaks. ``gradients_surge`` means that the gradient norm at the
    spikes exceeds the limit for a long-tail batch.
    """

    positions: Ints
    steps: Ints
    heights: Floats
    scores: Floats
    noise: float
    period: float | None
    per_epoch: bool
    batch: float | None
    grow: bool
    come_closer: bool
    gradients_surge: bool
    coincidences: tuple[Coincidence, ...]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def is_hard_batch(self) -> bool:
        """Whether one batch, or one position in a fixed order of the data, causes all spikes.

        A period alone does not explain a surge of the gradients.
        """
        if self.grow:
            return False
        if self.batch is not None or self.per_epoch:
            return True
        return self.period is not None and not self.gradients_surge


def find_recurring(
    run: Run, group: PeakGroup | None, spikes: Sequence[Spike]
) -> RecurringSpikes | None:
    """Return the recurring spikes, or None.

    Fewer than ``data.spike_count`` are single events, unless they share a batch. A spike that did
    not recover is judged individually.
    """
    if group is None:
        return None
    short = [spike for spike in spikes if spike.recovered]
    recovered = [any(spike.onset <= at < spike.end for spike in short) for at in group.peaks]
    group = group.take(np.array(recovered, dtype=bool))
    if len(group) < FEW_EVENTS:
        return None
    steps = run.loss.steps[group.peaks]
    if steps[-1] - steps[0] <= run.recovery_steps:
        return None  # a single burst
    epoch = _epoch_length(run)
    period = _find_period(steps, run.stride, epoch)
    recurring = _describe(run, group, period, epoch)
    is_single = len(group) < run.limits.data.spike_count
    return None if is_single and not recurring.is_hard_batch else recurring


def find_periodic(run: Run, peaks: PeakGroup) -> RecurringSpikes | None:
    """Return the highest peaks if they come at a fixed distance, or None.

    A hard batch comes once per epoch even if other peaks are nearly as high. Sets of the highest
    peaks are tested, each a fifth smaller than the one before. If the length of an epoch is known,
    the distance has to be that: a spike in the middle of an epoch halves any other.
    """
    epoch, least = _epoch_length(run), run.limits.data.spike_count
    order = np.argsort(-peaks.scores, kind="stable")
    counts = []
    count = len(peaks)
    while count >= least:
        counts.append(count)
        count = int(MAJORITY * count)
    for count in counts:
        group = peaks.take(np.isin(np.arange(len(peaks)), order[:count]))
        steps = run.loss.steps[group.peaks]
        period = _find_period(steps, run.stride, epoch, tests=len(counts))
        if period is None or not (epoch is None or _is_close(period, epoch, run.stride)):
            continue
        if steps[-1] - steps[0] > run.recovery_steps:
            noise = max([peaks.noise, *peaks.scores[order[count:]].tolist()])
            recurring = _describe(run, replace(group, noise=noise), period, epoch)
            return recurring if recurring.is_hard_batch else None
    return None


def _describe(
    run: Run, group: PeakGroup, period: float | None, epoch: float | None
) -> RecurringSpikes:
    """Return a group of peaks with its trends and coincidences."""
    steps = run.loss.steps[group.peaks]
    coincidences = _coincidences(run, steps)
    surge = run.limits.spike.grad_ratio
    gaps = np.diff(steps).astype(np.float64)
    return RecurringSpikes(
        positions=group.peaks,
        steps=steps,
        heights=group.heights,
        scores=group.scores,
        noise=group.noise,
        period=period,
        per_epoch=period is not None and epoch is not None and _is_close(period, epoch, run.stride),
        batch=_shared_batch(run, steps),
        grow=_is_growing(group.heights),
        come_closer=_is_growing(1 / gaps),
        gradients_surge=any(
            series.name == GRADIENT_NORM and series.ratio > surge for series in coincidences
        ),
        coincidences=coincidences,
    )


def _epoch_length(run: Run) -> float | None:
    """Return the number of steps of an epoch, or None unless the log has two complete epochs."""
    epoch = run.history.finite("epoch")
    if run.history.counts_epochs or len(epoch) < 2:
        return None
    begins = epoch.steps[1:][np.diff(np.floor(epoch.values)) == 1]
    return median(np.diff(begins).astype(np.float64)) if len(begins) > 1 else None


def _is_close(distance: float, period: float, stride: float) -> bool:
    return abs(distance - period) <= max(stride, _JITTER * period)


def _find_period(steps: Ints, stride: float, epoch: float | None, tests: int = 1) -> float | None:
    """Return a period of the distances between steps, or None.

    The steps cover at least half of the multiples of the period. The fit is significant at 1 %,
    corrected for the number of candidate periods and of tested sets of steps.
    """
    gaps = np.diff(steps).astype(np.float64)
    fixed = [] if epoch is None else [epoch]
    candidates = list(dict.fromkeys([*fixed, median(gaps), float(gaps.min())]))
    # A spike in the middle of an epoch halves the distances of those in each epoch.
    if epoch is not None:
        candidates = [
            distance
            for distance in candidates
            if distance >= epoch or not _is_close(epoch % distance, 0.0, stride)
        ]
    for distance in candidates:
        multiples = np.maximum(np.round(gaps / distance), 1.0)
        period = distance if distance in fixed else float(gaps.sum() / multiples.sum())
        if period < _MIN_PERIOD * stride or multiples.sum() > 2 * len(gaps):
            continue
        slack = max(stride, _JITTER * period)
        if (np.abs(gaps - multiples * period) > slack).any():
            continue
        # One distance was used to estimate the period.
        free = len(gaps) - (distance not in fixed)
        chance = min((2 * slack + stride) / period, 1.0) ** free
        if chance * len(candidates) * tests <= _MAX_PERIOD_CHANCE:
            return period
    return None


def _shared_batch(run: Run, steps: Ints) -> float | None:
    """Return the id of the batch of nearly all of the steps, or None."""
    batches = run.history.finite("batch_id")
    at = np.isin(batches.steps, steps)
    if at.sum() < FEW_EVENTS:
        return None
    ids, counts = np.unique(batches.values[at], return_counts=True)
    mode = int(np.argmax(counts))
    if counts[mode] < _MIN_HIT_FRACTION * len(steps):
        return None
    # An id of most records is not informative.
    fraction = float(np.mean(batches.values == ids[mode]))
    return (
        float(ids[mode])
        if fraction ** int(counts[mode]) <= _MAX_PERIOD_CHANCE and fraction < 0.5
        else None
    )


def _is_growing(values: Floats) -> bool:
    """Return True if the values rise significantly, the later half far above the earlier."""
    half = len(values) // 2
    if half < 2 or median(values[-half:]) < _MIN_GROWTH * median(values[:half]):
        return False
    return mann_kendall(values) < _TREND_CHANCE


def _coincidences(run: Run, steps: Ints) -> tuple[Coincidence, ...]:
    """Return the series whose values at the steps are significantly high."""
    history = run.history
    series = {GRADIENT_NORM: history.logged("grad_norm"), "learning rate": history.finite("lr")}
    for name, setting in history.group("setting").items():
        if not setting.words:
            series[name] = setting.finite()
    candidates = (_coincidence(run, name, values, steps) for name, values in series.items())
    return tuple(filter(None, candidates))


def _coincidence(run: Run, name: str, series: Series, steps: Ints) -> Coincidence | None:
    """Return the coincidence if a series is significantly high at nearly all of the steps.

    The null hypothesis draws values from all records: the p-value is the fraction of values as
    high, to the power of the number of steps.
    """
    values = np.where(np.isnan(series.values), np.inf, np.abs(series.values))
    first = np.searchsorted(series.steps, steps - run.stride / 2)
    last = np.searchsorted(series.steps, steps + run.stride / 2, side="right")
    peaks = [values[a:b].max() for a, b in zip(first, last, strict=True) if b > a]
    if len(peaks) < FEW_EVENTS:
        return None
    highest = np.sort(peaks)[::-1]
    hits = math.ceil(_MIN_HIT_FRACTION * len(steps))
    if len(highest) < hits:
        return None
    low = float(highest[hits - 1])
    hits = int((highest >= low).sum())
    fraction = float(np.mean(values >= low))
    if fraction > 0.5 or fraction**hits * math.comb(len(highest), hits) > _MAX_PERIOD_CHANCE:
        return None
    usual = median(values)
    return Coincidence(
        name=name,
        hits=hits,
        low=low,
        high=float(highest[0]),
        fraction=fraction,
        ratio=low / usual if usual > 0 else math.inf,
    )
