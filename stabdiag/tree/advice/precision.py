"""Advice on §3: mixed precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import sentence
from stabdiag.tree.advice.words import (
    CHECK_INITIALISATION,
    KEEP_IN_FP32,
    TO_BF16,
    Advice,
    half_lr,
    shown,
    to_log,
)
from stabdiag.tree.checkpoint import checkpoint_before

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case


def overflow(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows beyond the scaler's normal life."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    if case.manifest.dtype == "bf16":
        first, log = _in_bf16(answer, step)
    else:
        rate = half_lr(case, step)
        first = Action(
            ActionKind.CHANGE_DTYPE,
            f"Switch from fp16 to bf16, or {rate}.",
            also=(ActionKind.LOWER_LR,),
            **TO_BF16,
        )
        log = to_log(case, ("loss_scale", "grad_norm"))
    return Advice(
        summary=sentence(answer.because),
        first=first,
        then=(*log, KEEP_IN_FP32, CHECK_INITIALISATION),
        step=step,
        title="A gradient overflowed" if answer.measured.get("overflows") == 1 else "",
    )


def _in_bf16(answer: Answer, step: int) -> tuple[Action, tuple[Action, ...]]:
    """Return what to do about overflows in bf16, whose range is that of fp32: first, and then."""
    find = Action(
        ActionKind.INSPECT_LAYERS,
        f"Find the operation that overflows at step {step}: re-run the step in fp32 on the same "
        "batch.",
        also=(ActionKind.CHECK_PRECISION,),
        step=step,
    )
    log = Action(ActionKind.LOG_MORE, "Log the largest activation of each layer.")
    if not answer.measured.get("scale_moves"):
        return find, (log,)
    # In fp16 they may be the probes of a scaler at work.
    check = Action(
        ActionKind.CHECK_SETTINGS,
        "Check which dtype the run was in; if it is fp16, diagnose with --dtype fp16.",
        also=(ActionKind.CHECK_PRECISION,),
        setting="dtype",
    )
    return check, (find.after("If it is bf16:"), log)


def static(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows under a constant loss scale."""
    answer = answers["Q3.2"]
    return Advice(
        summary=sentence(answer.because),
        first=Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Engage dynamic loss scaling (torch.amp.GradScaler) instead of the constant "
            f"{shown(answer.measured.get('scale'))}.",
        ),
        then=(
            Action(
                ActionKind.DYNAMIC_LOSS_SCALE,
                "Check that the optimizer steps go through the scaler: scaler.step, then "
                "scaler.update.",
            ),
            Action(
                ActionKind.CHANGE_DTYPE,
                "Switch from fp16 to bf16, which needs no loss scale.",
                **TO_BF16,
            ),
        ),
        step=answer.steps[0],
    )


def collapsed(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss scale below its floor."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    last = checkpoint_before(case.manifest, step, case.stride)
    reload = last.reload(f"the overflows from {step} on")
    rate = half_lr(case, step)
    over = "back_at" in answer.measured
    size = "were too large" if over else "are too large all the time, not in passing"
    return Advice(
        summary=sentence(f"{answer.because}: gradients or activations {size}"),
        first=reload.and_then(
            ActionKind.LOWER_LR,
            f"{rate} or switch from fp16 to bf16",
            also=(ActionKind.CHANGE_DTYPE,),
            **rate.change,
        ),
        then=(
            CHECK_INITIALISATION,
            Action(
                ActionKind.INSPECT_LAYERS,
                "Find the layer whose activations come near 65504: log their maxima.",
            ),
            KEEP_IN_FP32,
        ),
        step=step,
        reload=str(reload),
    )
