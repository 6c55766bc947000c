"""The three panels of Q2.3: learning rate, batch, gradient norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.quantiles import median, typical
from stabdiag.tree.batches import USUAL_REPEATS
from stabdiag.words import num, plural, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stabdiag.findings import Scalar
    from stabdiag.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# More jumps of the learning rate than this are its schedule.
_FEW_JUMPS = 2

# So many points on either side tell a schedule's own slope.
_SLOPE = 10

# A rate that changes by the same so often has few digits, give or take this share of the last.
_UNITS = 5
_NEARLY = 0.01
_MOST_UNITS = 1e6

# What is told of a jump that is the schedule's own.
AGAIN = ", as it does again and again"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: whether it names the cause (None if it cannot tell), why, and the numbers."""

    branch: str
    holds: bool | None
    because: str
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()


def panels(case: Case, spike: Spike) -> tuple[Panel, Panel, Panel]:
    """Return the three panels of a spike, in the order of their precedence.

    A jump of the schedule also raises the gradient norm, and so does a repeated batch.
    """
    first, last = before(case, case.at(spike.onset)), case.at(spike.peak)
    return lr_panel(case, first, last), batch_panel(case, first, last), grad_panel(case, spike)


def before(case: Case, step: int) -> int:
    """Return the first step at which a cause of something at ``step`` may lie."""
    return int(step - max(case.limits.spike.lookback, 2 * case.stride))


def lr_panel(case: Case, first: int, last: int) -> Panel:
    """Did the learning rate jump up in these steps, beyond the schedule's own slope?"""
    branch = "lr-jump"
    lr = case.history.get("lr")
    if lr is None:
        return Panel(branch=branch, holds=None, because="the learning rate was not logged")
    lr = lr.finite()
    values, steps = lr.values, lr.steps
    low, high = np.searchsorted(steps, [first, last + 1])
    inside = np.arange(max(low, 1), high)
    if not len(inside):
        return Panel(branch=branch, holds=None, because="no learning rate was logged around it")
    ratios = _ratios(case, values, inside)
    at, ratio = int(inside[np.argmax(ratios)]), float(ratios.max())
    begin = max(at - _SLOPE - 1, 0)
    around = values[begin : at + _SLOPE + 1]
    place, ratio_at = np.array([at - begin]), np.array([ratio])
    jumped = _are_jumps(case, around, place, ratio_at, _unit(values))[0]
    measured: dict[str, Scalar] = {
        "lr_ratio": ratio if math.isfinite(ratio) else None,
        "lr_before": float(values[at - 1]),
        "lr_after": float(values[at]),
    }
    if not jumped:
        stood = not values[inside].any() and not values[inside - 1].any()
        because = f"the learning rate {'was 0 around it' if stood else 'kept to its schedule'}"
        return Panel(branch=branch, holds=False, because=because, measured=measured)
    because = (
        f"the learning rate jumped from {num(float(values[at - 1]))} to {num(float(values[at]))} "
        f"at step {int(steps[at])}"
    )
    if not case.literal and steps[at] not in case.lr_jumps:
        because += AGAIN
        return Panel(branch=branch, holds=False, because=because, measured=measured)
    return Panel(
        branch=branch, holds=True, because=because, measured=measured, steps=(int(steps[at]),)
    )


def jumps(case: Case) -> Ints:
    """Return the steps at which the learning rate jumps up, unless it keeps doing so."""
    lr = case.history.get("lr")
    nothing = np.empty(0, np.int64)
    if lr is None or len(lr) < 3:
        return nothing
    lr = lr.finite()
    low, high = lr.values[:-1], lr.values[1:]
    up = (low >= 0) & (high > 0) & (high >= case.limits.spike.lr_jump * low)
    at = np.flatnonzero(up) + 1
    found = at[_are_jumps(case, lr.values, at, _ratios(case, lr.values, at), _unit(lr.values))]
    if len(found) > _FEW_JUMPS:
        # A schedule with restarts jumps as a rule, but no higher than it had been.
        peak = np.maximum.accumulate(low) * case.limits.spike.lr_jump
        found = found[high[found - 1] >= peak[found - 1]]
    return lr.steps[found] if 0 < len(found) <= _FEW_JUMPS else nothing


def _ratios(case: Case, values: Floats, at: Ints) -> Floats:
    """Return by what factor learning rates lie above the ones before them.

    Above 0 that is infinite. But a rate that has only just begun at 0, or that goes on to rise by a
    factor, is warming up: that counts as no rise.

    Args:
        case: the case; its learning rates go before the positions.
        values: all learning rates, shape (n,).
        at: the positions asked for, from 1 to n - 1, rising.
    """
    ratios, low, high = np.ones(len(at)), values[at - 1], values[at]
    above = low > 0
    with np.errstate(over="ignore"):
        ratios[above] = high[above] / low[above]
    from_zero = np.flatnonzero((low == 0) & (high > 0) & (at > _SLOPE))
    if len(from_zero):
        first = at[from_zero[0]]
        to_come = np.maximum.accumulate(values[first:][::-1])[::-1][at[from_zero] - first]
        stays = to_come < case.limits.spike.lr_jump * high[from_zero]
        ratios[from_zero[stays]] = np.inf
    return ratios


def _unit(values: Floats) -> float:
    """Return what learning rates that are written with few digits change by, or else 0."""
    with np.errstate(over="ignore"):
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


