"""A run and its resume: does the second continue where the first stopped?"""

from __future__ import annotations

from collections.abc import Iterator

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.outcomes import RESUME_PARTS
from stabdiag.comparison.points import close, largest, losses, measured
from stabdiag.model.comparison import Comparison, Parting, Run
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.text import num, plural
from stabdiag.stats.levels import jump_up


def resume_parts(comparison: Comparison) -> Iterator[Finding]:
    """Find the first resume after which losses or learning rate do not continue as they were."""
    for run in comparison.others:
        one, other = sorted((comparison.against, run), key=span)
        found = comparison.of(run.label)
        rate, loss = found.get("lr"), found.get("loss")
        if rate is not None and rate.unrounded is not None:
            change: Finding | None = _rate(one, other, rate)
        else:
            change = _rate_jump(comparison, one, other)
        if change is None and loss is not None and loss.unrounded is not None:
            change = _parted(one, other, loss, comparison.limits.compare.noise_sigma)
        change = change or _jumped(comparison, one, other)
        if change is not None:
            yield change
            return


def _rate(one: Run, other: Run, rate: Parting) -> Finding:
    start = span(other)[0]
    return RESUME_PARTS.found(
        f"{other.label} continues {one.label} at step {start}. At step {rate.unrounded} its "
        f"learning rate differs: {close(rate.unrounded_values)}.",
        Action(
            ActionKind.FIX_SCHEDULE,
            "Save and load the schedule's state with the checkpoint, and give it the last step "
            f"({start}).",
        ),
        step=rate.unrounded,
        measured={"role": "lr", **measured(rate)},
    )


def _rate_jump(comparison: Comparison, one: Run, other: Run) -> Finding | None:
    """Return the change of the learning rate where no step is logged by both runs, if too large."""
    if len(losses(one.history, other.history)):
        return None
    start, limit = span(other)[0], comparison.limits.resume.lr_ratio
    before = one.history.finite("lr").until(start).values
    after = other.history.finite("lr").values
    if len(before) < 2 or not len(after) or before[-1] <= 0 or after[0] <= 0:
        return None
    if 1 / limit <= after[0] / before[-1] <= limit:
        return None
    old, new = float(before[-1]), float(after[0])
    return RESUME_PARTS.found(
        f"{one.label} ended at step {span(one)[1]} with a learning rate of {num(old)}. "
        f"{other.label} begins at step {start} with {num(new)}.",
        Action(ActionKind.FIX_SCHEDULE, "Save and load the schedule's state with the checkpoint."),
        step=start,
        measured={"role": "lr", "before": old, "after": new},
    )


def _parted(one: Run, other: Run, loss: Parting, sigmas: float) -> Finding:
    start, noise = span(other)[0], loss.noise or 0.0
    # The same batches and weights make the same losses: one that leaves the noise is enough.
    quiet = loss.largest <= sigmas * noise
    if loss.unrounded is not None and loss.unrounded > start:
        cause = (
            "The first loss after the resume is equal, so weights and batch were restored. The "
            "optimizer state, the scaler or the random state was not."
        )
        first = Action(
            ActionKind.RESTORE_STATE,
            f"Check that the checkpoint of step {start} contains the optimizer state, and that it "
            f"is "
            "loaded before the first step.",
            checkpoint=start,
        )
    else:
        cause = "The first loss differs already, so the weights or the batch differ."
        first = Action(
            ActionKind.RESTORE_STATE,
            f"Compare the batch of step {start} in both runs. If it differs, save the data "
            f"position "
            "with the checkpoint; otherwise the weights differ.",
            also=(ActionKind.INSPECT_DATA,),
            step=start,
        )
    return RESUME_PARTS.found(
        f"{other.label} continues {one.label} at step {start}. The first of {loss.points} common "
        f"losses to differ is at step {loss.unrounded}: {close(loss.unrounded_values)}. The "
        f"difference ({largest(loss)}) is {'within' if quiet else 'above'} the noise of the loss "
        f"({num(noise)}). {cause}",
        first,
        step=loss.unrounded,
        severity=Severity.NOTE if quiet else None,
        measured={"role": "loss", "resumed_at": start, **measured(loss)},
    )


def _jumped(comparison: Comparison, one: Run, other: Run) -> Finding | None:
    """Return the jump of the loss's level from the first run to the second, if it is one."""
    limits, start = comparison.limits.resume, span(other)[0]
    jump = jump_up(
        one.history.finite("loss").until(start - 1).values,
        other.history.finite("loss").values,
        limits.points,
        sigmas=limits.jump_sigma,
        least_share=comparison.limits.spike.min_rise,
    )
    if jump is None:
        return None
    return RESUME_PARTS.found(
        f"{other.label} continues {one.label} at step {start}. The loss jumps from {num(jump.old)} "
        f"to {num(jump.new)}; elsewhere its level changes by {num(jump.noise)}.",
        Action(
            ActionKind.RESTORE_STATE,
            f"Check that the checkpoint of step {start} contains the optimizer state (Adam's "
            "moments), the schedule and the scaler, and that all are loaded.",
            checkpoint=start,
        ),
        step=start,
        measured={"before": jump.old, "after": jump.new, "noise": jump.noise},
    )


def gap_note(comparison: Comparison) -> tuple[str, ...]:
    """Return a note if steps are missing between the two runs."""
    one, other = sorted(comparison.runs, key=span)[:2]
    last, start, usual = span(one)[1], span(other)[0], stride(one)
    if start - last <= comparison.limits.resume.gap_ratio * usual:
        return ()
    missing = plural(int(start - last - usual), "step")
    return (f"{missing} between {last} and {start} are missing from both logs",)


def agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return the summary of a resume that continues well, and its numbers."""
    one, other = sorted(comparison.runs, key=span)[:2]
    shared, start = len(losses(one.history, other.history)), span(other)[0]
    if shared:
        told = f"their {plural(shared, 'common loss is', 'common losses are')} equal"
    else:
        told = "they share no step, and the loss stays at its level"
    rates = "lr" in one.history.series and "lr" in other.history.series
    rate = ", and the learning rate continues" if rates else ""
    return (
        f"{other.label} continues {one.label} at step {start}: {told}{rate}.",
        {"resumed_at": start, "common_points": shared},
    )
