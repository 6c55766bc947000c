"""Advice on §2: spikes that came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.tree.advice.spike_facts import STATE, spike_facts
from stabdiag.tree.advice.words import (
    RESTORE_SCHEDULE,
    Advice,
    batches_at,
    clip,
    going_on,
    shown,
    to_log,
)
from stabdiag.tree.changes import near_spike
from stabdiag.tree.spike import focus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case

# A gradient norm that came so near to the limit of a long-tail batch is told of.
_NEARLY = 1 / 3


def long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    facts, threshold = spike_facts(case), clip(case)
    ratio = shown(answers["Q2.3"].measured.get("grad_ratio"))
    return facts.advice(
        f"The gradient norm was {ratio} x its rolling mean there.",
        first=Action(
            ActionKind.INSPECT_DATA,
            f"Look at {batches_at(case, facts.onset)} for a long-tail sample, and clip the "
            f"gradient norm at {threshold}.",
            also=(ActionKind.CLIP_GRADIENTS,),
            step=facts.onset,
            **threshold.change,
        ),
        then=(
            Action(
                ActionKind.SHUFFLE_DATA,
                "Mix or filter the data so that no batch is made of outliers alone.",
            ),
            Action(
                ActionKind.SEE_FINDING,
                "Write a post-mortem (stabdiag postmortem); the same data may not spike from "
                "another checkpoint.",
            ),
            Action(
                ActionKind.SKIP_BATCHES,
                "If spikes grow frequent, skip steps whose gradient norm is far above its mean.",
            ),
        ),
    )


def lr_jump(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike after a jump of the learning rate."""
    facts, answer = spike_facts(case), answers["Q2.3"]
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    at = answer.steps[0]
    return facts.advice(
        f"The learning rate had jumped from {before} to {after} at step {at}.",
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Fix the schedule at step {at}, where the learning rate jumps from {before} to "
            f"{after}.",
            step=at,
        ),
        then=(
            Action(
                ActionKind.LOG_MORE,
                "Plot the learning rate of every step against the intended schedule.",
            ),
            RESTORE_SCHEDULE,
            Action(
                ActionKind.LOWER_LR,
                "If the jump is intended (a warm restart), restart lower or warm up again.",
                also=(ActionKind.ADD_WARMUP,),
            ),
        ),
    )


def duplicate(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike at or after a repeated batch."""
    facts = spike_facts(case)
    at = answers["Q2.3"].steps[0]
    return facts.advice(
        f"The batch of step {at} had been seen shortly before.",
        first=Action(
            ActionKind.FIX_LOADER,
            f"Fix the data loader: log its order around step {at}, where a batch repeats.",
            step=at,
        ),
        then=(
            Action(
                ActionKind.FIX_LOADER,
                "Check the sampler's seed per epoch and per worker (set_epoch in distributed "
                "runs).",
            ),
            Action(
                ActionKind.FIX_LOADER,
                "On a resume, restore the loader's position, or the same data is seen again.",
            ),
        ),
    )


def recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    facts, threshold = spike_facts(case), clip(case)
    look = Action(
        ActionKind.INSPECT_DATA,
        f"Look at {batches_at(case, facts.onset, and_before=True)}.",
        step=facts.onset,
    )
    if facts.resumed is not None:
        look = Action(ActionKind.RESTORE_STATE, f"See that the next resume loads {STATE}.")
    other = "else " if near_spike(case, focus(case)) else ""
    why = f"Nothing {other}that was logged shows why."
    ratio, limit = answers["Q2.3"].measured.get("grad_ratio"), case.limits.spike.grad_ratio
    if isinstance(ratio, float) and ratio > _NEARLY * limit:
        why = (
            f"The gradient norm reached {num(ratio)} x its rolling mean, not quite the "
            f"{num(limit)} x that tell of a long-tail batch."
        )
    overflowed = answers["Q2.3"].measured.get("grad_nonfinite")
    if overflowed is not None:
        why = f"The gradient norm was not finite at step {overflowed}: the gradients overflowed."
    return facts.advice(
        facts.cause or why,
        first=going_on(look),
        then=(
            Action(
                ActionKind.CLIP_GRADIENTS,
                f"If it happens again, clip the gradient norm at {threshold}.",
                **threshold.change,
            ),
            *to_log(case, ("grad_norm", "lr", "batch_id"), densely=("grad_norm",)),
        ),
    )
