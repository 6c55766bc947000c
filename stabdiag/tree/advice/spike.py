"""Advice on §2: spikes that came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Remedy
from stabdiag.tree.advice.spike_facts import STATE, spike_facts
from stabdiag.tree.advice.words import (
    RESTORE_SCHEDULE,
    Advice,
    batches_at,
    clip,
    shown,
    to_log,
)
from stabdiag.tree.changes import near_spike
from stabdiag.tree.onset import focus
from stabdiag.words import num

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

# What begins the advice on a run that nothing else is wrong with.
KEEP_GOING = "Keep the run going"
GO_ON = f"{KEEP_GOING}, and "

# A gradient norm that came so near to the limit of a long-tail batch is told of.
_NEARLY = 1 / 3


def long_tail(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike with a gradient norm far above its mean."""
    facts = spike_facts(case)
    ratio = shown(answers["Q2.3"].measured.get("grad_ratio"))
    return facts.advice(
        f"The gradient norm was {ratio} x its rolling mean there.",
        first=f"Look at {batches_at(case, facts.onset)} for a long-tail sample, and clip the "
        f"gradient norm at {clip(case)}.",
        then=(
            "Mix or filter the data so that no batch is made of outliers alone.",
            "Write a post-mortem (stabdiag postmortem); the same data may not spike from another "
            "checkpoint.",
            "If spikes grow frequent, skip steps whose gradient norm is far above its mean.",
        ),
        remedies=(Remedy.DATA, Remedy.CLIP),
    )


def lr_jump(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike after a jump of the learning rate."""
    facts, answer = spike_facts(case), answers["Q2.3"]
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    at = answer.steps[0]
    return facts.advice(
        f"The learning rate had jumped from {before} to {after} at step {at}.",
        first=f"Fix the schedule at step {at}, where the learning rate jumps from {before} to "
        f"{after}.",
        then=(
            "Plot the learning rate of every step against the intended schedule.",
            RESTORE_SCHEDULE,
            "If the jump is intended (a warm restart), restart lower or warm up again.",
        ),
        remedies=(Remedy.RATE,),
    )


def duplicate(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike at or after a repeated batch."""
    facts = spike_facts(case)
    at = answers["Q2.3"].steps[0]
    return facts.advice(
        f"The batch of step {at} had been seen shortly before.",
        first=f"Fix the data loader: log its order around step {at}, where a batch repeats.",
        then=(
            "Check the sampler's seed per epoch and per worker (set_epoch in distributed runs).",
            "On a resume, restore the loader's position, or the same data is seen again.",
        ),
        remedies=(Remedy.DATA,),
    )


def recovered(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A recovered spike without a logged cause."""
    facts = spike_facts(case)
    look = f"look at {batches_at(case, facts.onset, and_before=True)}"
    if facts.resumed is not None:
        look = f"see that the next resume loads {STATE}"
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
        first=f"{GO_ON}{look}.",
        then=(
            f"If it happens again, clip the gradient norm at {clip(case)}.",
            *to_log(case, ("grad_norm", "lr", "batch_id"), densely=("grad_norm",)),
        ),
        remedies=(Remedy.DATA,) if facts.resumed is None else (),
    )
