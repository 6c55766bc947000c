"""Advice on §1: NaN in fp16."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind, Verdict
from stabdiag.model.text import sentence
from stabdiag.tree.advice.nan_words import (
    at_resume,
    came_through,
    fix_schedule,
    reload_before,
    what_went_nan,
)
from stabdiag.tree.advice.words import (
    CHECK_INITIALISATION,
    KEEP_IN_FP32,
    TO_BF16,
    Advice,
    half_lr,
    logged_at,
)
from stabdiag.tree.origin import Origin, origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case
    from stabdiag.tree.checkpoint import Reload

_TOLD = {
    Verdict.YES: "The log carries the fingerprint of an fp16 overflow: a value beyond 65504.",
    Verdict.NO: "The log does not carry the fingerprint of an overflow, so a structural NaN is "
    "possible.",
    Verdict.UNKNOWN: "The first suspect in fp16 is an activation or gradient beyond 65504.",
}


def fp16(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp16."""
    answer, start = answers["Q3.3"], origin(case)
    reload, where = reload_before(case, start), logged_at(case, start.step)
    told = sentence(start.jump.because) if start.jump else _TOLD[answer.verdict]
    first, then = _course(case, answer, start, reload)
    advice = Advice(
        summary=told,
        first=first,
        then=(
            *came_through(case),
            Action(
                ActionKind.CHECK_PRECISION,
                f"Re-run {where} in fp32 on the same data: finite there means an fp16 overflow, "
                "not a structural bug.",
                step=start.step,
            ),
            *then,
            KEEP_IN_FP32,
            CHECK_INITIALISATION,
        ),
    )
    if start.resumed is not None and not start.jump and answer.verdict is not Verdict.YES:
        advice = at_resume(start.resumed, advice)
    return replace(
        advice,
        summary=f"{what_went_nan(start.bad)} {advice.summary}",
        step=start.bad.step,
        reload=str(reload),
        began=start.began,
    )


def _course(
    case: Case, answer: Answer, start: Origin, reload: Reload
) -> tuple[Action, tuple[Action, ...]]:
    """Return what to do first, and then, by the signals."""
    rate = half_lr(case, start.bad.step)
    later = (
        Action(
            ActionKind.LOWER_LR,
            f"If the loss scale keeps collapsing, {rate}.",
            **rate.change,
        ),
    )
    if start.jump:
        return fix_schedule(start.jump, reload), later
    if answer.verdict is Verdict.NO:
        again = Action(
            ActionKind.CHECK_PRECISION,
            f"Re-run {logged_at(case, start.step)} once in fp32 on the same data: if it is finite "
            "there, it was an fp16 overflow.",
            step=start.step,
        )
        return again, later
    if answer.measured.get("scaling_off") == "yes":
        engage = "engage dynamic loss scaling (torch.amp.GradScaler)"
        return reload.and_then(ActionKind.DYNAMIC_LOSS_SCALE, engage), later
    if answer.measured.get("scale_halving") == "yes":
        lower = reload.and_then(
            ActionKind.LOWER_LR,
            f"{rate} or switch from fp16 to bf16: a smaller loss scale did not help",
            also=(ActionKind.CHANGE_DTYPE,),
            **rate.change,
        )
        return lower, ()
    either = answer.measured.get("scaling_off") == "no"
    other = str(rate) if either else "see that the loss scaler is engaged"
    switch = reload.and_then(
        ActionKind.CHANGE_DTYPE,
        f"switch from fp16 to bf16, or {other}",
        also=(ActionKind.LOWER_LR if either else ActionKind.DYNAMIC_LOSS_SCALE,),
        **TO_BF16,
    )
    return switch, () if either else later
