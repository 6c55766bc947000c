"""Drivers of a rising loss: when the learning rate, weights and gradients changed, and how."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.course import usual_mean
from stabdiag.stats.smooth import turning_point
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    RELATIVE_TOLERANCE,
)
from stabdiag.tree.run import Run


@frozen
class LrOver:
    """The learning rate at both ends of a range of steps, and the highest rate before it.

    ``first`` is the first step of the range. ``rises`` means that the rate rose throughout the
    range and to a new maximum.
    """

    first: int
    begin: float
    end: float
    highest_before: float
    rises: bool

    @property
    def is_within_earlier_range(self) -> bool:
        """Return True if the loss fell at rates this high before."""
        return self.end <= self.highest_before


def climb_rates(run: Run, first: int, last: int) -> LrOver | None:
    """Return the learning rate over a climb, or None if too few rates were logged.

    The range is at least the window of §4, and begins before a climb that is shorter.
    """
    lr, limits = run.history.finite("lr"), run.limits.divergence
    climbing = lr.between(first, last).values
    first = min(first, last - limits.window)
    over = lr.between(first, last)
    if len(over) < MIN_CONSECUTIVE or not len(climbing):
        return None
    begin, middle, end = (float(over.values[i]) for i in (0, len(over) // 2, -1))
    before = lr.values[lr.steps < first]
    highest = float(before.max(initial=-np.inf))
    # A warm-up that ends before the climb, or early in it, is not an endless warm-up.
    rises = end > begin * limits.lr_rise and begin < middle < end and float(climbing[0]) < end
    return LrOver(
        first=int(over.steps[0]),
        begin=begin,
        end=end,
        highest_before=highest,
        rises=rises and end > highest,
    )


def find_turn_step(
    run: Run, series: Series, first: int, last: int, *, falling: bool = False
) -> int | None:
    """Return the step where the largest rise (or fall) between two steps began, or None.

    The size is the factor of change within the window of §4. The rise may begin before the first
    step.
    """
    steps, logs = logarithms(series.finite().until(last))
    if not len(logs):
        return None
    window = run.limits.divergence.window
    step = turning_point(steps.astype(np.float64), -logs if falling else logs, window, first)
    return None if step is None else round(step)


def half_peak_step(series: Series) -> int | None:
    """Return the first step at half the peak of a finite series; None if it is never positive."""
    peak = float(series.values.max(initial=0.0))
    return int(series.steps[np.argmax(series.values >= peak / 2)]) if peak > 0 else None


def step_phrase(run: Run, series: Series, step: int) -> str:
    """Return ``at step 600``, or ``near step 600`` if the series has no record there."""
    return f"{'at' if (series.steps == step).any() else 'near'} {run.unit} {step}"


def logarithms(series: Series) -> tuple[Ints, Floats]:
    """Return the steps of positive values, and the values' logarithms."""
    good = series.values > 0
    return series.steps[good], np.log(series.values[good])


@frozen
class Surge:
    """The largest gradient norm shortly before a NaN, relative to the earlier mean.

    ``name`` is the norm in words: the total norm, or a layer's norm if the total was not logged.
    ``since`` is the step of the first norm above the surge limit, or None.
    """

    ratio: float
    step: int
    since: int | None
    name: str


def find_surge(run: Run, step: int) -> Surge | None:
    """Return the largest gradient norm just before a step, or None if the log does not show it.

    Without a total norm, the layer with the largest surge is used. Calm layers say nothing about
    the others.
    """
    norm = run.history.get("grad_norm")
    if norm is not None:
        return None if _is_clipped(run, norm, step) else _largest(run, norm, step)
    norms = run.history.group("grad_norm").values()
    layers = (_largest(run, layer, step) for layer in norms)
    surges = (surge for surge in layers if surge is not None and surge.since is not None)
    return max(surges, key=lambda surge: surge.ratio, default=None)


def why_lead_up_unknown(run: Run, step: int) -> str:
    """Return the reason that the gradient norms do not show the lead-up to a NaN."""
    norm = run.history.get("grad_norm")
    if norm is None:
        layers = ", and the layers' norms were calm" if run.history.group("grad_norm") else ""
        return f"no {'total ' if layers else ''}gradient norm was logged{layers}"
    if _is_clipped(run, norm, step):
        return "the gradient norm was logged after clipping"
    if len(norm.finite().until(step)) < 2 * CONTEXT_POINTS:
        return "too few finite gradient norms were logged"
    return "the gradient norm was 0"


def _largest(run: Run, norm: Series, step: int) -> Surge | None:
    norm = norm.finite().until(step)
    if len(norm) < 2 * CONTEXT_POINTS:
        return None
    latest = norm.values[-CONTEXT_POINTS:]
    before = norm.values[:-CONTEXT_POINTS][-MIN_LONG_LOG:]
    usual = usual_mean(before, run.limits.spike.grad_ratio)
    if usual <= 0:
        return None
    steps, at = norm.steps[-CONTEXT_POINTS:], int(np.argmax(latest))
    surging = steps[latest / usual > run.limits.nan.grad_surge]
    since = int(surging[0]) if len(surging) else None
    layer = norm.role.partition("/")[2]
    name = f"the gradient norm of {layer!r}" if layer else "the gradient norm"
    return Surge(ratio=float(latest[at]) / usual, step=int(steps[at]), since=since, name=name)


def _is_clipped(run: Run, norm: Series, step: int) -> bool:
    """Return True if the norms just before a step were clipped at the threshold."""
    clip, logged = run.manifest.grad_clip, norm.finite().until(step).values
    if not clip or not len(logged):
        return False
    peak = float(logged[-CONTEXT_POINTS:].max())
    is_within = float(logged.max()) <= clip * (1 + RELATIVE_TOLERANCE)
    return is_within and peak >= clip * (1 - RELATIVE_TOLERANCE)
