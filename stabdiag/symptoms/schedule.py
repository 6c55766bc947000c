"""The symptoms of the learning rate's schedule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.losses import from_the_start, is_distance
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.causes import jumps
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.history import Series
    from stabdiag.tree.case import Case

# Fewer rates than this are no schedule; a decay of fewer values goes down in steps.
_LEAST_POINTS = 20

# A step decay stays long at each of few rates, its last one included.
_STAIRS = 12

# A warm-up that is off by less than this is a matter of counting.
_WARMUP_SLACK = 20

# A loss above its beginning for so many points in a row is no single bad batch.
_ROW = 3

# A run that is this far into its planned steps is complete.
_COMPLETE = 0.95

_DECAYS = re.compile(
    r"cosine|linear|poly|exp|decay|inverse|rsqrt|sqrt|wsd|onecycle|one_cycle", re.IGNORECASE
)


def lr_no_warmup(case: Case) -> Evidence | None:
    """Did the run begin at its peak learning rate, and did the loss go up at once?"""
    lr, limits = _rates(case), case.limits.schedule
    if lr is None or not from_the_start(case) or not is_distance(case):
        return None
    first, peak = float(lr.values[0]), float(lr.values.max())
    if int(lr.steps[0]) > case.stride or first < limits.at_peak * peak:
        return None
    loss = case.loss
    count = max(round(limits.early * len(loss)), 2 * _ROW)
    begun, early = float(loss.values[0]), loss.values[1 : count + 1]
    if len(early) < 2 * _ROW:
        return None
    # The lowest of some in a row: that the loss stayed up.
    held = np.lib.stride_tricks.sliding_window_view(early, _ROW).min(axis=1)
    high, at = float(held.max()), int(held.argmax()) + 1
    if high < limits.early_rise * begun:
        return None
    step = int(loss.steps[at])
    return Evidence(
        because=f"The learning rate is at {num(first)}, {first / peak:.0%} of its peak, at step "
        f"{int(lr.steps[0])} already, and the loss went from {num(begun)} up to {num(high)} by step"
        f" {step}.",
        step=int(lr.steps[0]),
        measured={"first_lr": first, "peak_lr": peak, "first_loss": begun, "early_loss": high},
        first=f"Begin again with a linear warm-up to {num(peak)} over at least {_warmup(case)} "
        "steps.",
        then=(
            f"Lower the peak learning rate to {num(peak / 3)} if the loss still goes up.",
            "Clip the gradient by its global norm at 1.0.",
        ),
    )


def _warmup(case: Case) -> int:
    """Return a usual length of warm-up: a fiftieth of the run, but not less than 100 steps."""
    total = case.manifest.total_steps or int(case.loss.steps[-1])
    return max(total // 50, 100)


def lr_warmup_mismatch(case: Case) -> Evidence | None:
    """Is the logged warm-up of another length than the manifest's?"""
    lr, told = _rates(case), case.manifest.warmup_steps
    if lr is None or told is None or int(lr.steps[0]) > max(case.stride, 1.0):
        return None
    # After the warm-up comes the first fall, or the end of the first rise.
    falls = np.flatnonzero(np.diff(lr.values) <= 0)
    risen = lr.values[: int(falls[0]) + 1] if len(falls) else lr.values
    peak = case.manifest.peak_lr or float(lr.values.max())
    if not len(falls) or risen[-1] < case.limits.schedule.at_peak * peak:
        return _endless(case, lr, told)
    found, slack = int(lr.steps[len(risen) - 1]), max(_WARMUP_SLACK, 3 * _every(lr))
    factor = case.limits.schedule.warmup_tolerance
    if abs(found - told) <= slack or (found <= factor * told and told <= factor * found):
        return None
    return _mismatch(f"ends at step {found}", told, found, lr)


def _endless(case: Case, lr: Series, told: int) -> Evidence | None:
    """Tell of a learning rate that still rises long after its warm-up should have ended."""
    last = int(lr.steps[-1])
    rising = bool((np.diff(lr.values) > 0).all())
    if not rising or told < 1 or last <= case.limits.schedule.warmup_tolerance * told:
        return None
    return _mismatch(f"still goes on at step {last}", told, last, lr)


def _mismatch(what: str, told: int, found: int, lr: Series) -> Evidence:
    return Evidence(
        because=f"The warm-up of the learning rate {what}; the manifest says {told} steps.",
        step=min(told, found),
        measured={"warmup_found": found, "warmup_told": told, "peak_lr": float(lr.values.max())},
        first=f"Check in which unit the scheduler counts its warm-up of {told}: optimizer steps, "
        "micro-batches, epochs or a share of the run, on one process or on all.",
        then=(
            "Plot the learning rate that the optimizer really uses, step by step.",
            "Check that the scheduler is stepped once an optimizer step, also under gradient "
            "accumulation.",
        ),
    )


