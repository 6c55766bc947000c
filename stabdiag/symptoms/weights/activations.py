"""Dead and saturated units, and attention that collapses."""

from __future__ import annotations

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, plural
from stabdiag.stats.standards import (
    LEAST,
    MIN_CONSECUTIVE,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.weights.groups import SECOND_HALF, norm_groups
from stabdiag.tree.case import Case


@Symptom(
    slug="dead-neurons",
    title="Dead neurons",
    needs=("dead_fraction",),
    preconditions=(at_least(LEAST, "dead_fraction", groups=True),),
    next_actions=(
        Action(Do.CHECK_MODEL, "Check its initialization, and the bias before it."),
        Action(Do.CHANGE_MODEL, "Normalize its input."),
    ),
)
def dead_neurons(case: Case) -> Evidence | None:
    """Are most neurons of a layer always zero?"""
    return _fraction_too_high(
        case,
        "dead_fraction",
        case.limits.weights.max_dead_fraction,
        "neurons of {name!r} are dead",
        Action(
            Do.CHANGE_MODEL,
            "Replace the ReLU of {name!r} with GELU or leaky ReLU, or lower the learning rate.",
            also=(Do.LOWER_LR,),
        ),
    )


@Symptom(
    slug="activation-saturated",
    title="Saturated activations",
    needs=("saturated_fraction",),
    preconditions=(at_least(LEAST, "saturated_fraction", groups=True),),
    next_actions=(
        Action(Do.CHANGE_MODEL, "Replace tanh or sigmoid with GELU."),
        Action(Do.LOWER_LR, "Lower the learning rate; check whether its weight norm runs away."),
    ),
)
def activation_saturated(case: Case) -> Evidence | None:
    """Are most activations of a layer at their bound?"""
    return _fraction_too_high(
        case,
        "saturated_fraction",
        case.limits.weights.max_saturated_fraction,
        "activations of {name!r} are saturated",
        Action(
            Do.CHANGE_MODEL,
            "Put a normalization layer before {name!r}, or scale its initialization down.",
        ),
    )


def _fraction_too_high(
    case: Case, role: str, limit: float, noun: str, first: Action
) -> Evidence | None:
    """Report the group with the highest fraction at the end, if it is too high throughout."""
    groups = norm_groups(case, role)
    # Fractions may have been logged in percent.
    scale = full_scale(max((group.levels[SECOND_HALF:].max() for group in groups), default=0.0))
    high = [group for group in groups if group.levels[SECOND_HALF:].min() / scale > limit]
    if not high:
        return None
    highest = max(high, key=lambda group: (float(group.levels[-1]), group.name))
    fraction = float(highest.levels[-1]) / scale
    return Evidence(
        because=f"{fraction:.0%} of the {noun.format(name=highest.name)} "
        f"({plural(len(high), 'group')} of {len(groups)} above the limit).",
        step=highest.step(SECOND_HALF),
        measured={
            "group": highest.name,
            "fraction": fraction,
            "groups_affected": len(high),
            "groups": len(groups),
        },
        first=Action(first.kind, first.text.format(name=highest.name), also=first.also),
    )


@Symptom(
    slug="attention-entropy-collapse",
    title="Attention has collapsed onto single tokens",
    needs=("attention_entropy",),
    preconditions=(at_least(LEAST, "attention_entropy", groups=True),),
    next_actions=(
        Action(Do.ADD_WARMUP, "Lengthen the warm-up."),
        Action(Do.INSPECT_LAYERS, "Check the attention logits and the query and key weight norms."),
    ),
)
def attention_entropy_collapse(case: Case) -> Evidence | None:
    """Has the attention entropy collapsed in most of the logged layers or heads?"""
    groups = norm_groups(case, "attention_entropy")
    collapsed: list[tuple[float, str, float, float]] = []
    for group in groups:
        early, last = (
            float(group.levels[:MIN_CONSECUTIVE].max()),
            float(group.levels[-MIN_CONSECUTIVE:].max()),
        )
        if early > 0 and last < case.limits.weights.entropy_fraction * early:
            collapsed.append((last / early, group.name, early, last))
    # Some heads should attend to one token, such as induction heads.
    if 2 * len(collapsed) <= len(groups):
        return None
    _, name, early, last = min(collapsed)
    return Evidence(
        because=f"The attention entropy fell in {len(collapsed)} of "
        f"{plural(len(groups), 'group')}, most in {name!r}: from {num(early)} to {num(last)}.",
        measured={"group": name, "early": early, "last": last, "groups_affected": len(collapsed)},
        first=Action(
            Do.LOWER_LR,
            f"Lower the learning rate and normalize queries and keys (QK-norm), {name!r} first.",
            also=(Do.CHANGE_MODEL,),
        ),
    )
