"""The symptoms of a resume that did not bring back the place in the data or in the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import every, whole
from stabdiag.symptoms.symptom import Evidence, Symptom, around_resumes, at_least

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# Where steps are missing so often, the log is kept like that.
_FEW_GAPS = 3


def resume_data_replayed(case: Case) -> Evidence | None:
    """Do the batches after a resume come in the order in which the run began?"""
    batches = case.history.series["batch_id"]
    width = case.limits.resume.points
    ids = batches.values
    opening = ids[:width]
    if len(set(opening.tolist())) < width:
        return None
    for step in case.history.resumes:
        at = int(np.searchsorted(batches.steps, step))
        if at < 2 * width or not np.array_equal(ids[at : at + width], opening):
            continue
        # An order that comes back with each epoch had to come back here if the epoch was over.
        if _epoch_begins(case, step, ids[:at], width):
            continue
        return Evidence(
            because=f"The run resumed at step {step} with the first batches of the run: "
            f"{', '.join(whole(float(one)) for one in opening[:3])}, … as at step "
            f"{int(batches.steps[0])}.",
            step=step,
            measured={"resumed_at": step, "same_batches": width},
            first=Action(
                ActionKind.FIX_LOADER,
                "Save the position of the sampler or of the data iterator with the checkpoint, "
                f"and skip the batches up to step {step} on a resume.",
                also=(ActionKind.SKIP_BATCHES,),
                step=step,
            ),
            then=(
                Action(
                    ActionKind.SHUFFLE_DATA, "Until then, resume with another seed for the shuffle."
                ),
                Action(
                    ActionKind.CHECK_EVALUATION,
                    "Watch the evaluation loss: data that is seen twice is memorised.",
                ),
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
    comes_round = (
        place
        for place in (np.flatnonzero(before[1:] == before[0]) + 1).tolist()
        if np.array_equal(before[place : place + width], before[:width])
    )
    length = next(comes_round, None)
    return length is not None and len(before) % length == 0


def resume_step_gap(case: Case) -> Evidence | None:
    """Are steps missing from a log that is regular otherwise?"""
    # Records that are counted have no gaps: those of an evaluation lie between the losses.
    if case.history.counts_records:
        return None
    # A loss that is not finite was logged all the same.
    steps = case.history.series["loss"].steps
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
            because=f"No step is logged between {first} and {last}, where one is logged "
            f"{every(round(case.stride))} before and after.",
            step=first,
            measured={"from": first, "to": last, "missing": lost},
            first=Action(
                ActionKind.READ_LOGS,
                f"Look for the log of the steps {first} to {last}, and for a resume from a "
                "checkpoint whose step was counted wrongly.",
                step=first,
            ),
            then=(
                Action(
                    ActionKind.RESTORE_STATE,
                    "Check that the data and the schedule went on from the same step.",
                ),
            ),
        )
    return None


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="resume-data-replayed",
        severity=Severity.WARNING,
        family="resume",
        title="The resume started the data from the beginning",
        check=resume_data_replayed,
        needs=("batch_id",),
        limits=("resume.points",),
        enough=(around_resumes("batch_id", "resume.points", "resume.points"),),
    ),
    Symptom(
        slug="resume-step-gap",
        severity=Severity.WARNING,
        family="resume",
        title="Steps are missing",
        check=resume_step_gap,
        needs=("loss",),
        limits=("resume.gap_ratio",),
        enough=(at_least(4 * _FEW_GAPS + 1, "loss"),),
    ),
)
