"""Gradient clipping that changes every step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.limits.checks import optimizer_family
from stabdiag.model.ranges import FIRST_CLIP, USUAL_CLIPS
from stabdiag.model.roles.names import counts_per_record
from stabdiag.model.text import num, percent
from stabdiag.stats.course import settled
from stabdiag.stats.quantiles import is_constant, median, quantiles
from stabdiag.stats.standards import MIN_LONG_LOG, NEARLY_ALL, RELATIVE_TOLERANCE
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

# A step's gradient counts this often in the sum of all steps, with a momentum of 0.9.
_MOMENTUM_GAIN = 10.0


@Symptom(
    slug="grad-clip-saturated",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    title="Gradients are clipped at nearly every step",
    needs=("grad_norm or clip_count",),
    preconditions=(at_least(MIN_LONG_LOG, "grad_norm", "clip_count"),),
    next_actions=(
        Action(Do.LOWER_LR, "If the loss then spikes, lower the learning rate instead."),
        Action(Do.DO_NOTHING, "Do nothing if you want normalized gradients."),
    ),
)
def grad_clip_saturated(case: Case) -> Evidence | None:
    """Is nearly every gradient clipped to a small fraction of its size?"""
    norm, limits = case.history.finite("grad_norm"), case.limits.gradients
    threshold = case.manifest.grad_clip or 0.0
    if stuck := _stuck_at_threshold(case, norm) or _clipped_counts(case):
        return _with_reach(case, stuck)
    if threshold <= 0 or len(norm) < MIN_LONG_LOG:
        return None
    x = norm.values[settled(len(norm))]
    fraction, usual = float(np.mean(x > threshold)), median(x)
    high = float(quantiles(x, [NEARLY_ALL])[0])
    if fraction < limits.clip_rate or usual <= limits.clip_depth * threshold:
        return None
    far_off = usual > limits.clip_far * threshold
    if far_off:
        first = Action(
            Do.CHECK_MODEL,
            "Find out why the gradient is so large before changing the threshold: initial weights, "
            "inputs or targets out of scale, a summed loss, a norm before unscaling.",
            also=(Do.CHECK_LOSS_FUNCTION, Do.RAISE_CLIP),
        )
    else:
        first = Action(
            Do.RAISE_CLIP,
            f"Raise the clip threshold from {num(threshold)} to about {num(high)}: currently it "
            "sets the size of every step.",
            setting="grad_clip",
            from_=threshold,
            to=high,
        )
    evidence = Evidence(
        because=f"The gradient norm is above the clip threshold {num(threshold)} at "
        f"{fraction:.0%} of "
        f"{len(x)} logged steps; its median is {num(usual / threshold)} x the threshold.",
        step=int(norm.steps[settled(len(norm))][0]),
        measured={"fraction": fraction, "threshold": threshold, "median": usual},
        severity=Severity.WARNING if far_off else None,
        first=first,
    )
    return evidence if far_off else _with_reach(case, evidence)


def _with_reach(case: Case, evidence: Evidence) -> Evidence:
    """Return the evidence as a warning if the clipped steps are too small to train the model."""
    limitation = clip_limitation(case)
    if limitation is None:
        return evidence
    words, action = limitation
    raises_clip = evidence.first.kind is Do.RAISE_CLIP
    return replace(
        evidence,
        because=f"{evidence.because} {words}",
        severity=Severity.WARNING,
        first=evidence.first if raises_clip else action,
        next_actions=(
            *(() if raises_clip else (evidence.first,)),
            *grad_clip_saturated.next_actions,
        ),
    )


def clip_limitation(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a clip threshold that leaves SGD too little to move, or None."""
    norm, threshold = case.history.finite("grad_norm"), case.manifest.grad_clip
    reach = _reach(case, norm)
    if not threshold or reach is None or reach >= case.limits.gradients.clip_reach:
        return None
    is_clipped = norm.values >= threshold * (1 - RELATIVE_TOLERANCE)
    if np.mean(is_clipped) < case.limits.gradients.clip_rate or threshold >= FIRST_CLIP:
        return None
    words = (
        f"Clipped to {num(threshold)}, all steps together move the weights by at most "
        f"{percent(reach, 2)} of their norm."
    )
    return words, _higher_clip(threshold)