def _are_jumps(
    case: Case, values: Floats, at: Ints, ratios: Floats, unit: float
) -> NDArray[np.bool_]:
    """Tell where a learning rate has risen by a factor, and by more than the schedule's slope.

    During a warm-up each step is a rise by a factor: one more of the same size is the schedule's.
    Of one that is written with few digits each digit is a rise: it takes more than the last.
    """
    none = np.zeros(_SLOPE)
    changes = np.concatenate([none, np.diff(values), none])
    # Those before the change at each position, and those after it.
    windows = np.lib.stride_tricks.sliding_window_view(changes, _SLOPE)
    usual = np.maximum(np.abs(windows[at - 1]).max(axis=1), windows[at + _SLOPE].max(axis=1))
    rises: Floats = values[at] - values[at - 1]
    are: NDArray[np.bool_] = (ratios >= case.limits.spike.lr_jump) & (
        rises > np.maximum(3 * usual, 1.5 * unit)
    )
    return are


def batch_panel(case: Case, first: int, last: int) -> Panel:
    """Was a batch of these steps seen shortly before?"""
    branch = "duplicate-batch"
    batches = case.history.get("batch_id")
    if batches is None:
        return Panel(branch=branch, holds=None, because="no batch id was logged")
    since = case.since_seen
    low, high = np.searchsorted(batches.steps, [first, last + 1])
    if low == high:
        return Panel(branch=branch, holds=None, because="no batch id was logged around it")
    found = low + np.flatnonzero(since[low:high] <= case.limits.spike.batch_lookback)
    if not len(found):
        return Panel(branch=branch, holds=False, because="no batch was seen twice around it")
    elsewhere = np.delete(since, slice(low, high)) <= case.limits.spike.batch_lookback
    usual = float(elsewhere.mean()) if len(elsewhere) else 0.0
    if usual > USUAL_REPEATS:
        because = f"batch ids come back all along ({usual:.0%} of the steps), so they tell nothing"
        return Panel(branch=branch, holds=None, because=because)
    # A loader that is stuck was so from the first of the repeats in a row.
    new = np.flatnonzero(since[: found[0]] > case.limits.spike.batch_lookback)
    at = int(new[-1]) + 1 if len(new) else int(found[0])
    name, step, ago = whole(float(batches.values[at])), int(batches.steps[at]), int(since[at])
    because = f"batch {name} of step {step} had been seen {plural(ago, 'step')} before"
    return Panel(
        branch=branch,
        holds=True,
        because=because,
        measured={"batch_id": float(batches.values[at]), "repeats": len(found)},
        steps=(step,),
    )


def sparse(case: Case, series: Series) -> bool:
    """Tell whether a series was logged at some steps only, so that a step may lie between."""
    return len(series) > 1 and not case.history.counts_epochs and typical(np.diff(series.steps)) > 1


def grad_panel(case: Case, spike: Spike) -> Panel:
    """Was the gradient norm before clipping far above its rolling mean at the spike?"""
    branch, limits = "long-tail-batch", case.limits.spike
    norm = case.history.get("grad_norm")
    if norm is None:
        return Panel(branch=branch, holds=None, because="the gradient norm was not logged")
    onset, peak = case.at(spike.onset), case.at(spike.peak)
    finite = norm.finite()
    begin = int(np.searchsorted(finite.steps, onset))
    before = finite.values[max(begin - case.spike_window, 0) : begin]
    # The loss of a step comes before its update: the batch that hurt may be the one before.
    margin = case.stride
    around = norm.between(math.ceil(onset - margin), math.floor(peak + margin))
    near, lost = around.finite().values, around.steps[~np.isfinite(around.values)]
    measured: dict[str, Scalar] = {"grad_nonfinite": int(lost[0])} if len(lost) else {}
    beyond = f"the gradient norm was not finite at step {lost[0]}" if len(lost) else ""
    if len(before) < 2 or not len(near):
        because = beyond or "no gradient norm was logged around it"
        return Panel(branch=branch, holds=None, because=because, measured=measured)
    clip = case.manifest.grad_clip
    if clip and finite.values.max() <= clip * 1.01:
        because = (
            f"the gradient norm never exceeds the clip threshold {num(clip)}: it was logged after "
            "clipping"
        )
        return Panel(branch=branch, holds=None, because=because)
    kept = before[before <= median(before) * limits.grad_ratio]
    usual = float(np.mean(kept)) if len(kept) else 0.0
    if usual <= 0:
        return Panel(branch=branch, holds=None, because="the gradient norm was 0 before it")
    ratio = float(near.max()) / usual
    holds = ratio > limits.grad_ratio
    because = (
        f"the gradient norm reached {num(float(near.max()))}, {num(ratio)} x its rolling mean "
        f"({'over' if holds else 'within'} {num(limits.grad_ratio)} x)"
    )
    if not holds and beyond:
        because = f"{beyond}; around it, it {because.removeprefix('the gradient norm ')}"
    elif not holds and sparse(case, finite):
        because += (
            f"; it was logged every {num(typical(np.diff(finite.steps)))} steps, and where the "
            "loss is a mean over them, it need not be that of the step that spiked"
        )
    measured["grad_ratio"] = ratio
    return Panel(branch=branch, holds=holds, because=because, measured=measured, steps=(onset,))
