"""Logged causes: jumps of the learning rate, repeated batches and changed settings."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits.tree import SpikeLimits
from stabdiag.model.patterns import lazy_pattern
from stabdiag.stats.coincidence import (
    FREQUENT_RATE,
    changes_frequently,
    steps_since_seen,
    unlikely_repeats,
)
from stabdiag.stats.quantiles import usual_gap
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CONTEXT_POINTS,
    HALF,
    MAJORITY,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    NEARLY_ALL,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    ROUNDING_DIGITS,
)

# More jumps of the learning rate than this are its schedule. The scalers of Megatron and DeepSpeed
# tolerate this many overflows before they lower the scale.
MAX_OCCASIONAL = 2

# Names of schedules that raise the rate to its peak repeatedly.
_RESTARTS: Final = lazy_pattern(r"restart|cycl|sgdr|triang", re.IGNORECASE)

# Relative tolerance: a value logged with fewer digits has not changed.
_UNCHANGED_TOLERANCE = 1e-6


@frozen
class Moves:
    """The changes of a setting: the records with a new value, and the losses near them.

    Each change is between the positions ``low`` and ``high`` of the losses. They are equal if the
    setting was logged with every loss.
    """

    setting: Series
    at: Ints
    low: Ints
    high: Ints


@frozen
class Causes:
    """The logged causes that spikes are compared with, each computed once, on first use.

    A log may have thousands of spikes, so the check of each spike only visits its neighbors.
    """

    history: History
    limits: SpikeLimits
    grad_clip: float | None
    schedule: str | None

    @cached_property
    def lr_jumps(self) -> Ints:
        """The steps where the learning rate jumps by more than its schedule explains."""
        lr, factor = self.history.finite("lr"), self.limits.lr_jump
        steps = jumps(lr, factor)
        are_restarts = _are_restarts(lr, steps)
        if self.schedule is None:
            repeats = (_repeats_schedule(lr, step) for step in steps.tolist())
            are_restarts &= np.fromiter(repeats, dtype=bool, count=len(steps))
        elif not has_restarts(self.schedule):
            return steps
        return steps[~are_restarts]

    @cached_property
    def warm_restarts(self) -> Ints:
        """The steps where a schedule with restarts raises the rate to at most its earlier peak."""
        lr = self.history.finite("lr")
        steps = all_jumps(lr, self.limits.lr_jump)
        return steps[~np.isin(steps, self.lr_jumps)]

    @cached_property
    def lr_unit(self) -> float:
        """The last digit of learning rates that are logged with few digits, or else 0."""
        return last_logged_digit(self.history.finite("lr").values)

    @cached_property
    def future_max_lr(self) -> Floats:
        """The highest learning rate from each position to the end."""
        return running_max_from_end(self.history.finite("lr").values)

    @cached_property
    def since_seen(self) -> Floats:
        """The number of steps since the batch of each record was last seen; inf if it is new."""
        batches = self.history.series["batch_id"]
        return steps_since_seen(batches.steps, batches.values)

    @cached_property
    def repeats_batch(self) -> Mask:
        """A mask of the records whose batch was seen shortly before."""
        return self.since_seen <= self.limits.batch_lookback

    @cached_property
    def unlikely_repeats(self) -> Mask:
        """A mask of these records without the repeats that a random order explains."""
        ids, lookback = self.history.series["batch_id"].values, self.limits.batch_lookback
        return unlikely_repeats(ids, self.since_seen, lookback)

    @cached_property
    def repeat_steps(self) -> Ints | None:
        """The steps whose batch was seen shortly before, or None unless they are few."""
        batches = self.history.get("batch_id")
        if batches is None:
            return None
        steps = batches.steps
        if np.count_nonzero(self.repeats_batch) > FREQUENT_RATE * len(steps):
            return None
        repeats = steps[self.unlikely_repeats]
        return repeats if len(repeats) else None

    @cached_property
    def moves(self) -> tuple[Moves, ...]:
        """The changes of all settings, including the weights of loss terms."""
        loss = self.history.get("loss")
        if loss is None:
            return ()
        weights = self.history.group("loss_weight").values()
        settings = (*stepped_settings(self.history), *weights)
        return tuple(_moves(setting.finite(), loss.steps) for setting in settings)

    @cached_property
    def norm_stride(self) -> float:
        """The usual number of steps between two gradient norms."""
        return usual_stride(self.history, self.history.finite("grad_norm"))

    @cached_property
    def norm_is_clipped(self) -> bool:
        """Whether no gradient norm exceeds the clip threshold, so it was logged after clipping."""
        norm = self.history.finite("grad_norm").values
        return bool(
            self.grad_clip and norm.max(initial=0.0) <= (1 + RELATIVE_TOLERANCE) * self.grad_clip
        )


def has_restarts(schedule: str | None) -> bool:
    """Return True if the name of a schedule says that the rate returns to its peak."""
    return _RESTARTS.search(schedule or "") is not None


def _are_restarts(lr: Series, steps: Ints) -> Mask:
    """Return a mask of the jumps that end near the earlier peak, or at a part of it."""
    at = np.searchsorted(lr.steps, steps)
    peak = np.maximum.accumulate(lr.values)[at - 1]
    are: Mask = (lr.values[at] >= HALF * peak) & (lr.values[at] <= (1 + NEGLIGIBLE) * peak)
    return are


def _repeats_schedule(lr: Series, step: int) -> bool:
    """Return True if the rates from a step on follow the same course as from the start of the log.

    A warm-up may precede the first cycle only, and later cycles may have lower rates.
    """
    at = int(np.searchsorted(lr.steps, step))
    size = min(at, len(lr) - at)
    if size < max(MIN_TREND_POINTS, NEARLY_ALL * at):
        return False
    first, second = lr.values[:size], lr.values[at : at + size]
    peak, scale = float(first.max()), float(second.max() / first.max())
    follows = np.abs(second / scale - first) <= NEGLIGIBLE * peak
    # A constant rate has no course.
    return bool(np.mean(follows) >= NEARLY_ALL and second.min() <= MAJORITY * second.max())


def usual_stride(history: History, series: Series) -> float:
    """Return the usual number of steps between two points of a series; 1 for epochs."""
    return 1.0 if history.counts_epochs else usual_gap(series.steps)


@frozen
class SteepestRise:
    """The largest ratio of two consecutive learning rates, and its position.

    ``is_jump`` means that it exceeds the slope of the schedule.
    """

    at: int
    ratio: float
    is_jump: bool


def steepest_rise(causes: Causes, first: int, last: int) -> SteepestRise | None:
    """Return the steepest rise of the learning rate between two steps, or None."""
    lr, factor = causes.history.finite("lr"), causes.limits.lr_jump
    values = lr.values
    low, high = np.searchsorted(lr.steps, [first, last + 1])
    inside = np.arange(max(low, 1), high)
    if not len(inside):
        return None
    ratios = _ratios(values, inside, factor, causes.future_max_lr)
    at, ratio = int(inside[np.argmax(ratios)]), float(ratios.max())
    position, unit = np.array([at]), causes.lr_unit
    (is_jump,) = _are_jumps(values, position, np.array([ratio]), factor=factor, unit=unit)
    return SteepestRise(at=at, ratio=ratio, is_jump=bool(is_jump))


@frozen
class RateDrop:
    """A sudden fall of the learning rate: the position after it."""

    at: int


def steepest_fall(causes: Causes, first: int, last: int) -> RateDrop | None:
    """Return the steepest fall of the learning rate beyond the slope of its schedule, or None.

    The threshold is the factor of a jump.
    """
    lr, factor = causes.history.finite("lr"), causes.limits.lr_jump
    values = lr.values
    low, high = np.searchsorted(lr.steps, [first, last + 1])
    inside = np.arange(max(low, 2), high)
    inside = inside[values[inside - 1] >= factor * np.maximum(values[inside], 0.0)]
    inside = inside[values[inside - 1] > 0]
    if not len(inside):
        return None
    falls = values[inside - 1] - values[inside]
    before = np.abs(
        _changes(values, inside[:, np.newaxis] - 1 - np.arange(1, MIN_TREND_POINTS + 1))
    )
    after = np.abs(_changes(values, inside[:, np.newaxis] + np.arange(MIN_TREND_POINTS)))
    usual = np.maximum(before.max(axis=1), after.max(axis=1))
    sudden = inside[falls > np.maximum(BEYOND_CHANCE * usual, ROUNDING_DIGITS * causes.lr_unit)]
    if not len(sudden):
        return None
    return RateDrop(at=int(sudden[np.argmax(values[sudden - 1] - values[sudden])]))


def jumps(lr: Series, factor: float) -> Ints:
    """Return the steps where finite learning rates jump, unless jumps are frequent.

    A jump is a rise by at least ``factor``.
    """
    steps = all_jumps(lr, factor)
    if len(steps) > MAX_OCCASIONAL:
        # A schedule with restarts jumps regularly, but not above its earlier peak.
        at, values = np.searchsorted(lr.steps, steps), lr.values
        peak = np.maximum.accumulate(values)[at - 1] * factor
        steps = steps[values[at] >= peak]
    return steps if len(steps) <= MAX_OCCASIONAL else steps[:0]


def all_jumps(lr: Series, factor: float) -> Ints:
    """Return the steps where finite learning rates rise by a factor, beyond their slope."""
    nothing = np.empty(0, np.int64)
    if len(lr) < MIN_CONSECUTIVE:
        return nothing
    values = lr.values
    at = np.flatnonzero(values[1:] >= factor * values[:-1]) + 1
    if not len(at):
        return nothing
    ratios = _ratios(values, at, factor, running_max_from_end(values))
    return lr.steps[
        at[_are_jumps(values, at, ratios, factor=factor, unit=last_logged_digit(values))]
    ]


def running_max_from_end(values: Floats) -> Floats:
    """Return the maximum from each position to the end: shape (n,)."""
    highest: Floats = np.maximum.accumulate(values[::-1])[::-1]
    return highest


def _ratios(values: Floats, at: Ints, factor: float, future_max: Floats) -> Floats:
    """Return the ratios of learning rates to the ones before them.

    The ratio to a rate of 0 is infinite. It counts as 1 during a warm-up: at the beginning of the
    log, or if the rate keeps rising by ``factor``. The second rate of a log counts as 1 too: no
    slope precedes it.

    Args:
        values: all learning rates, shape (n,).
        at: the positions to compare, from 1 to n - 1, ascending.
        factor: the rise that is still to come during a warm-up.
        future_max: the highest rate from each position to the end, shape (n,).
    """
    ratios, low, high = np.ones(len(at)), values[at - 1], values[at]
    above = (low > 0) & (at > 1)
    ratios[above] = high[above] / low[above]
    stays = future_max[at] < factor * high
    ratios[(low == 0) & (high > 0) & (at > MIN_TREND_POINTS) & stays] = np.inf
    return ratios


def last_logged_digit(values: Floats) -> float:
    """Return the last digit of values that are logged with few digits, or else 0."""
    changes = np.abs(np.diff(values))
    changes = changes[changes > 0]
    if not len(changes):
        return 0.0
    unit = float(changes.min())
    if np.count_nonzero(changes < ROUNDING_DIGITS * unit) < CONTEXT_POINTS:
        return 0.0
    counts = values / unit
    return unit if (np.abs(counts - np.round(counts)) < RELATIVE_TOLERANCE).all() else 0.0


def _are_jumps(values: Floats, at: Ints, ratios: Floats, *, factor: float, unit: float) -> Mask:
    """Return a mask of the rises by a factor that also exceed the slope of the schedule.

    During a warm-up every step may be a rise by a factor, so neighboring rises of the same size are
    the schedule. With few digits, the rise has to exceed the last digit.
    """
    before = np.abs(_changes(values, at[:, np.newaxis] - 1 - np.arange(1, MIN_TREND_POINTS + 1)))
    after = _changes(values, at[:, np.newaxis] + np.arange(MIN_TREND_POINTS))
    usual = np.maximum(before.max(axis=1), after.max(axis=1))
    rises: Floats = values[at] - values[at - 1]
    are: Mask = (ratios >= factor) & (
        rises > np.maximum(BEYOND_CHANCE * usual, ROUNDING_DIGITS * unit)
    )
    return are


def _changes(values: Floats, where: Ints) -> Floats:
    """Return the changes from positions to the next ones; 0 beyond either end."""
    within = (where >= 0) & (where < len(values) - 1)
    begin = np.where(within, where, 0)
    changes: Floats = np.where(within, values[begin + 1] - values[begin], 0.0)
    return changes


def stepped_settings(history: History) -> list[Series]:
    """Return the settings, except those that change throughout the log."""
    losses, settings = len(history.finite("loss")), history.group("setting").values()
    return [setting for setting in settings if not changes_frequently(setting.values, losses)]


def _moves(setting: Series, steps: Ints) -> Moves:
    """Return the changes of a setting; each one is after the last record with the old value."""
    values = setting.values
    at = np.flatnonzero(np.abs(np.diff(values)) > _UNCHANGED_TOLERANCE * np.abs(values[1:])) + 1
    high = np.searchsorted(steps, setting.steps[at])
    low = np.minimum(np.searchsorted(steps, setting.steps[at - 1], side="right"), high)
    if len(at) == len(setting) - 1:  # it is logged only when it changes
        low = high
    return Moves(setting=setting, at=at, low=low, high=high)
