"""Spikes that recur: how many, how high, at what rhythm, and what coincides with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.quantiles import median
from stabdiag.stats.recurrence import PeakGroup
from stabdiag.stats.shape import Spike
from stabdiag.stats.tails import FEW_EVENTS
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.run import Run

GRADIENT_NORM = "gradient norm"

# What has at most this chance is no coincidence.
_BY_CHANCE = 0.01

# A period is at least this many logged points: below it nearly any distance is a multiple.
_MIN_PERIOD = 5

# Distances are multiples of a period up to this share of it, or one logged point.
_JITTER = 0.02

# A spike belongs to a batch if at least this share of the spikes is on it.
_NEARLY_ALL = 0.8

# Spikes grow, or come closer together, if the later half of their heights is this many times the
# earlier half, or the other way round for their distances, and the trend is unlikely to be chance.
_MIN_GROWTH = 1.5
_TREND_CHANCE = 0.05


@frozen
class Coincidence:
    """A series that has unusual values at the spikes: at ``hits`` of them.

    ``low`` and ``high`` are the range of its values there. ``share`` is the share of all records
    with values as high as ``low``, and ``ratio`` is ``low`` over the median of all records.
    """

    name: str
    hits: int
    low: float
    high: float
    share: float
    ratio: float


@frozen
class RecurringSpikes:
    """Separated spikes of one run: their positions, heights and scores, in the order of the log.

    ``period`` is the distance in steps that their distances are multiples of, and ``per_epoch``
    says that it is the length of an epoch. ``batch`` is the id of the batch that nearly all of them
    are on. ``noise`` is the highest score of all other peaks. ``gradients_surge`` says that the
    gradient norm is as far above its usual value at the spikes as at a long-tail batch.
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
        """Whether one batch, or one place in a fixed order of the data, makes all of them.

        A rhythm alone does not explain gradients that surge.
        """
        if self.grow:
            return False
        if self.batch is not None or self.per_epoch:
            return True
        return self.period is not None and not self.gradients_surge


def find_recurring(
    run: Run, group: PeakGroup | None, spikes: Sequence[Spike]
) -> RecurringSpikes | None:
    """Return the spikes that recur, or None.

    Fewer than ``data.spike_count`` are single events, unless they are on one batch. A spike that
    did not recover is judged by itself.
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
        return None  # one burst, not spikes that recur
    epoch = _epoch_length(run)
    batch = _shared_batch(run, steps)
    period = _find_period(steps, run.stride, epoch)
    coincidences = _coincidences(run, steps)
    surge = run.limits.spike.grad_ratio
    gaps = np.diff(steps).astype(np.float64)
    recurring = RecurringSpikes(
        positions=group.peaks,
        steps=steps,
        heights=group.heights,
        scores=group.scores,
        noise=group.noise,
        period=period,
        per_epoch=period is not None and epoch is not None and _is_near(period, epoch, run.stride),
        batch=batch,
        grow=_is_growing(group.heights),
        come_closer=_is_growing(1 / gaps),
        gradients_surge=any(
            one.name == GRADIENT_NORM and one.ratio > surge for one in coincidences
        ),
        coincidences=coincidences,
    )
    single = len(group) < run.limits.data.spike_count
    return None if single and not recurring.is_hard_batch else recurring


def _epoch_length(run: Run) -> float | None:
    """Return the number of steps of an epoch, or None if the log does not have two whole ones."""
    epoch = run.history.finite("epoch")
    if run.history.counts_epochs or len(epoch) < 2:
        return None
    begins = epoch.steps[1:][np.diff(np.floor(epoch.values)) == 1]
    return median(np.diff(begins).astype(np.float64)) if len(begins) > 1 else None


def _is_near(distance: float, period: float, stride: float) -> bool:
    return abs(distance - period) <= max(stride, _JITTER * period)


def _find_period(steps: Ints, stride: float, epoch: float | None) -> float | None:
    """Return the period that the distances of some steps are multiples of, or None.

    At least half of the multiples from the first step to the last are among them, and the distances
    fit with a chance of at most 1 %, given the number of periods that are tried.
    """
    gaps = np.diff(steps).astype(np.float64)
    known = [] if epoch is None else [epoch]
    tried = list(dict.fromkeys([*known, median(gaps), float(gaps.min())]))
    for distance in tried:
        multiples = np.maximum(np.round(gaps / distance), 1.0)
        period = distance if distance in known else float(gaps.sum() / multiples.sum())
        if period < _MIN_PERIOD * stride or multiples.sum() > 2 * len(gaps):
            continue
        slack = max(stride, _JITTER * period)
        if (np.abs(gaps - multiples * period) > slack).any():
            continue
        # One distance was used to estimate the period.
        free = len(gaps) - (distance not in known)
        chance = min((2 * slack + stride) / period, 1.0) ** free
        if chance * len(tried) <= _BY_CHANCE:
            return period
    return None


def _shared_batch(run: Run, steps: Ints) -> float | None:
    """Return the id of the batch that nearly all of the steps are on; None if there is none."""
    batches = run.history.finite("batch_id")
    at = np.isin(batches.steps, steps)
    if at.sum() < FEW_EVENTS:
        return None
    ids, counts = np.unique(batches.values[at], return_counts=True)
    most = int(np.argmax(counts))
    if counts[most] < _NEARLY_ALL * len(steps):
        return None
    # An id that most records have says nothing.
    share = float(np.mean(batches.values == ids[most]))
    return float(ids[most]) if share ** int(counts[most]) <= _BY_CHANCE and share < 0.5 else None


def _is_growing(values: Floats) -> bool:
    """Return True if the values increase beyond chance, the later half far above the earlier."""
    half = len(values) // 2
    if half < 2 or median(values[-half:]) < _MIN_GROWTH * median(values[:half]):
        return False
    return mann_kendall(values) < _TREND_CHANCE


def _coincidences(run: Run, steps: Ints) -> tuple[Coincidence, ...]:
    """Return the series whose values at the steps are higher than chance explains."""
    history = run.history
    series = {GRADIENT_NORM: history.logged("grad_norm"), "learning rate": history.finite("lr")}
    for name, setting in history.group("setting").items():
        if not setting.words:
            series[name] = setting.finite()
    found = (_coincidence(run, name, one, steps) for name, one in series.items())
    return tuple(one for one in found if one is not None)


def _coincidence(run: Run, name: str, series: Series, steps: Ints) -> Coincidence | None:
    """Return that a series is high at nearly all of the steps, if it is.

    The chance is that of values drawn from all its records: the share of them that is as high, to
    the power of the number of steps.
    """
    values = np.where(np.isnan(series.values), np.inf, np.abs(series.values))
    first = np.searchsorted(series.steps, steps - run.stride / 2)
    last = np.searchsorted(series.steps, steps + run.stride / 2, side="right")
    near = [values[a:b].max() for a, b in zip(first, last, strict=True) if b > a]
    if len(near) < FEW_EVENTS:
        return None
    highest = np.sort(near)[::-1]
    hits = math.ceil(_NEARLY_ALL * len(steps))
    if len(highest) < hits:
        return None
    low = float(highest[hits - 1])
    hits = int((highest >= low).sum())
    share = float(np.mean(values >= low))
    if share > 0.5 or share**hits * math.comb(len(highest), hits) > _BY_CHANCE:
        return None
    usual = median(values)
    return Coincidence(
        name=name,
        hits=hits,
        low=low,
        high=float(highest[0]),
        share=share,
        ratio=low / usual if usual > 0 else math.inf,
    )