def lr_decays_early(case: Case) -> Evidence | None:
    """Does the learning rate reach its floor long before the run ends?"""
    lr, limits = _rates(case), case.limits.schedule
    if lr is None:
        return None
    # A jump makes a peak that never was one.
    highest = float(lr.values.max())
    peak, last = min(case.manifest.peak_lr or highest, highest), float(lr.values[-1])
    if last > limits.floor * peak:
        return None
    above = np.flatnonzero(lr.values > limits.floor * peak)
    at = int(above[-1]) + 1
    start, begin, end = int(lr.steps[at]), int(lr.steps[0]), int(lr.steps[-1])
    share = (end - start) / max(end - begin, 1)
    if share < limits.at_floor:
        return None
    # A cosine is below the floor for its last few steps; one that ended stays where it is.
    flat = np.ptp(lr.values[at + (len(lr) - at) // 4 :]) <= 0.1 * limits.floor * peak
    stairs = len(np.unique(lr.values[:at])) < _STAIRS
    if not flat or stairs:
        return None
    return Evidence(
        because=f"The learning rate is down to {num(last)} from step {start} on, of a peak of "
        f"{num(peak)}, and the run goes on to step {end}: {share:.0%} of it trains next to "
        "nothing.",
        step=start,
        measured={"floor_lr": last, "peak_lr": peak, "share_of_run": share},
        first=f"Set the length of the schedule to {end} steps, those of the run, or stop at step "
        f"{start}.",
        then=(
            "Check that the schedule counts optimizer steps, not micro-batches or processes.",
            f"Give the schedule a floor of a tenth of the peak, {num(peak / 10)}.",
        ),
    )


def lr_never_decays(case: Case) -> Evidence | None:
    """Is the learning rate still at its peak at the end of a run whose schedule decays?"""
    lr, total, schedule = _rates(case), case.manifest.total_steps, case.manifest.schedule
    if lr is None or total is None or schedule is None or not _DECAYS.search(schedule):
        return None
    peak, last, end = float(lr.values.max()), float(lr.values[-1]), int(lr.steps[-1])
    if end < _COMPLETE * total or last < case.limits.schedule.at_peak * peak:
        return None
    return Evidence(
        because=f"The learning rate is {num(last)} at step {end} of {total}, {last / peak:.0%} of "
        f"its peak; the manifest's schedule is {schedule}.",
        step=end,
        measured={"lr": last, "peak_lr": peak, "total_steps": total},
        first=f"Check that the {schedule} scheduler is built with {total} steps and stepped once an"
        " optimizer step.",
        then=(
            f"Decay the learning rate from the checkpoint of step {end}: the loss falls with it.",
        ),
    )


def lr_discontinuity(case: Case) -> Evidence | None:
    """Did the learning rate jump above all that it had been?"""
    lr = _rates(case)
    if lr is None:
        return None
    for step in jumps(case).tolist():
        at = int(np.searchsorted(lr.steps, step))
        peak, high = float(lr.values[:at].max()), float(lr.values[at])
        ends_warmup = at < len(lr) - 1 and _is_risen(case, at, lr)
        if high < case.limits.schedule.jump * peak or ends_warmup:
            continue
        low = float(lr.values[at - 1])
        return Evidence(
            because=f"The learning rate jumped from {num(low)} to {num(high)} at step {step}, "
            f"{num(high / peak)} x all that the run had before.",
            step=step,
            measured={"lr_before": low, "lr_after": high, "peak_before": peak},
            first=f"Find out what set the learning rate at step {step}: a resume with another "
            "configuration, a phase of the schedule that does not join the one before.",
            then=(
                f"Restart from before step {step} with a schedule that goes on from {num(low)}.",
            ),
        )
    return None


def _is_risen(case: Case, at: int, lr: Series) -> bool:
    """Tell whether a jump may be the end of a coarsely logged or constant warm-up."""
    warmup = case.manifest.warmup_steps
    early = at < 3 or (warmup is not None and int(lr.steps[at]) <= 1.1 * warmup + _every(lr))
    told = case.manifest.peak_lr
    return early or (told is not None and float(lr.values[at]) <= 1.05 * told)


def _rates(case: Case) -> Series | None:
    """Return the learning rates where they are enough to know a schedule by, and positive once."""
    logged = case.history.get("lr")
    if logged is None:
        return None
    lr = logged.finite()
    return lr if len(lr) >= _LEAST_POINTS and lr.values.max() > 0 else None


def _every(lr: Series) -> float:
    return median(np.diff(lr.steps).astype(np.float64))


# What a schedule does wrong is a note where the loss did not mind: where it did, the tree says so.
SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="lr-no-warmup",
        severity=Severity.WARNING,
        family="schedule",
        title="The run began at its peak learning rate, and the loss went up",
        check=lr_no_warmup,
        needs=("loss", "lr"),
        limits=("schedule.at_peak", "schedule.early", "schedule.early_rise"),
    ),
    Symptom(
        slug="lr-warmup-mismatch",
        severity=Severity.NOTE,
        family="schedule",
        title="The warm-up is not the manifest's",
        check=lr_warmup_mismatch,
        needs=("lr", "manifest.warmup_steps"),
        limits=("schedule.warmup_tolerance", "schedule.at_peak"),
        explained_by=("divergence-lr",),
    ),
    Symptom(
        slug="lr-decays-early",
        severity=Severity.WARNING,
        family="schedule",
        title="The learning rate is at its floor before the run ends",
        check=lr_decays_early,
        needs=("lr",),
        limits=("schedule.floor", "schedule.at_floor"),
    ),
    Symptom(
        slug="lr-never-decays",
        severity=Severity.NOTE,
        family="schedule",
        title="The learning rate never decayed",
        check=lr_never_decays,
        needs=("lr", "manifest.schedule", "manifest.total_steps"),
        limits=("schedule.at_peak",),
        explained_by=("divergence-lr",),
    ),
    Symptom(
        slug="lr-discontinuity",
        severity=Severity.NOTE,
        family="schedule",
        title="The learning rate jumped",
        check=lr_discontinuity,
        needs=("lr",),
        limits=("schedule.jump", "spike.lr_jump"),
        explained_by=("spike-lr-jump",),
    ),
)
