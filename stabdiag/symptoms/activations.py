"""The symptoms of activations, where they were logged: dead, saturated, or on single tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.tenths import by_tenths

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.symptoms.tenths import Group
    from stabdiag.tree.case import Case

# A group is judged by so many points at least, and by the second half of them.
_LEAST = 20
_SECOND_HALF = 5


def dead_neurons(case: Case) -> Evidence | None:
    """Are most neurons of a layer always zero?"""
    worst = _worst(case, "dead_fraction", case.limits.weights.dead_share)
    if worst is None:
        return None
    return Evidence(
        because=f"{worst.share:.0%} of the neurons of {worst.name!r} are dead ({worst.others}).",
        step=worst.step,
        measured=worst.measured,
        first=Action(
            ActionKind.CHANGE_MODEL,
            f"Replace the ReLU of {worst.name!r} by GELU or a leaky one, or lower the learning "
            "rate that killed it.",
            also=(ActionKind.LOWER_LR,),
        ),
        then=(
            Action(ActionKind.CHECK_MODEL, "Check its initialisation, and the bias before it."),
            Action(ActionKind.CHANGE_MODEL, "Normalise what goes into it."),
        ),
    )


def activation_saturated(case: Case) -> Evidence | None:
    """Are most activations of a layer at their bound?"""
    worst = _worst(case, "saturated_fraction", case.limits.weights.saturated_share)
    if worst is None:
        return None
    return Evidence(
        because=f"{worst.share:.0%} of the activations of {worst.name!r} are saturated "
        f"({worst.others}).",
        step=worst.step,
        measured=worst.measured,
        first=Action(
            ActionKind.CHANGE_MODEL,
            f"Put a normalisation layer before {worst.name!r}, or scale its initialisation down.",
        ),
        then=(
            Action(ActionKind.CHANGE_MODEL, "Replace tanh or sigmoid by GELU."),
            Action(
                ActionKind.LOWER_LR,
                "Lower the learning rate; look whether the weight norm before it runs away.",
            ),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The group whose share is highest, of so many groups of so many whose share is too high."""

    name: str
    share: float
    step: int
    off: int
    groups: int

    @property
    def others(self) -> str:
        """How many groups are off."""
        return f"{plural(self.off, 'group')} of {self.groups} above the limit"

    @property
    def measured(self) -> dict[str, float | str]:
        """The numbers by name."""
        return {
            "group": self.name,
            "share": self.share,
            "groups_off": self.off,
            "groups": self.groups,
        }


def _worst(case: Case, role: str, limit: float) -> Worst | None:
    """Return the group whose share stays highest over the second half of the run, if too high."""
    groups = by_tenths(case, role, _LEAST)
    # Shares may have been logged in per cent.
    scale = 100.0 if any(_late(group).max() > 1 for group in groups) else 1.0
    high = [group for group in groups if _late(group).min() / scale > limit]
    if not high:
        return None
    most = max(high, key=lambda group: (float(group.levels[-1]), group.name))
    return Worst(
        name=most.name,
        share=float(most.levels[-1]) / scale,
        step=most.step(_SECOND_HALF),
        off=len(high),
        groups=len(groups),
    )


def _late(group: Group) -> Floats:
    return group.levels[_SECOND_HALF:]


def attention_entropy_collapse(case: Case) -> Evidence | None:
    """Has the entropy of attention collapsed in most places where it is logged?"""
    groups = by_tenths(case, "attention_entropy", _LEAST)
    collapsed: list[tuple[float, str, float, float]] = []
    for group in groups:
        early, last = float(group.levels[:3].max()), float(group.levels[-3:].max())
        if early > 0 and last < case.limits.weights.entropy_share * early:
            collapsed.append((last / early, group.name, early, last))
    # A head that looks at one token may do so by right, as induction heads do.
    if 2 * len(collapsed) <= len(groups):
        return None
    _, name, early, last = min(collapsed)
    return Evidence(
        because=f"The entropy of attention fell in {len(collapsed)} of "
        f"{plural(len(groups), 'group')}, most in {name!r}: from {num(early)} to {num(last)}.",
        measured={"group": name, "early": early, "last": last, "groups_off": len(collapsed)},
        first=Action(
            ActionKind.LOWER_LR,
            f"Lower the learning rate and normalise queries and keys (QK-norm), {name!r} first.",
            also=(ActionKind.CHANGE_MODEL,),
        ),
        then=(
            Action(ActionKind.ADD_WARMUP, "Lengthen the warm-up."),
            Action(
                ActionKind.INSPECT_LAYERS,
                "Look at the largest attention logits and at the norms of the query and key "
                "weights.",
            ),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="dead-neurons",
        severity=Severity.WARNING,
        family="weights",
        title="Dead neurons",
        check=dead_neurons,
        needs=("dead_fraction",),
        limits=("weights.dead_share",),
        enough=(at_least(_LEAST, "dead_fraction", groups=True),),
    ),
    Symptom(
        slug="activation-saturated",
        severity=Severity.WARNING,
        family="weights",
        title="Saturated activations",
        check=activation_saturated,
        needs=("saturated_fraction",),
        limits=("weights.saturated_share",),
        enough=(at_least(_LEAST, "saturated_fraction", groups=True),),
    ),
    Symptom(
        slug="attention-entropy-collapse",
        severity=Severity.WARNING,
        family="weights",
        title="Attention has collapsed onto single tokens",
        check=attention_entropy_collapse,
        needs=("attention_entropy",),
        limits=("weights.entropy_share",),
        enough=(at_least(_LEAST, "attention_entropy", groups=True),),
    ),
)
