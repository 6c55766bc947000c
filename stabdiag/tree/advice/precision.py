"""Advice on §3: mixed precision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer, Severity
from stabdiag.model.text import sentence
from stabdiag.tree.advice.rates import half_lr
from stabdiag.tree.advice.shared import (
    CHECK_INITIALISATION,
    KEEP_IN_FP32,
    TO_BF16,
    Advice,
    logging_advice,
    shown,
)
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.scaler import skipped_throughout

NOTHING_UPDATED = "No update was made: every gradient norm is NaN or infinite"

_LOG_ACTIVATIONS = Action(ActionKind.LOG_MORE, "Log the largest activation of each layer.")
_LOG_NEAR_MAX = Action(
    ActionKind.LOG_MORE, "Log the largest activation of each layer: fp16 ends at 65504."
)


def nothing_updated(records: int) -> str:
    """Return a sentence: no record has a usable gradient."""
    return f"The gradient norm is NaN or infinite at all {records} records, so nothing was updated."


def overflow(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """More overflows than a working scaler causes."""
    answer = answers["Q3.2"]
    step = answer.steps[0]
    rate = half_lr(case, step)
    first = Action(
        ActionKind.CHANGE_DTYPE,
        f"Switch from fp16 to bf16, or {rate}.",
        also=(ActionKind.LOWER_LR,),
        **TO_BF16,
    )
    next_actions = (*logging_advice(case, ("loss_scale", "grad_norm")), _LOG_NEAR_MAX)
    layer = overflowing_layer(case, step)
    inside = f" in {layer!r}" if layer else ""
    if case.manifest.dtype == "bf16":
        first = Action(
            ActionKind.INSPECT_LAYERS,
            f"Find the operation that overflows{inside} at {case.unit} {step}: re-run it in fp32 "
            "on the same batch.",
            also=(ActionKind.CHECK_PRECISION,),
            step=step,
        )
        next_actions = (_LOG_ACTIVATIONS,)
    skipped = skipped_throughout(case)
    summary = sentence(answer.because)
    if layer:
        summary = f"{summary} Of the logged layers, only the gradient of {layer!r} is not finite."
    if skipped is not None:
        step = int(case.history.series["grad_norm"].steps[0])
        summary = f"{nothing_updated(skipped)} {summary}"
    return Advice(
        summary=summary,
        first=first,
        next_actions=(*next_actions, KEEP_IN_FP32, CHECK_INITIALISATION),
        step=step,
        title="" if skipped is None else NOTHING_UPDATED,
        severity=None if skipped is None else Severity.ERROR,
    )


def overflowing_layer(case: Case, step: int) -> str:
    """Return the only layer whose gradient norm is not finite at a step, or ""."""
    layers = {
        name: bool(np.isfinite(values).all())
        for name, series in case.history.group("grad_norm").items()
        if name != "all" and len(values := series.between(step, step).values)
    }
    bad = [name for name, is_finite in layers.items() if not is_finite]
    return bad[0] if len(bad) == 1 < len(layers) else ""


def static(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """Overflows under a constant loss scale."""
    answer = answers["Q3.2"]
    scale = shown(answer.measured.get("scale"))
    return Advice(
        summary=sentence(answer.because),
        first=Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            f"Enable dynamic loss scaling (torch.amp.GradScaler) instead of the constant {scale}.",
            setting="loss_scale",
            to="dynamic",
        ),
        next_actions=(
            Action(
                ActionKind.DYNAMIC_LOSS_SCALE,
                "Check that each step goes through the scaler: scaler.step, then scaler.update.",
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
    last = earlier_checkpoint(case, step, case.stride)
    reload = last.reload(f"the overflows from {case.unit} {step} on")
    rate = half_lr(case, step)
    return Advice(
        summary=sentence(f"{answer.because}: gradients or activations are too large"),
        first=reload.and_then(
            ActionKind.LOWER_LR,
            f"{rate} or switch from fp16 to bf16",
            also=(ActionKind.CHANGE_DTYPE,),
            **rate.change,
        ),
        next_actions=(
            CHECK_INITIALISATION,
            Action(
                ActionKind.INSPECT_LAYERS,
                "Find the layer whose activations come near 65504: log their maxima.",
            ),
            KEEP_IN_FP32,
        ),
        step=step,
        reload=reload.clause,
    )
