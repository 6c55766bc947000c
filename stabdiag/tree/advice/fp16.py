"""Advice on §1: NaN in fp16."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.findings import Remedy, Verdict
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
    Advice,
    logged_at,
    now_lr,
)
from stabdiag.tree.origin import Origin, origin
from stabdiag.words import sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

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
    first, then, remedies = _course(case, answer, start, reload)
    advice = Advice(
        summary=told,
        first=first,
        then=(
            *came_through(case),
            f"Re-run {where} in fp32 on the same data: finite there means an fp16 overflow, not a "
            "structural bug.",
            *then,
            KEEP_IN_FP32,
            CHECK_INITIALISATION,
        ),
        remedies=remedies,
    )
    if start.resumed is not None and not start.jump and answer.verdict is not Verdict.YES:
        advice = at_resume(start.resumed, advice)
    return replace(
        advice,
        summary=f"{what_went_nan(start.bad)} {advice.summary}",
        step=start.bad.step,
        reload=reload,
        began=start.began,
    )


def _course(
    case: Case, answer: Answer, start: Origin, reload: str
) -> tuple[str, tuple[str, ...], tuple[Remedy, ...]]:
    """Return what to do first, and then, by the signals; and what the first of it sets about."""
    smaller = f"halve the learning rate{now_lr(case, start.bad.step)}"
    later = (f"If the loss scale keeps collapsing, {smaller}.",)
    if start.jump:
        return fix_schedule(start.jump, reload), later, (Remedy.RATE, Remedy.PRECISION)
    if answer.verdict is Verdict.NO:
        where = logged_at(case, start.step)
        first = (
            f"Re-run {where} once in fp32 on the same data: if it is finite there, it was an fp16 "
            "overflow."
        )
        return first, later, (Remedy.PRECISION,)
    if answer.measured.get("scaling_off") == "yes":
        first = f"{reload}, and engage dynamic loss scaling (torch.amp.GradScaler)."
        return first, later, (Remedy.PRECISION,)
    if answer.measured.get("scale_halving") == "yes":
        first = (
            f"{reload}, and {smaller} or switch from fp16 to bf16: a smaller loss scale did not "
            "help."
        )
        return first, (), (Remedy.RATE, Remedy.PRECISION)
    if answer.measured.get("scaling_off") == "no":
        first = f"{reload}, and switch from fp16 to bf16, or {smaller}."
        return first, (), (Remedy.PRECISION, Remedy.RATE)
    first = f"{reload}, and switch from fp16 to bf16, or see that the loss scaler is engaged."
    return first, later, (Remedy.PRECISION,)
