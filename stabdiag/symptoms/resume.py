"""The symptoms of a resume that did not bring back optimizer or schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import jump_up
from stabdiag.symptoms.symptom import Evidence, Symptom, around_resumes

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# A rate that was reset climbs again within so many points.
_AFTER = 400


def resume_loss_jump(case: Case) -> Evidence | None:
    """Is the loss higher after a resume than before it?"""
    loss, limits = case.loss, case.limits.resume
    width = limits.points
    for step in case.history.resumes:
        at = int(np.searchsorted(loss.steps, step))
        jump = jump_up(
            loss.values[:at],
            loss.values[at:],
            width,
            sigmas=limits.jump_sigma,
            least_share=case.limits.spike.min_rise,
        )
        if jump is None:
            continue
        return Evidence(
            because=f"The run resumed at step {step}, and the loss went from {num(jump.old)} to "
            f"{num(jump.new)} over {width} logged points; elsewhere it changes by "
            f"{num(jump.noise)}.",
            step=step,
            measured={"before": jump.old, "after": jump.new, "noise": jump.noise},
            first=Action(
                ActionKind.RESTORE_STATE,
                f"Check that the checkpoint that the run resumed from at step {step} holds the "
                "optimizer's state (Adam's moments), the schedule and the scaler, and that all are "
                "loaded.",
                step=step,
            ),
            then=(
                Action(
                    ActionKind.RERUN,
                    "Resume from it twice and compare the first losses with those before.",
                ),
                Action(
                    ActionKind.ADD_WARMUP,
                    "If the state is lost, warm the learning rate up again after the resume.",
                ),
                Action(ActionKind.FIX_LOADER, "Check that the data continues where it stopped."),
            ),
        )
    return None


def resume_lr_reset(case: Case) -> Evidence | None:
    """Does the learning rate begin anew, or jump, at a resume?"""
    lr = case.history.finite("lr")
    ratio_limit = case.limits.resume.lr_ratio
    for step in case.history.resumes:
        at = int(np.searchsorted(lr.steps, step))
        if at < 2 or at + 2 >= len(lr):
            continue
        old, new = float(lr.values[at - 1]), float(lr.values[at])
        if old <= 0 or _is_slope(lr.values, at):
            continue
        # A lower rate that stays is a decision; one that climbs again is the warm-up once more.
        later = float(lr.values[at : at + _AFTER].max())
        up = new > ratio_limit * old
        again = old > ratio_limit * max(new, 0.0) and later > ratio_limit * max(new, 1e-3 * old)
        if not (up or again):
            continue
        return Evidence(
            because=f"The run resumed at step {step}, and the learning rate went from {num(old)} "
            f"to {num(new)}" + (" and then climbed again." if again else "."),
            step=step,
            measured={"before": old, "after": new, "highest_after": later},
            first=Action(
                ActionKind.FIX_SCHEDULE,
                f"Save and load the state of the schedule with the checkpoint, and resume at "
                f"step {step} with a learning rate of {num(old)}.",
                setting="lr",
                to=old,
                step=step,
            ),
            then=(
                Action(
                    ActionKind.FIX_SCHEDULE,
                    "Check that the number of the last step is given to the schedule.",
                ),
                Action(
                    ActionKind.DO_NOTHING,
                    "If a second warm-up was intended, nothing needs to be done.",
                ),
            ),
        )
    return None


def _is_slope(lr: Floats, at: int) -> bool:
    """Tell whether the schedule itself changes as much next to a resume, as in a warm-up."""
    here = abs(float(lr[at] - lr[at - 1]))
    near = np.abs(np.diff(np.append(lr[max(at - 4, 0) : at], lr[at : at + 4])))
    others = np.delete(near, min(at, 4) - 1)
    return bool(here <= 2 * float(np.max(others, initial=0.0)))


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
        enough=(around_resumes("loss", "resume.points", "resume.points"),),
    ),
    Symptom(
        slug="resume-lr-reset",
        severity=Severity.WARNING,
        family="resume",
        title="The learning rate was reset at a resume",
        check=resume_lr_reset,
        needs=("lr",),
        limits=("resume.lr_ratio",),
        enough=(around_resumes("lr", 2, 3),),
    ),
)
