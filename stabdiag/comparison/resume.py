"""A run and its resume: whether the second continues where the first stopped."""

from __future__ import annotations

from collections.abc import Iterator

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.outcomes import RESUME_DIVERGES
from stabdiag.comparison.points import describe_largest, divergence_evidence, format_values, losses
from stabdiag.model.comparison import ComparedRun, Comparison, Divergence
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.text import num, plural
from stabdiag.stats.levels import jump_up


def resume_diverges(comparison: Comparison) -> Iterator[Finding]:
    """Find the first resume that does not continue the losses or the learning rate."""
    for run in comparison.others:
        first, second = sorted((comparison.against, run), key=span)
        divergences = comparison.of(run.label)
        rate, loss = divergences.get("lr"), divergences.get("loss")
        if rate is not None and rate.unrounded is not None:
            change: Finding | None = _rate_differs(first, second, rate)
        else:
            change = _rate_jumps(comparison, first, second)
        if change is None and loss is not None and loss.unrounded is not None:
            change = _loss_differs(first, second, loss, comparison.limits.compare.noise_sigma)
        change = change or _loss_jumps(comparison, first, second)
        if change is not None:
            yield change
            return


def _rate_differs(first: ComparedRun, second: ComparedRun, rate: Divergence) -> Finding:
    start = span(second)[0]
    return RESUME_DIVERGES.finding(
        f"{second.label} continues {first.label} at step {start}. At step {rate.unrounded} its "
        f"learning rate differs: {format_values(rate.unrounded_values)}.",
        Action(
            ActionKind.FIX_SCHEDULE,
            "Save and load the schedule's state with the checkpoint, and give it the last step "
            f"({start}).",
        ),
        step=rate.unrounded,
        measured={"role": "lr", **divergence_evidence(rate)},
    )


def _rate_jumps(comparison: Comparison, first: ComparedRun, second: ComparedRun) -> Finding | None:
    """Find a large change of the learning rate between runs without a common step."""
    if len(losses(first.history, second.history)):
        return None
    start, limit = span(second)[0], comparison.limits.resume.lr_ratio
    before = first.history.finite("lr").until(start).values
    after = second.history.finite("lr").values
    if len(before) < 2 or not len(after) or before[-1] <= 0 or after[0] <= 0:
        return None
    if 1 / limit <= after[0] / before[-1] <= limit:
        return None
    old, new = float(before[-1]), float(after[0])
    return RESUME_DIVERGES.finding(
        f"{first.label} ended at step {span(first)[1]} with a learning rate of {num(old)}. "
        f"{second.label} begins at step {start} with {num(new)}.",
        Action(ActionKind.FIX_SCHEDULE, "Save and load the schedule's state with the checkpoint."),
        step=start,
        measured={"role": "lr", "before": old, "after": new},
    )


def _loss_differs(
    first: ComparedRun, second: ComparedRun, loss: Divergence, sigmas: float
) -> Finding:
    start, noise = span(second)[0], loss.noise or 0.0
    # Equal batches and weights give equal losses, so one loss outside the noise is enough.
    is_within_noise = loss.largest <= sigmas * noise
    if loss.unrounded is not None and loss.unrounded > start:
        cause = (
            "The first loss after the resume is equal, so weights and batch were restored. The "
            "optimizer state, the scaler or the random state was not."
        )
        action = Action(
            ActionKind.RESTORE_STATE,
            f"Check that the checkpoint of step {start} contains the optimizer state, and that it "
            "is loaded before the first step.",
            checkpoint=start,
        )
    else:
        cause = "The first loss differs already, so the weights or the batch differ."
        action = Action(
            ActionKind.RESTORE_STATE,
            f"Compare the batch of step {start} in both runs. If it differs, save the data "
            "position with the checkpoint; otherwise the weights differ.",
            also=(ActionKind.INSPECT_DATA,),
            step=start,
        )
    return RESUME_DIVERGES.finding(
        f"{second.label} continues {first.label} at step {start}. The first of {loss.points} "
        f"common losses to differ is at step {loss.unrounded}: "
        f"{format_values(loss.unrounded_values)}. The difference ({describe_largest(loss)}) is "
        f"{'within' if is_within_noise else 'above'} the noise of the loss ({num(noise)}). {cause}",
        action,
        step=loss.unrounded,
        severity=Severity.NOTE if is_within_noise else None,
        measured={"role": "loss", "resumed_at": start, **divergence_evidence(loss)},
    )


def _loss_jumps(comparison: Comparison, first: ComparedRun, second: ComparedRun) -> Finding | None:
    """Find a jump of the loss level from the first run to the second."""
    limits, start = comparison.limits.resume, span(second)[0]
    jump = jump_up(
        first.history.finite("loss").until(start - 1).values,
        second.history.finite("loss").values,
        limits.points,
        sigmas=limits.jump_sigma,
        min_range_share=comparison.limits.spike.min_rise,
    )
    if jump is None:
        return None
    return RESUME_DIVERGES.finding(
        f"{second.label} continues {first.label} at step {start}. The loss jumps from "
        f"{num(jump.old)} to {num(jump.new)}; elsewhere its level changes by {num(jump.noise)}.",
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
    first, second = sorted(comparison.runs, key=span)[:2]
    last, start, spacing = span(first)[1], span(second)[0], stride(first)
    if start - last <= comparison.limits.resume.gap_ratio * spacing:
        return ()
    missing = plural(int(start - last - spacing), "step")
    return (f"{missing} between {last} and {start} are missing from both logs",)


def agreement(comparison: Comparison) -> tuple[str, dict[str, Scalar]]:
    """Return the summary of a resume without a finding, and its evidence."""
    first, second = sorted(comparison.runs, key=span)[:2]
    shared, start = len(losses(first.history, second.history)), span(second)[0]
    if shared:
        result = f"their {plural(shared, 'common loss is', 'common losses are')} equal"
    else:
        result = "they share no step, and the loss stays at its level"
    rates = "lr" in first.history.series and "lr" in second.history.series
    rate = ", and the learning rate continues" if rates else ""
    return (
        f"{second.label} continues {first.label} at step {start}: {result}{rate}.",
        {"resumed_at": start, "common_points": shared},
    )
