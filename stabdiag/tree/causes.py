"""What the log tells of causes: jumps of the learning rate, repeated batches, changed settings."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits.tree import SpikeLimits
from stabdiag.stats.coincidence import FREQUENT_RATE, changes_frequently, steps_since_seen
from stabdiag.stats.levels import CONTEXT_POINTS
from stabdiag.stats.quantiles import MIN_TREND_POINTS, RELATIVE_TOLERANCE, usual_gap

# Once or twice is no habit: more jumps of the learning rate are its schedule, and so many overflows
# a scaler may let pass before it lowers the scale, as Megatron's and DeepSpeed's do.
FEW = 2

# What is written with fewer digits, here or there, has not changed.
_ROUNDING = 1e-6


@frozen
class Moves:
    """The changes of a setting: the records with a new value, and which losses they may precede.

    A change lies between the losses ``low`` and ``high``, as positions; both are one loss where the
    setting was logged with each of them.
    """

    setting: Series
    at: Ints
    low: Ints
    high: Ints


@frozen
class Causes:
    """What every spike of a run is held against, each measured once, when first asked for.

    A log may have thousands of spikes: what is asked of each of them looks at its neighbours alone.
    """

    history: History
    limits: SpikeLimits
    grad_clip: float | None

    @cached_property
    def lr_jumps(self) -> Ints:
        """The steps at which the learning rate jumps up by more than its schedule explains."""
        return jumps(self.history.finite("lr"), self.limits.lr_jump)

    @cached_property
    def lr_unit(self) -> float:
        """What learning rates that are written with few digits change by, or else 0."""
        return unit_of(self.history.finite("lr").values)

    @cached_property
    def future_max_lr(self) -> Floats:
        """The highest learning rate from each one on."""
        return running_max_from_end(self.history.finite("lr").values)

    @cached_property
    def since_seen(self) -> Floats:
        """How many steps ago the batch of each record was last seen; inf for a new one."""
        batches = self.history.series["batch_id"]
        return steps_since_seen(batches.steps, batches.values)

    @cached_property
    def seen_again(self) -> Mask:
        """Which records are of a batch that had been seen shortly before."""
        return self.since_seen <= self.limits.batch_lookback

    @cached_property
    def repeated(self) -> Ints | None:
        """The steps on batches that had been seen shortly before, if these are few."""
        batches = self.history.get("batch_id")
        if batches is None:
            return None
        steps = batches.steps
        found = steps[self.seen_again]
        return found if 0 < len(found) <= FREQUENT_RATE * len(steps) else None

    @cached_property
    def moves(self) -> tuple[Moves, ...]:
        """Where the settings changed that were logged beside the loss, its parts' weights too."""
        loss = self.history.get("loss")
        if loss is None:
            return ()
        weights = self.history.group("loss_weight").values()
        settings = (*stepped_settings(self.history), *weights)
        return tuple(_moves(one.finite(), loss.steps) for one in settings)

    @cached_property
    def norm_stride(self) -> float:
        """The usual steps from one gradient norm to the next."""
        return stride_of(self.history, self.history.finite("grad_norm"))

    @cached_property
    def norm_is_clipped(self) -> bool:
        """Whether the gradient norm never exceeds the clip threshold: it was logged after it."""
        norm = self.history.finite("grad_norm").values
        return bool(
            self.grad_clip and norm.max(initial=0.0) <= (1 + RELATIVE_TOLERANCE) * self.grad_clip
        )


def stride_of(history: History, series: Series) -> float:
    """Return the usual steps from one point of a series to the next; 1 where they are epochs."""
    return 1.0 if history.counts_epochs else usual_gap(series.steps)


@frozen
class SteepestRise:
    """The largest factor by which one learning rate exceeds the one before it, and its position.

    ``is_jump`` says that it is no part of the schedule's own slope.
    """

    at: int
    ratio: float
    is_jump: bool


def steepest_rise(causes: Causes, first: int, last: int) -> SteepestRise | None:
    """Return the steepest rise of the learning rate between two steps; None without any."""
    lr, factor = causes.history.finite("lr"), causes.limits.lr_jump
    values = lr.values
    low, high = np.searchsorted(lr.steps, [first, last + 1])
    inside = np.arange(max(low, 1), high)
    if not len(inside):
        return None
    ratios = _ratios(values, inside, factor, causes.future_max_lr)
    at, ratio = int(inside[np.argmax(ratios)]), float(ratios.max())
    place, unit = np.array([at]), causes.lr_unit
    (is_jump,) = _are_jumps(values, place, np.array([ratio]), factor=factor, unit=unit)
    return SteepestRise(at=at, ratio=ratio, is_jump=bool(is_jump))


@frozen
class Fall:
    """A sudden fall of the learning rate: the position after it."""

    at: int


