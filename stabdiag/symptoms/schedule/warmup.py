"""Warm-ups that are missing, too long, or different from the manifest."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num, plural
from stabdiag.stats.course import early_high, second_half
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.smoothing import single_value_sigma
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    HALF,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    TENFOLD,
    TENTHS,
)
from stabdiag.symptoms.learning.rate_fixes import lr_out_of_range
from stabdiag.symptoms.losses import no_course
from stabdiag.symptoms.schedule.schedule import no_schedule
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import is_high, lowered
from stabdiag.tree.advice.shared import clip_action
from stabdiag.tree.case import Case

# A warm-up that differs by fewer steps is only counted differently.
_SLACK = 20


@Symptom(
    slug="lr-no-warmup",
    title="The run started at its peak learning rate, and the loss went up",
    needs=("loss", "lr"),
    preconditions=(no_schedule, no_course, at_least(2 * MIN_CONSECUTIVE + 1, "loss")),
)
def lr_no_warmup(case: Case) -> Evidence | None:
    """Did the run start at its peak learning rate, and did the loss go up immediately?"""
    lr, limits, loss = case.history.finite("lr"), case.limits.schedule, case.loss
    first, peak = float(lr.values[0]), lr.highest
    if int(lr.steps[0]) > case.stride or first < limits.at_peak * peak:
        return None
    count = max(round(limits.early * len(loss)), 2 * MIN_CONSECUTIVE)
    begun, early = float(loss.values[0]), loss.values[1 : count + 1]
    (high, at), level = early_high(loss.values, count), median(early)
    late = second_half(loss.values)
    # The noise is assumed to be proportional to the level of the loss.
    noise = single_value_sigma(late) * begun / median(late)
    risen = limits.early_rise * begun
    stays = level >= risen and level - begun > BEYOND_CHANCE * noise
    # If later losses are usually higher but one is as low, the first was low by chance.
    is_low_by_chance = late.min() <= begun < median(late)
    if is_low_by_chance or high < risen or (high - begun <= CLEAR * noise and not stays):
        return None
    # A warm-up does not fix a rate far above the range, or a loss that stays high afterwards.
    out_of_range = lr_out_of_range(case) if is_high(case) else None
    stays_up = out_of_range is None and median(late) >= risen
    step, steps = int(loss.steps[at]), _warmup(case)
    warm = Action(
        Do.ADD_WARMUP,
        f"Restart with a linear warm-up to {num(lowered(case, peak))} over at least {steps} "
        f"{case.unit}s.",
        setting="warmup_steps",
        to=steps,
    )
    to = lowered(case, peak, TENFOLD if stays_up else 3)
    text = f"Lower the peak learning rate to {num(to)} if the loss still goes up."
    if stays_up:
        text = f"Lower the peak learning rate from {num(peak)} to {num(to)} and start again."
    lower = Action(Do.LOWER_LR, text, setting="peak_lr", to=to)
    act, next_actions = (lower, warm) if stays_up else (warm, lower)
    if out_of_range is not None:
        act, next_actions = out_of_range[1], warm
    return Evidence(
        because=f"The learning rate starts at {num(first)}, {first / peak:.0%} of its peak, and "
        f"the loss went up from {num(begun)} to at least {num(high)} at "
        f"{MIN_CONSECUTIVE} logged points in a row from {case.unit} {step} on.",
        step=int(lr.steps[0]),
        measured={"first_lr": first, "peak_lr": peak, "first_loss": begun, "early_loss": high},
        first=act,
        next_actions=(next_actions, clip_action(case)),
    )


def _warmup(case: Case) -> int:
    """Return a usual warm-up: a fiftieth of the run, at least 100 steps, at most a tenth of it.

    If the run went NaN, its planned length is longer than its log.
    """
    last = int(case.loss.steps[-1])
    broke = (case.history.last_step or last) > last
    total = case.manifest.total_steps or (max(last, 1000) if broke else last)
    return max(min(max(total // 50, MIN_LONG_LOG), round(total / TENTHS)), 1)


@Symptom(
    slug="lr-warmup-mismatch",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    title="The warm-up differs from the manifest",
    needs=("lr", "manifest.warmup_steps"),
    explained_by=("divergence-lr",),
    preconditions=(no_schedule,),
    next_actions=(
        Action(Do.LOG_MORE, "Plot the learning rate that the optimizer uses, step by step."),
        Action(
            Do.FIX_SCHEDULE, "Step the scheduler once per optimizer step, also when accumulating."
        ),
    ),
)
def lr_warmup_mismatch(case: Case) -> Evidence | None:
    """Does the length of the logged warm-up differ from the manifest's?"""
    lr, limits = case.history.finite("lr"), case.limits.schedule
    configured = case.manifest.warmup_steps
    if configured is None or int(lr.steps[0]) > case.stride:
        return None
    # After the warm-up comes the first fall, or the end of the first rise.
    falls = np.flatnonzero(np.diff(lr.values) <= 0)
    at = int(falls[0]) if len(falls) else len(lr) - 1
    logged, factor = int(lr.steps[at]), limits.warmup_tolerance
    peak = case.manifest.peak_lr or lr.highest
    if not len(falls):
        # Without a configured warm-up, a rate may rise throughout by design.
        if configured < 1 or logged <= factor * configured:
            return None
        end = f"is not over at {case.unit} {logged}"
    else:
        slack = max(_SLACK, MIN_CONSECUTIVE * usual_gap(lr.steps))
        is_close = logged <= factor * configured and configured <= factor * logged
        if lr.values[at] < limits.at_peak * peak:
            return None
        if abs(logged - configured) <= slack or is_close:
            return _too_long(case, logged)
        end = f"ends at {case.unit} {logged}"
    return Evidence(
        because=f"The learning rate's warm-up {end}; the manifest says "
        f"{plural(configured, case.unit)}.",
        step=max(min(configured, logged), int(lr.steps[0])),
        measured={
            "warmup_logged": logged,
            "warmup_configured": configured,
            "peak_lr": lr.highest,
        },
        first=Action(
            Do.FIX_SCHEDULE,
            f"Check the unit of the scheduler's warm-up of {configured}: optimizer steps, "
            "micro-batches, epochs, a fraction of the run, one process or all.",
            setting="warmup_steps",
            to=configured,
        ),
    )


def _too_long(case: Case, warmup: int) -> Evidence | None:
    """Report a warm-up that takes more than half of the run."""
    total = case.manifest.total_steps
    if total is None or warmup <= HALF * total:
        return None
    usual = max(round(case.limits.preflight.warmup_high * total), 1)
    return Evidence(
        title="The warm-up takes most of the run",
        because=f"The learning rate rises until {case.unit} {warmup} of {total}.",
        step=warmup,
        measured={"warmup_logged": warmup, "total_steps": total},
        first=Action(
            Do.FIX_SCHEDULE,
            f"Set the warm-up to at most {usual} of the run's {total} {case.unit}s (now "
            f"{warmup}), and check its unit.",
            also=(Do.ADD_WARMUP,),
            setting="warmup_steps",
            from_=warmup,
            to=usual,
        ),
    )
