"""Jumps of the learning rate: rises beyond its schedule's own slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints, Mask
    from stabdiag.model.history import Series
    from stabdiag.tree.causes import Causes

# More jumps of the learning rate than this are its schedule.
_FEW_JUMPS = 2

# So many points on either side tell a schedule's own slope.
_SLOPE = 10

# A rate that changes by the same so often has few digits, give or take this share of the last.
_UNITS = 5
_NEARLY = 0.01
_MOST_UNITS = 1e6


@dataclass(frozen=True, kw_only=True)
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
    ratios = _ratios(values, inside, factor, causes.lr_to_come)
    at, ratio = int(inside[np.argmax(ratios)]), float(ratios.max())
    place, unit = np.array([at]), causes.lr_unit
    (is_jump,) = _are_jumps(values, place, np.array([ratio]), factor=factor, unit=unit)
    return SteepestRise(at=at, ratio=ratio, is_jump=bool(is_jump))


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
    ratios = _ratios(values, at, factor, highest_to_come(values))
    found = at[_are_jumps(values, at, ratios, factor=factor, unit=unit_of(values))]
    if len(found) > _FEW_JUMPS:
        # A schedule with restarts jumps as a rule, but no higher than it had been.
        peak = np.maximum.accumulate(low) * factor
        found = found[high[found - 1] >= peak[found - 1]]
    return lr.steps[found] if len(found) <= _FEW_JUMPS else nothing


def highest_to_come(values: Floats) -> Floats:
    """Return the highest of each learning rate and those after it: shape (n,)."""
    highest: Floats = np.maximum.accumulate(values[::-1])[::-1]
    return highest


def _ratios(values: Floats, at: Ints, factor: float, to_come: Floats) -> Floats:
    """Return by what factor learning rates lie above the ones before them.

    Above 0 that is infinite. But a rate that has only just begun at 0, or that goes on to rise by a
    factor, is warming up: that counts as no rise.

    Args:
        values: all learning rates, shape (n,).
        at: the positions asked for, from 1 to n - 1, rising.
        factor: what a rate that is warming up goes on to rise by.
        to_come: the highest rate from each one on, shape (n,).
    """
    ratios, low, high = np.ones(len(at)), values[at - 1], values[at]
    above = low > 0
    ratios[above] = high[above] / low[above]
    stays = to_come[at] < factor * high
    ratios[(low == 0) & (high > 0) & (at > _SLOPE) & stays] = np.inf
    return ratios


def unit_of(values: Floats) -> float:
    """Return what learning rates that are written with few digits change by, or else 0."""
    changes = np.abs(np.diff(values))
    changes = changes[changes > 0]
    if not len(changes):
        return 0.0
    unit = float(changes.min())
    if np.abs(values).max() >= _MOST_UNITS * unit:
        return 0.0
    counts = values / unit
    in_units = bool((np.abs(counts - np.round(counts)) < _NEARLY).all())
    return unit if in_units and np.sum(changes < 1.5 * unit) >= _UNITS else 0.0


def _are_jumps(values: Floats, at: Ints, ratios: Floats, *, factor: float, unit: float) -> Mask:
    """Tell where a learning rate has risen by a factor, and by more than the schedule's slope.

    During a warm-up each step is a rise by a factor: one more of the same size is the schedule's.
    Of one that is written with few digits each digit is a rise: it takes more than the last.
    """
    before = np.abs(_changes(values, at[:, np.newaxis] - 1 - np.arange(1, _SLOPE + 1)))
    after = _changes(values, at[:, np.newaxis] + np.arange(_SLOPE))
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
