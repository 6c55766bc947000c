"""Resumes that did not restore the optimizer, the schedule, the data or the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stabdiag.model.events import EventCode
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.history import RepeatedSteps
from stabdiag.model.text import SHOWN_NAMES, every, num, whole
from stabdiag.stats.levels import jump_up
from stabdiag.stats.quantiles import distinct
from stabdiag.stats.standards import (
    FEW_EVENTS,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    QUARTERS,
    RELATIVE_TOLERANCE,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, around_resumes, at_least
from stabdiag.tree.case import Case

# With fewer records, their usual distance is unknown.
_MIN_GAPS = QUARTERS * FEW_EVENTS


@frozen
class _Difference:
    """The change in loss over the steps that a resume repeated."""

    step: int
    mean: float
    error: float
    pairs: int

    @property
    def errors(self) -> float:
        """The mean in standard errors; infinite if all pairs differ by the same amount."""
        return self.mean / self.error if self.error else np.copysign(np.inf, self.mean)


@Symptom(
    slug="resume-loss-jump",
    title="The loss jumped at a resume",
    needs=("loss",),
    explained_by=("nan",),
    inconclusive_if=(around_resumes("loss", "resume.points", "resume.points"),),
    next_actions=(
        Action(Do.RERUN, "Resume twice and compare the first losses with those before."),
        Action(Do.ADD_WARMUP, "If the state is lost, warm the learning rate up again."),
        Action(Do.FIX_LOADER, "Check that the data continues where it stopped."),
    ),
)
def resume_loss_jump(case: Case) -> Evidence | None:
    """Does the loss after a resume differ from before, or from the same steps before it?"""
    paired = [
        _difference(repeat)
        for repeat in case.history.repeated_steps
        if len(repeat.steps) >= MIN_CONSECUTIVE
    ]
    results = (
        check(case, paired, sign=sign) for sign in (1, -1) for check in (_changed_pairs, _jumped)
    )
    # A loss that is lower than in an attempt that failed is expected.
    failed_before = {attempt.source.resumed_at for attempt in case.history.earlier}
    changes = (
        result
        for result in results
        if result is not None and not (result.title and result.step in failed_before)
    )
    return next(changes, None)


def _width(case: Case) -> int:
    return int(case.limits.resume.points)


def _difference(repeat: RepeatedSteps) -> _Difference:
    """Return the mean difference of pairs, and its standard error."""
    rise = repeat.after - repeat.before
    error = float(np.std(rise, ddof=1) / np.sqrt(len(rise)))
    return _Difference(step=repeat.step, mean=float(rise.mean()), error=error, pairs=len(rise))


def _changed_pairs(case: Case, paired: Sequence[_Difference], *, sign: int) -> Evidence | None:
    """Report the largest change over the same steps, up or down, if it is clear and material."""
    direction, other = ("higher", "lower")[::sign]
    changed = [pair for pair in paired if sign * pair.errors > _min_errors(case, pair)]
    largest = max(changed, key=lambda pair: sign * pair.mean, default=None)
    # An attempt may have no finite loss.
    width = np.ptp(case.loss.values) if len(case.loss) else 0.0
    if largest is None or sign * largest.mean <= case.limits.spike.min_rise * width:
        return None
    opposite = sum(sign * pair.errors < -_min_errors(case, pair) for pair in paired)
    contrary = f", {opposite} {other}" if opposite else ""
    others = (
        f" Among {len(paired)} resumes with repeated steps, {len(changed)} came back "
        f"{direction}{contrary}."
    )
    return _changed(
        case,
        largest.step,
        sign,
        f"over the same {largest.pairs} logged {case.unit}s the loss is "
        f"{num(abs(largest.mean))} {direction} than in the previous attempt (standard error "
        f"{num(largest.error)})."
        f"{others if len(paired) > 1 else ''}",
        {
            "rise": largest.mean,
            "standard_error": largest.error,
            "pairs": largest.pairs,
            "resumes": len(paired),
            direction: len(changed),
            other: opposite,
        },
    )


def _min_errors(case: Case, pair: _Difference) -> float:
    """Return the number of standard errors to exceed: with few pairs, the error is uncertain."""
    return case.limits.resume.paired_sigma * max(_width(case) / pair.pairs, 1.0)


def _jumped(case: Case, paired: Sequence[_Difference], *, sign: int) -> Evidence | None:
    """Report the first jump of the level, up or down, at a resume without repeated steps."""
    loss, width = case.loss, _width(case)
    compared = {pair.step for pair in paired if pair.pairs >= width}
    for step in case.history.resumes:
        at = int(np.searchsorted(loss.steps, step))
        jump = jump_up(
            sign * loss.values[:at],
            sign * loss.values[at:],
            width,
            sigmas=case.limits.resume.jump_sigma,
            min_range_share=case.limits.spike.min_rise,
        )
        if jump is None or step in compared:
            continue
        old, new = sign * jump.old, sign * jump.new
        return _changed(
            case,
            step,
            sign,
            f"the loss went from {num(old)} to {num(new)} over {width} logged points; elsewhere it "
            f"changes by {num(jump.noise)}.",
            {"before": old, "after": new, "noise": jump.noise},
        )
    return None


def _changed(case: Case, step: int, sign: int, change: str, measured: dict[str, float]) -> Evidence:
    """Report a change at a resume; a lower loss is harmless, but has a cause."""
    because = f"The run resumed at {case.unit} {step}, and {change}"
    if sign > 0:
        state = (
            f"Check that the resume at {case.unit} {step} loads the optimizer state (Adam's "
            "moments), the schedule and the loss scaler, and that the data continues where it "
            "stopped."
        )
        first = Action(Do.RESTORE_STATE, state, step=step)
        return Evidence(because=because, step=step, measured=measured, first=first)
    data = (
        f"Compare the batches after {case.unit} {step} with those before: the run may see "
        "different or easier data, or repeat data."
    )
    return Evidence(
        because=because,
        title="The loss fell at a resume",
        severity=Severity.NOTE,
        step=step,
        measured=measured,
        first=Action(Do.FIX_LOADER, data, step=step),
    )


@Symptom(
    slug="resume-lr-reset",
    confidence=Confidence.HIGH,
    title="The learning rate was reset at a resume",
    needs=("lr",),
    inconclusive_if=(around_resumes("lr", 2, MIN_CONSECUTIVE),),
    next_actions=(
        Action(Do.FIX_SCHEDULE, "Check that the schedule is given the last step."),
        Action(Do.DO_NOTHING, "If you meant to warm up again, there is nothing to do."),
    ),
)
def resume_lr_reset(case: Case) -> Evidence | None:
    """Does the learning rate start over, or jump, at a resume?"""
    lr, ratio = case.history.finite("lr"), case.limits.resume.lr_ratio
    for step in case.history.resumes:
        at = int(np.searchsorted(lr.steps, step))
        if at < 2 or at + 2 >= len(lr):
            continue
        old, new = float(lr.values[at - 1]), float(lr.values[at])
        if old <= 0:
            continue
        # A lower rate that stays is a decision; a rate that rises again is a second warm-up.
        later = float(lr.values[at:].max())
        least = max(new, RELATIVE_TOLERANCE * old)
        has_second_warmup = old > ratio * max(new, 0.0) and later > ratio * least
        if new <= ratio * old and not has_second_warmup:
            continue
        return Evidence(
            because=f"The run resumed at {case.unit} {step}, and the learning rate went from "
            f"{num(old)} to {num(new)}" + (" and then rose again." if has_second_warmup else "."),
            step=step,
            measured={"before": old, "after": new, "highest_after": later},
            first=Action(
                Do.FIX_SCHEDULE,
                "Save and load the schedule's state with the checkpoint, and resume at "
                f"{case.unit} {step} with a learning rate of {num(old)}.",
                setting="lr",
                to=old,
                step=step,
            ),
        )
    return None


@Symptom(
    slug="resume-data-replayed",
    confidence=Confidence.HIGH,
    title="The resume started the data from the beginning",
    needs=("batch_id",),
    inconclusive_if=(around_resumes("batch_id", "resume.points", "resume.points"),),
    next_actions=(
        Action(Do.SHUFFLE_DATA, "Until then, resume with another seed for the shuffle."),
        Action(Do.CHECK_EVALUATION, "Watch the evaluation loss: repeated data is memorized."),
    ),
)
def resume_data_replayed(case: Case) -> Evidence | None:
    """Do the batches after a resume come in the same order as at the beginning of the run?"""
    batches, width = case.history.series["batch_id"], case.limits.resume.points
    ids, opening = batches.values, batches.values[:width]
    if distinct(opening) < width:
        return None
    for step in case.history.resumes:
        at = int(np.searchsorted(batches.steps, step))
        if at < 2 * width or not np.array_equal(ids[at : at + width], opening):
            continue
        # An order that repeats with each epoch is expected here if an epoch is over.
        rounds = (np.flatnonzero(ids[1 : at - width] == ids[0]) + 1).tolist()
        epoch = next((n for n in rounds if np.array_equal(ids[n : n + width], opening)), None)
        if epoch is not None and at % epoch == 0:
            continue
        first = ", ".join(whole(float(batch)) for batch in opening[:SHOWN_NAMES])
        return Evidence(
            because=f"The run resumed at {case.unit} {step} with the batches it began with at "
            f"{case.unit} {int(batches.steps[0])}: {first}, …",
            step=step,
            measured={"resumed_at": step, "same_batches": width},
            first=Action(
                Do.FIX_LOADER,
                "Save the position of the sampler or data iterator with the checkpoint, and skip "
                f"the batches up to {case.unit} {step} on a resume.",
                also=(Do.SKIP_BATCHES,),
                step=step,
            ),
        )
    return None


def _omitted_lines(case: Case) -> str:
    """Return the reason if the log, not the run, has gaps between its steps, else ""."""
    is_omitted = any(event.code is EventCode.LINES_OMITTED for event in case.history.events)
    return "lines are left out of the log" if is_omitted else ""


@Symptom(
    slug="resume-step-gap",
    confidence=Confidence.HIGH,
    title="Steps are missing",
    needs=("loss",),
    preconditions=(at_least(_MIN_GAPS + 1, "loss"), _omitted_lines),
    next_actions=(
        Action(Do.RESTORE_STATE, "Check that data and schedule continued from the same step."),
    ),
)
def resume_step_gap(case: Case) -> Evidence | None:
    """Are steps missing from a log that is otherwise regular?"""
    # Record counts have no gaps: evaluation records are between the losses.
    if case.history.counts_records:
        return None
    # Non-finite losses were logged, too.
    steps = case.history.series["loss"].steps
    gaps = np.diff(steps)
    wide = np.flatnonzero(gaps > case.limits.resume.gap_ratio * case.stride)
    if len(gaps) < _MIN_GAPS or len(wide) > FEW_EVENTS:
        return None
    for at in wide.tolist():
        left, right = gaps[max(at - MIN_TREND_POINTS, 0) : at], gaps[at + 1 :][:MIN_TREND_POINTS]
        # A log that changes its interval or is irregular has no missing steps.
        around = np.append(left, right)
        if min(len(left), len(right)) < MIN_CONSECUTIVE or np.ptp(around) > 0.5 * case.stride:
            continue
        first, last = int(steps[at]), int(steps[at + 1])
        return Evidence(
            because=f"No step is logged between {first} and {last}; before and after, there is a "
            f"record {every(round(case.stride), case.unit)}.",
            step=first,
            measured={"from": first, "to": last, "missing": last - first - int(case.stride)},
            first=Action(
                Do.READ_LOGS,
                f"Look for the log of {case.unit}s {first} to {last}, or for a resume that "
                "counted its steps wrongly.",
                step=first,
            ),
        )
    return None
