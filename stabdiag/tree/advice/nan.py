"""Advice on §1: NaN, but for fp16."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import capitalised, num, sentence
from stabdiag.tree.advice.nan_words import (
    at_resume,
    came_through,
    fix_schedule,
    reload_before,
    what_went_nan,
)
from stabdiag.tree.advice.words import (
    RESTORE_SCHEDULE,
    Advice,
    batches_at,
    clip,
    first_of,
    half_lr,
    logged_at,
)
from stabdiag.tree.drivers import half_peak_at, why_not_known
from stabdiag.tree.origin import Origin, origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case
    from stabdiag.tree.checkpoint import Reload

# A warm-up has to do with a blow-up within so many times the steps in which the learning rate came
# to half its peak, or within this share of the run.
_LONG_OVER = 10
_SOON = 0.1

_LONGER_WARMUP = Action(
    ActionKind.ADD_WARMUP,
    "Lengthen the warm-up: it is the cheapest cure for an early blow-up.",
    setting="warmup_steps",
)


def full_precision(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """NaN in fp32, fp64, bf16 or an unknown dtype."""
    start = origin(case)
    reload = reload_before(case, start)
    advice = _by_evidence(case, start, reload)
    then = (*came_through(case), *advice.then)
    if case.manifest.dtype == "bf16":
        hint = Action(
            ActionKind.CHECK_PRECISION,
            "bf16 overflows near 1e38 and rounds at 1%: run the step once in fp32 to compare.",
        )
        then = (*then, hint)
    if case.manifest.dtype is None:
        hint = Action(
            ActionKind.CHECK_SETTINGS,
            "Name the dtype (--dtype fp16|bf16|fp32, or in a manifest): in fp16 the first suspect "
            "is an overflow.",
            setting="dtype",
        )
        then = (hint, *then)
    return replace(
        advice,
        summary=f"{what_went_nan(start.bad)} {advice.summary}",
        then=then,
        step=start.bad.step,
        reload=str(reload),
        began=start.began,
        title="The loss went NaN in fp64" if case.manifest.dtype == "fp64" else "",
    )


def _by_evidence(case: Case, start: Origin, reload: Reload) -> Advice:
    """Return what the log shows of the cause, and what to do about it."""
    if start.jump:
        return Advice(
            summary=sentence(start.jump.because),
            first=fix_schedule(start.jump, reload),
            then=(
                RESTORE_SCHEDULE,
                Action(
                    ActionKind.ADD_WARMUP,
                    "If the jump is intended, warm up to it, and clip the gradient norm.",
                    also=(ActionKind.CLIP_GRADIENTS,),
                ),
            ),
        )
    if start.blew_up:
        early = _is_early(case, start.bad.step)
        rate = half_lr(case, start.bad.step, "half the learning rate")
        return Advice(
            summary=_how_it_blew_up(case, start),
            first=reload.restart(
                ActionKind.LOWER_LR,
                f"with {rate} and the gradient norm clipped at {clip(case)}",
                also=(ActionKind.CLIP_GRADIENTS,),
                **rate.change,
            ),
            then=(
                *((_LONGER_WARMUP,) * early),
                Action(
                    ActionKind.INSPECT_DATA,
                    f"Inspect {_suspects(case, start)}.",
                    step=start.bad.step,
                ),
                Action(
                    ActionKind.CLIP_GRADIENTS,
                    "If it happens again, clip gradients by value at ±100 as well.",
                ),
            ),
        )
    look = Advice(
        summary=_how_it_began(case, start),
        first=reload.and_then(
            ActionKind.INSPECT_LAYERS,
            "step one batch forward with isnan checks after every layer, from the embedding to the "
            "loss reduction",
        ),
        then=(
            Action(
                ActionKind.SAFE_OPERATIONS,
                "Use log_softmax instead of log(softmax(x)), or add an epsilon: log(0) is the "
                "usual cause.",
            ),
            Action(
                ActionKind.SAFE_OPERATIONS,
                "Check reductions for 0/0: a batch whose mask is all zero divides by nothing.",
            ),
            Action(
                ActionKind.INSPECT_DATA,
                f"Look at the data of {logged_at(case, start.step)}: empty sequences, labels "
                "out of range, NaN inputs.",
                step=start.step,
            ),
            Action(
                ActionKind.CHECK_MODEL,
                "If it happens again, the bug is structural: go back to the architecture.",
            ),
        ),
    )
    return look if start.resumed is None or case.damaged else at_resume(start.resumed, look)


def _suspects(case: Case, start: Origin) -> str:
    """Return the batches to inspect: from the surge on, or from two before the NaN."""
    if case.history.counts_epochs:
        return batches_at(case, start.bad.step)
    if start.surged_from is not None:
        first = first_of(case, start.surged_from)
    else:
        first = max(min(start.step - 2, first_of(case, start.step)), 0)
    return f"the batches of steps {first} to {start.bad.step}"


def _is_early(case: Case, step: int) -> bool:
    """Tell whether a warm-up may have to do with what happened: not where it was long over."""
    half = half_peak_at(case.history.finite("lr"))
    if half is None:
        return True
    whole = max(case.manifest.total_steps or 0, case.history.last_step or 0)
    return step <= max(_LONG_OVER * half, _SOON * whole)


def _how_it_blew_up(case: Case, start: Origin) -> str:
    if start.surge is not None and start.surge.since is not None:
        return (
            f"{capitalised(start.surge.of)} surged to {num(start.surge.ratio)} x its mean at step "
            f"{start.surge.step}: an optimization blow-up."
        )
    return f"The run was in trouble from step {case.damaged[-1]} on: an optimization blow-up."


def _how_it_began(case: Case, start: Origin) -> str:
    trouble = (
        f"the run had gone wrong before, from step {case.damaged[0]} on" if case.damaged else ""
    )
    if start.surge is None and trouble:
        return sentence(trouble)
    if start.surge is None:
        if start.role != "loss":
            return (
                f"{start.role} went first, at step {start.step}; too little was logged before it"
                " to show what led up to it."
            )
        why = capitalised(why_not_known(case, start.step))
        return f"{why} before it, so the log does not show what led up to it."
    points = (
        f"but {trouble}" if trouble else "which points at a bad sample or at a layer's numerics"
    )
    if start.role != "loss":
        return f"{start.role} went first, at step {start.step}, after calm gradients, {points}."
    return f"{capitalised(start.surge.of)} was calm before it, {points}."
