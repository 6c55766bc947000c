"""The symptoms of a resume that did not bring everything back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.history import EventKind
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.tree.case import Case

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_MAD_TO_SIGMA = 1.4826

# The loss's own changes are taken from so many points before the resume.
_BEFORE = 400

# Where steps are missing so often, the log is kept like that.
_FEW_GAPS = 3


def resume_loss_jump(case: Case) -> Evidence | None:
    """Is the loss higher after a resume than before it?"""
    loss, limits = case.loss, case.limits.resume
    width = limits.points
    for step in _resumes(case):
        at = int(np.searchsorted(loss.steps, step))
        before, after = loss.values[max(at - _BEFORE, 0) : at], loss.values[at : at + width]
        if len(before) < 4 * width or len(after) < width:
            continue
        steps = np.diff(levels(before, len(before) // width))
        noise = _MAD_TO_SIGMA * median(np.abs(steps - median(steps)))
        old, new = median(before[-width:]), median(after)
        floor = case.limits.spike.min_rise * float(np.ptp(levels(loss.values[:at], 20)))
        if new - old <= max(limits.jump_sigma * noise, floor, 2 * float(np.abs(steps).max())):
            continue
        return Evidence(
            because=f"The run resumed at step {step}, and the loss went from {num(old)} to "
            f"{num(new)} over {width} logged points; elsewhere it changes by {num(noise)}.",
            step=step,
            measured={"before": old, "after": new, "noise": noise},
            first=f"Check that the checkpoint of step {step} holds the optimizer's state (Adam's "
            "moments), the schedule and the scaler, and that all are loaded.",
            then=(
                "Resume from it twice and compare the first losses with those before.",
                "If the state is lost, warm the learning rate up again after the resume.",
                "Check that the data go on where they were.",
            ),
        )
    return None


def resume_lr_reset(case: Case) -> Evidence | None:
    """Does the learning rate begin anew, or jump, at a resume?"""
    lr = case.history.get("lr")
    if lr is None:
        return None
    lr = lr.finite()
    ratio_limit = case.limits.resume.lr_ratio
    for step in _resumes(case):
        at = int(np.searchsorted(lr.steps, step))
        if at < 2 or at + 2 >= len(lr):
            continue
        old, new = float(lr.values[at - 1]), float(lr.values[at])
        if old <= 0 or _is_slope(lr.values, at):
            continue
        # A lower rate that stays is a decision; one that climbs again is the warm-up once more.
        later = float(lr.values[at : at + _BEFORE].max())
        up = new > ratio_limit * old
        again = old > ratio_limit * max(new, 0.0) and later > ratio_limit * max(new, 1e-3 * old)
        if not (up or again):
            continue
        return Evidence(
            because=f"The run resumed at step {step}, and the learning rate went from {num(old)} "
            f"to {num(new)}" + (" and then climbed again." if again else "."),
            step=step,
            measured={"before": old, "after": new, "highest_after": later},
            first=f"Save and load the state of the schedule with the checkpoint, and resume at "
            f"step {step} with a learning rate of {num(old)}.",
            then=(
                "Check that the number of the last step is given to the schedule.",
                "If a second warm-up was intended, nothing needs to be done.",
            ),
        )
    return None


def _is_slope(lr: Floats, at: int) -> bool:
    """Tell whether the schedule itself changes as much next to a resume, as in a warm-up."""
    here = abs(float(lr[at] - lr[at - 1]))
    near = np.abs(np.diff(np.append(lr[max(at - 4, 0) : at], lr[at : at + 4])))
    others = np.delete(near, min(at, 4) - 1)
    return bool(here <= 2 * float(np.max(others, initial=0.0)))


def resume_data_replayed(case: Case) -> Evidence | None:
    """Do the batches after a resume come in the order in which the run began?"""
    batches = case.history.get("batch_id")
    if batches is None:
        return None
    width = case.limits.resume.points
    ids = batches.values
    opening = ids[:width]
    if len(set(opening.tolist())) < width:
        return None
    for step in _resumes(case):
        at = int(np.searchsorted(batches.steps, step))
        if at < 2 * width or not np.array_equal(ids[at : at + width], opening):
            continue
        # An order that comes back with each epoch had to come back here if the epoch was over.
        if _epoch_begins(case, step, ids[:at], width):
            continue
        return Evidence(
            because=f"The run resumed at step {step} with the batches of its beginning: "
            f"{', '.join(num(float(one)) for one in opening[:3])}, … as at step "
            f"{int(batches.steps[0])}.",
            step=step,
            measured={"resumed_at": step, "same_batches": width},
            first="Save the position of the sampler or of the data iterator with the checkpoint, "
            f"and skip the batches up to step {step} on a resume.",
            then=(
                "Until then, resume with another seed for the shuffle.",
                "Watch the evaluation loss: data seen twice are learned by heart.",
            ),
        )
    return None


def _epoch_begins(case: Case, step: int, before: Floats, width: int) -> bool:
    """Tell whether an epoch begins at a step: by the epochs logged, or by when the ids come round.

    Args:
        case: the case; its epochs go before the ids.
        step: the step of the resume.
        before: the ids before it.
        width: how many ids make a place in the order.
    """
    epoch = case.history.get("epoch")
    if epoch is not None:
        at = int(np.searchsorted(epoch.steps, step))
        if 0 < at < len(epoch):
            return bool(np.floor(epoch.values[at]) > np.floor(epoch.values[at - 1]))
    rounds = [
        int(place)
        for place in np.flatnonzero(before[1:] == before[0]) + 1
        if np.array_equal(before[place : place + width], before[:width])
    ]
    return bool(rounds) and len(before) % rounds[0] == 0


def resume_step_gap(case: Case) -> Evidence | None:
    """Are steps missing from a log that is regular otherwise?"""
    steps = case.loss.steps
    gaps = np.diff(steps).astype(np.float64)
    if len(gaps) < 4 * _FEW_GAPS:
        return None
    wide = np.flatnonzero(gaps > case.limits.resume.gap_ratio * case.stride)
    if not 0 < len(wide) <= _FEW_GAPS:
        return None
    for at in wide.tolist():
        around = np.delete(gaps[max(at - 10, 0) : at + 11], min(at, 10))
        left, right = gaps[max(at - 10, 0) : at], gaps[at + 1 : at + 11]
        # A log that changes its rhythm, or is kept at odd times, has no step missing.
        if min(len(left), len(right)) < 3 or np.ptp(around) > 0.5 * case.stride:
            continue
        first, last = int(steps[at]), int(steps[at + 1])
        lost = last - first - int(case.stride)
        return Evidence(
            because=f"No step is logged between {first} and {last}, where one is logged every "
            f"{plural(round(case.stride), 'step')} before and after.",
            step=first,
            measured={"from": first, "to": last, "missing": lost},
            first=f"Look for the log of the steps {first} to {last}, and for a resume from a "
            "checkpoint whose step was counted wrongly.",
            then=("Check that the data and the schedule went on from the same step.",),
        )
    return None


def _resumes(case: Case) -> list[int]:
    """Return the steps at which the run resumed: those that the log went back to."""
    return [
        event.step
        for event in case.history.events
        if event.kind is EventKind.REWIND and event.step is not None
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="resume-loss-jump",
        severity=Severity.WARNING,
        family="resume",
        title="The loss jumped at a resume",
        check=resume_loss_jump,
        needs=("loss",),
        limits=("resume.points", "resume.jump_sigma", "spike.min_rise"),
        explained_by=("nan",),
    ),
    Symptom(
        slug="resume-lr-reset",
        severity=Severity.WARNING,
        family="resume",
        title="The learning rate did not go on at a resume",
        check=resume_lr_reset,
        needs=("lr",),
        limits=("resume.lr_ratio",),
    ),
    Symptom(
        slug="resume-data-replayed",
        severity=Severity.WARNING,
        family="resume",
        title="A resume began with the first data again",
        check=resume_data_replayed,
        needs=("batch_id",),
        limits=("resume.points",),
    ),
    Symptom(
        slug="resume-step-gap",
        severity=Severity.WARNING,
        family="resume",
        title="Steps are missing",
        check=resume_step_gap,
        needs=("loss",),
        limits=("resume.gap_ratio",),
    ),
)
