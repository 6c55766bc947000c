"""Advice on NaN in fp16."""

from __future__ import annotations

from collections.abc import Mapping

from stabdiag.model.findings import Action, ActionKind, Answer, Verdict
from stabdiag.model.text import sentence
from stabdiag.tree.advice.nan import (
    complete,
    fix_schedule,
    keep_recovered_run,
    reload_before,
    smaller_steps,
)
from stabdiag.tree.advice.rates import half_lr
from stabdiag.tree.advice.shared import (
    CHECK_INITIALISATION,
    KEEP_IN_FP32,
    TO_BF16,
    Advice,
    batch_id_suffix,
    covered_steps,
)
from stabdiag.tree.case import Case
from stabdiag.tree.nan import (
    FORWARD,
    Origin,
    activation_near_fp16_max,
    describe_near_fp16_max,
    infinite_embedding_gradient,
    origin,
)
from stabdiag.tree.saved_failure import saved_failure

_OVERFLOW = {
    Verdict.YES: "The log shows the fingerprint of an fp16 overflow: a value above 65504.",
    Verdict.NO: "The log does not look like an fp16 overflow; the cause may be structural.",
    Verdict.UNKNOWN: "In fp16 the first suspect is an activation or gradient above 65504.",
}


def fp16(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp16."""
    answer, start = answers["Q3.3"], origin(case)
    summary = sentence(start.jump.because) if start.jump else _OVERFLOW[answer.verdict]
    kind, _, layer = start.role.partition("/")
    if kind in FORWARD and layer:
        summary = (
            f"{summary} {layer!r} is the earliest layer with a non-finite value, at {case.unit} "
            f"{start.step}."
        )
    peak = activation_near_fp16_max(case.history, start.bad.step)
    if peak is not None:
        summary = f"{summary} {sentence(describe_near_fp16_max(peak, case.unit))}"
    first, next_actions = _actions(case, answer, start)
    smaller = smaller_steps(case, start, first)
    next_actions = (
        *keep_recovered_run(case),
        *smaller,
        _in_fp32(case, start.step),
        *next_actions,
        KEEP_IN_FP32,
    )
    embedding = infinite_embedding_gradient(case)
    if embedding is not None:
        next_actions = (*next_actions, _clip_by_value(embedding))
    return complete(
        case,
        start,
        Advice(summary=summary, first=first, next_actions=(*next_actions, CHECK_INITIALISATION)),
    )


def _clip_by_value(column: str) -> Action:
    """Return the action for an infinite gradient of an embedding."""
    return Action(
        ActionKind.CLIP_GRADIENTS,
        f"Clip gradients by value at ±100 before clipping them by norm: {column!r} is infinite.",
    )


def _actions(case: Case, answer: Answer, start: Origin) -> tuple[Action, tuple[Action, ...]]:
    """Return the first and further actions for a NaN in fp16, by the overflow signals."""
    reload, rate = reload_before(case, start), half_lr(case, start.bad.step)
    signals = {name: answer.measured.get(name) for name in ("scaling_off", "scale_halving")}
    later = Action(
        ActionKind.LOWER_LR, f"If the loss scale keeps collapsing, {rate}.", **rate.change
    )
    if start.jump:
        return fix_schedule(case, start, start.jump), (later,)
    if answer.verdict is Verdict.NO:
        return _in_fp32(case, start.step), (later,)
    if signals["scaling_off"] == "yes":
        enable = "enable dynamic loss scaling (torch.amp.GradScaler)"
        return reload.and_then(ActionKind.DYNAMIC_LOSS_SCALE, enable), (later,)
    if signals["scale_halving"] == "yes":
        either = f"{rate} or switch from fp16 to bf16 (a smaller loss scale did not help)"
        other_kinds = (ActionKind.CHANGE_DTYPE,)
        return reload.and_then(ActionKind.LOWER_LR, either, also=other_kinds, **rate.change), ()
    is_scaled = signals["scaling_off"] == "no"
    other = str(rate) if is_scaled else "check that the loss scaler is enabled"
    switch = reload.and_then(
        ActionKind.CHANGE_DTYPE,
        f"switch from fp16 to bf16, or {other}",
        also=(ActionKind.LOWER_LR if is_scaled else ActionKind.DYNAMIC_LOSS_SCALE,),
        **TO_BF16,
    )
    return switch, () if is_scaled else (later,)


def _in_fp32(case: Case, step: int) -> Action:
    where, batch = covered_steps(case, step), batch_id_suffix(case, step)
    text = (
        f"Re-run {where} in fp32 on the same data{batch}: if it stays finite, it was an fp16 "
        "overflow; otherwise look at the batch."
    )
    saved = saved_failure(case.history)
    if saved is not None:
        text = (
            f"Run `{saved.command}`: it names the module that fails, and repeats {case.unit} "
            f"{saved.step} in fp32; if that is finite, it was an fp16 overflow."
        )
    return Action(ActionKind.CHECK_PRECISION, text, step=step)
