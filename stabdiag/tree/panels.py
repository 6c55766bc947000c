"""The three panels of Q2.3: learning rate, batch, gradient norm."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from stabdiag.model.findings import Panel, Scalar
from stabdiag.model.text import every, num, plural, whole
from stabdiag.stats.coincidence import FREQUENT_RATE
from stabdiag.stats.course import level_before, usual_mean
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import Spike
from stabdiag.stats.standards import MIN_CONSECUTIVE, TWICE
from stabdiag.tree.causes import steepest_fall, steepest_rise
from stabdiag.tree.run import Run


def panels(run: Run, spike: Spike) -> tuple[Panel, Panel, Panel]:
    """Return the three panels of a spike, in order of precedence.

    A jump of the schedule or a repeated batch also raises the gradient norm. The batch that caused
    the peak may repeat before the loss recovers.
    """
    first, last = lookback_start(run, run.at(spike.onset)), run.at(spike.peak)
    up = run.at(spike.end - 1) if spike.recovered else last
    return lr_panel(run, first, last), batch_panel(run, first, up), grad_panel(run, spike)


def lookback_start(run: Run, step: int) -> int:
    """Return the earliest step of a possible cause of an event at ``step``."""
    return int(step - max(run.lookback, 2 * run.stride))


def lr_panel(run: Run, first: int, last: int) -> Panel:
    """Did the learning rate jump in these steps, beyond the slope of the schedule?"""
    panel = partial(Panel, branch="lr-jump")
    lr = run.history.get("lr")
    if lr is None:
        return panel(holds=None, because="the learning rate was not logged")
    lr = lr.finite()
    values, steps = lr.values, lr.steps
    rise = steepest_rise(run.causes, first, last)
    if rise is None:
        return panel(holds=None, because="no learning rate was logged around it")
    at, ratio = rise.at, rise.ratio
    measured: dict[str, Scalar] = {
        "lr_ratio": ratio if math.isfinite(ratio) else None,
        "lr_before": float(values[at - 1]),
        "lr_after": float(values[at]),
    }
    if not rise.is_jump:
        low, high = np.searchsorted(steps, [first, last + 1])
        is_zero = not values[max(low - 1, 0) : high].any()
        fall = steepest_fall(run.causes, first, last)
        if fall is not None:
            rate_before, rate_after = float(values[fall.at - 1]), float(values[fall.at])
            because = (
                f"the learning rate fell from {num(rate_before)} to {num(rate_after)} at "
                f"{run.unit} {int(steps[fall.at])}"
            )
            measured |= {
                "lr_before": rate_before,
                "lr_after": rate_after,
                "lr_fell_at": int(steps[fall.at]),
            }
            return panel(holds=False, because=because, measured=measured)
        because = f"the learning rate {'was 0 around it' if is_zero else 'kept to its schedule'}"
        return panel(holds=False, because=because, measured=measured)
    because = (
        f"the learning rate jumped from {num(float(values[at - 1]))} to {num(float(values[at]))} "
        f"at {run.unit} {int(steps[at])}"
    )
    if run.is_usual_jump(int(steps[at])):
        because += ", as it does repeatedly"
        return panel(holds=False, because=because, measured=measured, usual=True)
    return panel(holds=True, because=because, measured=measured, steps=(int(steps[at]),))


def batch_panel(run: Run, first: int, last: int) -> Panel:
    """Was a batch of these steps seen shortly before?"""
    panel = partial(Panel, branch="duplicate-batch")
    batches = run.history.get("batch_id")
    if batches is None:
        return panel(holds=None, because="no batch id was logged")
    repeats = run.causes.repeats_batch
    low, high = (int(at) for at in np.searchsorted(batches.steps, [first, last + 1]))
    if low == high:
        return panel(holds=None, because="no batch id was logged around it")
    candidates = low + np.flatnonzero(repeats[low:high])
    if not len(candidates):
        return panel(holds=False, because="no batch was seen twice around it")
    elsewhere = np.count_nonzero(repeats) - len(candidates)
    usual = elsewhere / max(len(repeats) - (high - low), 1)
    if usual > FREQUENT_RATE:
        because = f"batch ids repeat throughout ({usual:.0%} of the steps), so they show nothing"
        return panel(holds=None, because=because)
    candidates = candidates[run.causes.unlikely_repeats[candidates]]
    if not len(candidates):
        because = "batch ids repeat as often as in a random order, so they show nothing"
        return panel(holds=None, because=because)
    # A stuck loader is stuck from the first of the consecutive repeats.
    at = int(candidates[0] - np.argmin(repeats[: candidates[0]][::-1]))
    name, step = whole(float(batches.values[at])), int(batches.steps[at])
    gap = int(run.causes.since_seen[at])
    because = f"batch {name} of {run.unit} {step} had been seen {plural(gap, run.unit)} before"
    return panel(
        holds=True,
        because=because,
        measured={"batch_id": float(batches.values[at]), "repeats": len(candidates)},
        steps=(step,),
    )


def leading_layer(run: Run, spike: Spike) -> tuple[str, float] | None:
    """Return the layer whose gradient norm rose most at a spike, and the ratio to its median.

    It has to exceed the limit of a long-tail batch, and the rise of the usual layer twice.
    """
    margin = run.stride
    first, last = math.ceil(run.at(spike.onset) - margin), math.floor(run.at(spike.peak) + margin)
    ratios = {}
    for name, series in run.history.group("grad_norm").items():
        around, before = series.between(first, last).finite(), series.finite().until(first - 1)
        usual = level_before(before.values, len(before), run.spike_window) if len(before) else 0.0
        if name != "all" and usual > 0 and len(around):
            ratios[name] = float(around.values.max()) / usual
    if len(ratios) < MIN_CONSECUTIVE:
        return None
    name = max(ratios, key=lambda layer: ratios[layer])
    typical = median(np.array(list(ratios.values())))
    is_clear = ratios[name] > max(run.limits.spike.grad_ratio, TWICE * typical)
    return (name, ratios[name]) if is_clear else None


def grad_panel(run: Run, spike: Spike) -> Panel:
    """Was the gradient norm before clipping far above its rolling mean at the spike?"""
    panel, limits = partial(Panel, branch="long-tail-batch"), run.limits.spike
    norm = run.history.get("grad_norm")
    if norm is None:
        return panel(holds=None, because="the gradient norm was not logged")
    onset, peak = run.at(spike.onset), run.at(spike.peak)
    finite = norm.finite()
    begin = int(np.searchsorted(finite.steps, onset))
    before = finite.values[max(begin - run.spike_window, 0) : begin]
    # The loss is computed before the update, so the previous batch may be the cause.
    margin = run.stride
    around = norm.between(math.ceil(onset - margin), math.floor(peak + margin))
    norms, nonfinite = around.finite().values, around.steps[~np.isfinite(around.values)]
    measured: dict[str, Scalar] = {"grad_nonfinite": int(nonfinite[0])} if len(nonfinite) else {}
    overflow = (
        f"the gradient norm was not finite at {run.unit} {nonfinite[0]}" if len(nonfinite) else ""
    )
    if len(before) < 2 or not len(norms):
        because = overflow or "no gradient norm was logged around it"
        return panel(holds=None, because=because, measured=measured)
    clip = run.manifest.grad_clip
    if clip and run.causes.norm_is_clipped:
        because = (
            f"the gradient norm never exceeds the clip threshold {num(clip)}: it was logged after "
            "clipping"
        )
        return panel(holds=None, because=because)
    usual = usual_mean(before, limits.grad_ratio)
    if usual <= 0:
        return panel(holds=None, because="the gradient norm was 0 before it")
    ratio = float(norms.max()) / usual
    holds = ratio > limits.grad_ratio
    reached = (
        f"reached {num(float(norms.max()))}, {num(ratio)} x its rolling mean "
        f"({'over' if holds else 'within'} {num(limits.grad_ratio)} x)"
    )
    because = f"the gradient norm {reached}"
    if not holds and overflow:
        because = f"{overflow}; around it, it {reached}"
    elif not holds and run.causes.norm_stride > 1:
        because += (
            f"; it was logged {every(run.causes.norm_stride, run.unit)}, and where the "
            "loss is a mean over them, it may not be the norm of the step that spiked"
        )
    measured["grad_ratio"] = ratio
    return panel(holds=holds, because=because, measured=measured, steps=(onset,))