def tiny_clip(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a threshold below the usual ones if SGD learns nothing, or None.

    It is for runs whose weights were not logged, so that the way they can move is unknown.
    """
    norm, threshold = case.history.finite("grad_norm").values, case.manifest.grad_clip
    is_sgd = optimizer_family(case.manifest.optimizer) == "sgd"
    if not threshold or not is_sgd or threshold >= case.limits.preflight.clip_low or not len(norm):
        return None
    fraction = float(np.mean(norm >= threshold * (1 - RELATIVE_TOLERANCE)))
    if fraction < case.limits.gradients.clip_rate:
        return None
    words = (
        f"The gradient norm, {num(median(norm))} in the median, is clipped to {num(threshold)} at "
        f"{fraction:.0%} of the steps, and the steps of SGD shrink with it."
    )
    return words, _higher_clip(threshold)


def _higher_clip(threshold: float) -> Action:
    return Action(
        Do.RAISE_CLIP,
        f"Raise the clip threshold from {num(threshold)} to {num(FIRST_CLIP)}, and start again.",
        also=(Do.CLIP_GRADIENTS,),
        setting="grad_clip",
        from_=threshold,
        to=FIRST_CLIP,
        checkpoint=0,
    )


def _reach(case: Case, norm: Series) -> float | None:
    """Return the longest way that all steps of SGD can move the weights, in units of their norm.

    None if this is not known. Each step moves them by the rate times the clipped gradient, with
    momentum by a moving sum of these.
    """
    rate, weights = case.history.finite("lr"), _first_weight_norm(case)
    is_sgd = optimizer_family(case.manifest.optimizer) == "sgd"
    if not (is_sgd and weights and len(rate) and len(norm) > 1) or case.history.counts_epochs:
        return None
    at = np.clip(np.searchsorted(rate.steps, norm.steps), 0, len(rate) - 1)
    clipped = np.minimum(norm.values, case.manifest.grad_clip or np.inf)
    steps = int(norm.steps[-1] - norm.steps[0]) + 1
    return _MOMENTUM_GAIN * steps * float(np.mean(rate.values[at] * clipped)) / weights


def _first_weight_norm(case: Case) -> float | None:
    """Return the first norm of all weights; None if it was not logged."""
    total = case.history.finite("weight_norm")
    groups = [series.finite().values for series in case.history.group("weight_norm").values()]
    firsts = [float(total.values[0])] if len(total) else [float(x[0]) for x in groups if len(x)]
    return float(np.linalg.norm(firsts)) if firsts else None


def _stuck_at_threshold(case: Case, norm: Series) -> Evidence | None:
    """Report a norm that was logged after clipping and nearly always equals the threshold.

    If the manifest has no threshold, the highest norm is taken for it.
    """
    if len(norm) < MIN_LONG_LOG:
        return None
    x, threshold = norm.values[settled(len(norm))], case.manifest.grad_clip
    highest = float(x.max())
    fraction = float(np.mean(x >= highest * (1 - RELATIVE_TOLERANCE))) if highest > 0 else 0.0
    if fraction < case.limits.gradients.clip_rate:
        return None
    is_threshold = (
        abs(highest - threshold) <= RELATIVE_TOLERANCE * threshold
        if threshold
        # A norm that never changes may be a placeholder, unless it is a usual clip threshold.
        else not is_constant(norm.values)
        or any(np.isclose(highest, USUAL_CLIPS, rtol=RELATIVE_TOLERANCE))
    )
    if not is_threshold:
        return None
    return Evidence(
        because=f"The gradient norm is {num(highest)} at {fraction:.0%} of {len(x)} logged steps: "
        "it was logged after clipping, and nearly every gradient is clipped to that size.",
        title="The gradient norm is stuck at the clip threshold",
        step=int(norm.steps[settled(len(norm))][0]),
        measured={"fraction": fraction, "threshold": highest},
        first=Action(
            Do.LOG_MORE,
            "Log the gradient norm before clipping (the return value of clip_grad_norm_): only "
            "that shows how much is clipped.",
        ),
    )


def _clipped_counts(case: Case) -> Evidence | None:
    """Report that nearly all updates were clipped, from a logged count of clipped updates."""
    counts = case.history.finite("clip_count")
    if len(counts) < MIN_LONG_LOG or "clip_count" not in case.history.series:
        return None
    values, gaps = counts.values, np.diff(counts.steps)
    # A flag refers to the record's own step. A running total never falls, and it rises: a constant
    # count belongs to each record.
    is_flag = values.max() <= 1
    rises = np.ptp(values) > 0 and np.all(np.diff(values) >= 0)
    is_total = rises and not (is_flag or counts_per_record(counts.column))
    clipped = np.diff(values) if is_total else values[1:]
    per_record = np.ones(len(clipped)) if is_flag else gaps
    fraction = float(clipped.sum() / per_record.sum())
    if not case.limits.gradients.clip_rate <= fraction <= 1 + RELATIVE_TOLERANCE:
        return None
    return Evidence(
        because=f"{min(fraction, 1.0):.0%} of the updates were clipped ({counts.column!r}, "
        f"{len(counts)} records).",
        step=int(counts.steps[0]),
        measured={"fraction": fraction},
        first=Action(
            Do.RAISE_CLIP, "Raise the clip threshold: currently it sets the size of every step."
        ),
    )