def steepest_fall(causes: Causes, first: int, last: int) -> Fall | None:
    """Return the steepest fall of the rate between two steps, beyond its schedule's own slope.

    It falls by the factor that makes a rise a jump.
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
    sudden = inside[falls > np.maximum(3 * usual, 1.5 * causes.lr_unit)]
    if not len(sudden):
        return None
    return Fall(at=int(sudden[np.argmax(values[sudden - 1] - values[sudden])]))


def jumps(lr: Series, factor: float) -> Ints:
    """Return the steps at which finite learning rates jump up, unless they keep doing so.

    A jump is a rise by a ``factor``.
    """
    nothing = np.empty(0, np.int64)
    if len(lr) < 3:
        return nothing
    values = lr.values
    low, high = values[:-1], values[1:]
    at = np.flatnonzero(high >= factor * low) + 1
    if not len(at):
        return nothing
    ratios = _ratios(values, at, factor, running_max_from_end(values))
    found = at[_are_jumps(values, at, ratios, factor=factor, unit=unit_of(values))]
    if len(found) > FEW:
        # A schedule with restarts jumps as a rule, but no higher than it had been.
        peak = np.maximum.accumulate(low) * factor
        found = found[high[found - 1] >= peak[found - 1]]
    return lr.steps[found] if len(found) <= FEW else nothing


def running_max_from_end(values: Floats) -> Floats:
    """Return the highest of each learning rate and those after it: shape (n,)."""
    highest: Floats = np.maximum.accumulate(values[::-1])[::-1]
    return highest


def _ratios(values: Floats, at: Ints, factor: float, to_come: Floats) -> Floats:
    """Return by what factor learning rates lie above the ones before them.

    Above 0 that is infinite. But a rate that has only just begun at 0, or that goes on to rise by a
    factor, is warming up: that counts as no rise. Nor does the second rate of a log, before which
    there is no slope to go by.

    Args:
        values: all learning rates, shape (n,).
        at: the positions asked for, from 1 to n - 1, rising.
        factor: what a rate that is warming up goes on to rise by.
        to_come: the highest rate from each one on, shape (n,).
    """
    ratios, low, high = np.ones(len(at)), values[at - 1], values[at]
    above = (low > 0) & (at > 1)
    ratios[above] = high[above] / low[above]
    stays = to_come[at] < factor * high
    ratios[(low == 0) & (high > 0) & (at > MIN_TREND_POINTS) & stays] = np.inf
    return ratios


def unit_of(values: Floats) -> float:
    """Return what learning rates that are written with few digits change by, or else 0."""
    changes = np.abs(np.diff(values))
    changes = changes[changes > 0]
    if not len(changes):
        return 0.0
    unit = float(changes.min())
    if np.count_nonzero(changes < 1.5 * unit) < CONTEXT_POINTS:
        return 0.0
    counts = values / unit
    return unit if (np.abs(counts - np.round(counts)) < RELATIVE_TOLERANCE).all() else 0.0


def _are_jumps(values: Floats, at: Ints, ratios: Floats, *, factor: float, unit: float) -> Mask:
    """Tell where a learning rate has risen by a factor, and by more than the schedule's slope.

    During a warm-up each step is a rise by a factor: one more of the same size is the schedule's.
    Of one that is written with few digits each digit is a rise: it takes more than the last.
    """
    before = np.abs(_changes(values, at[:, np.newaxis] - 1 - np.arange(1, MIN_TREND_POINTS + 1)))
    after = _changes(values, at[:, np.newaxis] + np.arange(MIN_TREND_POINTS))
    usual = np.maximum(before.max(axis=1), after.max(axis=1))
    rises: Floats = values[at] - values[at - 1]
    are: Mask = (ratios >= factor) & (rises > np.maximum(3 * usual, 1.5 * unit))
    return are


def _changes(values: Floats, where: Ints) -> Floats:
    """Return the changes from positions on to the next ones; beyond either end there is none."""
    within = (where >= 0) & (where < len(values) - 1)
    begin = np.where(within, where, 0)
    changes: Floats = np.where(within, values[begin + 1] - values[begin], 0.0)
    return changes


def stepped_settings(history: History) -> list[Series]:
    """Return the settings but for those that change all along, and so nowhere in particular."""
    losses, settings = len(history.finite("loss")), history.group("setting").values()
    return [one for one in settings if not changes_frequently(one.values, losses)]


def _moves(setting: Series, steps: Ints) -> Moves:
    """Return where a setting changed: after its last record with a value, by the first without."""
    values = setting.values
    at = np.flatnonzero(np.abs(np.diff(values)) > _ROUNDING * np.abs(values[1:])) + 1
    high = np.searchsorted(steps, setting.steps[at])
    low = np.minimum(np.searchsorted(steps, setting.steps[at - 1], side="right"), high)
    if len(at) == len(setting) - 1:  # it was logged where it changed
        low = high
    return Moves(setting=setting, at=at, low=low, high=high)
