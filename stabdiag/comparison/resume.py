"""A run and its resume: does the second go on where the first one was?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.points import losses
from stabdiag.comparison.study import Study, finding
from stabdiag.comparison.words import close, largest, measured
from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural
from stabdiag.stats.levels import Jump, jump_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.comparison import Parting, Run
    from stabdiag.model.findings import Finding, Scalar

_THEN = (
    Action(
        ActionKind.RESTORE_STATE,
        "Save and load weights, optimizer, schedule, loss scaler and the place in the data "
        "together.",
    ),
    Action(
        ActionKind.RERUN,
        "Test the way back before it is needed: resume from a checkpoint twice, and compare.",
    ),
    Action(
        ActionKind.ADD_WARMUP,
        "If the optimizer's state is lost for good, warm the learning rate up again.",
    ),
)


def resume_parts(study: Study) -> Iterator[Finding]:
    """Find a resume after which losses or learning rate do not go on as they were."""
    for run in study.others:
        one, other = sorted((study.reference, run), key=span)
        found = study.partings[run.label]
        rate = found.get("lr")
        if rate is not None and rate.unrounded is not None:
            yield _rate(one, other, rate)
        elif _rate_ratio(study, one, other) is not None:
            yield _rate_jump(one, other)
        elif (loss := found.get("loss")) is not None and loss.unrounded is not None:
            yield _parted(one, other, loss, study.limits.compare.noise_sigma)
        elif (jump := _jump(study, one, other)) is not None:
            yield _jumped(one, other, jump)
        else:
            continue
        return


def _rate(one: Run, other: Run, rate: Parting) -> Finding:
    return finding(
        "resume-parts",
        because=f"{other.label} goes on from {one.label} at step {span(other)[0]}, and at step "
        f"{rate.unrounded} the learning rate is another one: {close(rate.unrounded_values)}.",
        first=Action(
            ActionKind.FIX_SCHEDULE,
            "Save and load the state of the schedule with the checkpoint, and give it the number "
            f"of the last step ({span(other)[0]}).",
        ),
        then=_THEN,
        step=rate.unrounded,
        measured={"role": "lr", **measured(rate)},
    )


def _rate_ratio(study: Study, one: Run, other: Run) -> float | None:
    """Return by what factor the learning rate changes where no step is logged by both runs."""
    if len(losses(one.history, other.history)):
        return None
    old = one.history.finite("lr").until(span(other)[0]).values
    new = other.history.finite("lr").values
    if len(old) < 2 or not len(new) or old[-1] <= 0 or new[0] <= 0:
        return None
    ratio = float(new[0] / old[-1])
    limit = study.limits.resume.lr_ratio
    return ratio if ratio > limit or ratio < 1 / limit else None


def _rate_jump(one: Run, other: Run) -> Finding:
    old = float(one.history.finite("lr").values[-1])
    new = float(other.history.finite("lr").values[0])
    return finding(
        "resume-parts",
        because=f"{one.label} ended at step {span(one)[1]} with a learning rate of {num(old)}; "
        f"{other.label} begins at step {span(other)[0]} with {num(new)}.",
        first=Action(
            ActionKind.FIX_SCHEDULE, "Save and load the state of the schedule with the checkpoint."
        ),
        then=_THEN,
        step=span(other)[0],
        measured={"role": "lr", "before": old, "after": new},
    )


def _parted(one: Run, other: Run, loss: Parting, sigmas: float) -> Finding:
    start, noise = span(other)[0], loss.noise or 0.0
    # The same batches and weights make the same losses: here one that leaves the noise is enough.
    quiet = loss.largest <= sigmas * noise
    extent = (
        f"they differ by {largest(loss)}; that is {'no more' if quiet else 'more'} than the noise "
        f"of the loss ({num(noise)})"
    )
    because = (
        f"{other.label} goes on from {one.label} at step {start}. Of the {loss.points} losses that "
        f"both logged the first that differ are those of step {loss.unrounded}: "
        f"{close(loss.unrounded_values)}; {extent}. "
    )
    if loss.unrounded is not None and loss.unrounded > start:
        because += (
            "The first loss after the resume is the same: the weights came back, and the batch. "
            "What an update needs besides did not: the optimizer's moments, the scaler, or random "
            "numbers."
        )
        first = Action(
            ActionKind.RESTORE_STATE,
            f"Check that the checkpoint of step {start} holds the optimizer's state, and that it "
            "is loaded before the first step.",
            checkpoint=start,
        )
    else:
        because += "Already the first loss is another one: other weights, or another batch."
        first = Action(
            ActionKind.RESTORE_STATE,
            f"Compare the batch of step {start} in both runs: if it is another one, save the place "
            "in the data; if it is the same, the weights are not.",
            also=(ActionKind.INSPECT_DATA,),
            step=start,
        )
    return finding(
        "resume-parts",
        because=because,
        first=first,
        then=_THEN,
        step=loss.unrounded,
        severity=Severity.NOTE if quiet else None,
        measured={"role": "loss", "resumed_at": start, **measured(loss)},
    )


def _jump(study: Study, one: Run, other: Run) -> Jump | None:
    """Return the jump of the loss's level from the first run to the second, if it is one."""
    limits, start = study.limits.resume, span(other)[0]
    return jump_up(
        one.history.finite("loss").until(start - 1).values,
        other.history.finite("loss").values,
        limits.points,
        sigmas=limits.jump_sigma,
        least_share=study.limits.spike.min_rise,
    )


def _jumped(one: Run, other: Run, jump: Jump) -> Finding:
    start = span(other)[0]
    return finding(
        "resume-parts",
        because=f"{other.label} goes on from {one.label} at step {start}, and the loss goes from "
        f"{num(jump.old)} to {num(jump.new)}; elsewhere its level changes by {num(jump.noise)}.",
        first=Action(
            ActionKind.RESTORE_STATE,
            f"Check that the checkpoint of step {start} holds the optimizer's state (Adam's "
            "moments), the schedule and the scaler, and that all are loaded.",
            checkpoint=start,
        ),
        then=_THEN,
        step=start,
        measured={"before": jump.old, "after": jump.new, "noise": jump.noise},
    )


def gap_note(study: Study) -> tuple[str, ...]:
    """Return a note where steps are missing between the two runs."""
    one, other = sorted(study.runs, key=span)[:2]
    last, start = span(one)[1], span(other)[0]
    usual = stride(one)
    if start - last <= study.limits.resume.gap_ratio * usual:
        return ()
    missing = plural(int(start - last - usual), "step")
    return (f"{missing} between {last} and {start} are in neither log",)


def healthy_words(study: Study) -> tuple[str, dict[str, Scalar]]:
    """Return what is to be said of a resume that goes on well."""
    one, other = sorted(study.runs, key=span)[:2]
    shared = len(losses(one.history, other.history))
    head = f"{other.label} goes on from {one.label} at step {span(other)[0]}"
    if shared:
        told = f"{head}; the {plural(shared, 'loss', 'losses')} that both logged are the same"
    else:
        told = f"{head} with no step in common, at the same level of the loss"
    rates = "lr" in one.history.series and "lr" in other.history.series
    rate = ", and the learning rate goes on" if rates else ""
    return f"{told}{rate}.", {"resumed_at": span(other)[0], "common_points": shared}
