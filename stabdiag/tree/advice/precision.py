"""Advice on §3: mixed precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Remedy
from stabdiag.tree.advice.words import (
    CHECK_INITIALISATION,
    KEEP_IN_FP32,
    Advice,
    now_lr,
    shown,
    to_log,
)
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.words import sentence, uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case


def overflow(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows beyond the scaler's normal life."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    if case.manifest.dtype == "bf16":
        first = (
            f"Find the operation that overflows at step {step}: re-run the step in fp32 on the "
            "same batch."
        )
        log: tuple[str, ...] = ("Log the largest activation of each layer.",)
        remedies = (Remedy.PRECISION, Remedy.OPERATIONS)
        if answer.measured.get("scale_moves"):
            # In fp16 they may be the probes of a scaler at work.
            log = (f"If it is bf16: {uncapitalised(first)}", *log)
            first = "Check which dtype the run was in; if it is fp16, diagnose with --dtype fp16."
    else:
        first = f"Switch from fp16 to bf16, or halve the learning rate{now_lr(case, step)}."
        log = to_log(case, ("loss_scale", "grad_norm"))
        remedies = (Remedy.PRECISION, Remedy.RATE)
    return Advice(
        summary=sentence(answer.because),
        first=first,
        then=(
            *log,
            KEEP_IN_FP32,
            CHECK_INITIALISATION,
        ),
        step=step,
        remedies=remedies,
        title="A gradient overflowed" if answer.measured.get("overflows") == 1 else "",
    )


def static(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows under a constant loss scale."""
    answer = answers["Q3.2"]
    return Advice(
        summary=sentence(answer.because),
        first="Engage dynamic loss scaling (torch.amp.GradScaler) instead of the constant "
        f"{shown(answer.measured.get('scale'))}.",
        then=(
            "Check that the optimizer steps go through the scaler: scaler.step, then "
            "scaler.update.",
            "Switch from fp16 to bf16, which needs no loss scale.",
        ),
        step=answer.steps[0],
        remedies=(Remedy.PRECISION,),
    )


def collapsed(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss scale below its floor."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    last = checkpoint_before(case.manifest, step, case.stride)
    reload = last.reload(f"the overflows from {step} on")
    over = "back_at" in answer.measured
    size = "were too large" if over else "are too large all the time, not in passing"
    return Advice(
        summary=sentence(f"{answer.because}: gradients or activations {size}"),
        first=f"{reload}, and halve the learning rate{now_lr(case, step)} or switch from fp16 to "
        "bf16.",
        then=(
            CHECK_INITIALISATION,
            "Find the layer whose activations come near 65504: log their maxima.",
            KEEP_IN_FP32,
        ),
        step=step,
        reload=reload,
        remedies=(Remedy.PRECISION, Remedy.RATE),
    )
