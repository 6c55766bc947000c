"""Layers that learn nothing: gradients that vanish by depth, and groups that stand still."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import EventCode
from stabdiag.model.text import and_more, num, plural
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import LEAST, Evidence, Symptom
from stabdiag.tree.case import Case

# Fewer numbered layers show no course from one to the next.
_MIN_LAYERS: Final = 4

# The gradient of the first layer is this fraction of the last one's where it has vanished. In
# healthy networks layers differ by about ten.
_VANISHED: Final = 1e-3

# It falls from layer to layer, apart from at most this fraction of them.
_EXCEPTIONS: Final = 0.25


def _depths(case: Case) -> list[tuple[int, str, float]]:
    """Return the numbered layers by depth: number, name, and the usual gradient norm at the end.

    Of several groups of a layer the middle one counts.
    """
    layers: dict[int, list[tuple[float, str]]] = {}
    for name, series in case.history.group("grad_norm").items():
        values = series.finite().values
        numbers = re.findall(r"\d+", name)
        if len(numbers) == 1 and len(values) >= LEAST:
            usual = median(values[-(len(values) // 4) :])
            layers.setdefault(int(numbers[0]), []).append((usual, name))
    middles = {number: sorted(groups)[len(groups) // 2] for number, groups in layers.items()}
    return [(number, name, usual) for number, (usual, name) in sorted(middles.items())]


def _few_layers(case: Case) -> str:
    count = len(_depths(case))
    if count >= _MIN_LAYERS:
        return ""
    return f"takes {LEAST} points of {_MIN_LAYERS} numbered layers each, logged of {count}"


@Symptom(
    slug="grad-vanishing-by-depth",
    severity=Severity.NOTE,
    family="gradients",
    title="Gradients vanish on the way down",
    needs=("grad_norm",),
    explained_by=("nan",),
    enough=(_few_layers,),
    then=(
        Action(Do.CHANGE_MODEL, "Replace saturating activations with GELU or leaky ReLU."),
        Action(Do.CHECK_MODEL, "Scale the initialization to the width (He, Glorot)."),
    ),
)
def grad_vanishing_by_depth(case: Case) -> Evidence | None:
    """Does the gradient norm fall from the last layer to the first, to a thousandth?"""
    layers = [layer for layer in _depths(case) if layer[2] > 0]
    if len(layers) < _MIN_LAYERS:
        return None
    norms = np.log(np.array([norm for _, _, norm in layers]))
    (_, first, low), (_, last, high) = layers[0], layers[-1]
    exceptions = np.count_nonzero(np.diff(norms) <= 0)
    if low >= _VANISHED * high or exceptions > _EXCEPTIONS * (len(layers) - 1):
        return None
    return Evidence(
        because=f"The gradient norm falls from {num(high)} in {last!r} to {num(low)} in {first!r}, "
        f"through {len(layers)} layers.",
        measured={"first": low, "last": high, "ratio": low / high, "layers": len(layers)},
        first=Action(
            Do.CHECK_MODEL,
            f"Add residual connections or normalization between {last!r} and {first!r}, and check "
            "their initialization.",
            also=(Do.CHANGE_MODEL,),
        ),
    )


def _groups_of_zeros(case: Case, role: str) -> list[str]:
    """Return the groups of a role that were logged as 0 throughout."""
    return [
        event.role.partition("/")[2]
        for event in case.history.events
        if event.code is EventCode.PLACEHOLDER_DROPPED
        and event.value == 0
        and event.role is not None
        and event.role.startswith(f"{role}/")
    ]


# What stands still in a group that is not trained: its gradient and updates at 0, its weights.
_STILL: Final = ("grad_norm", "update_ratio", "weight_norm")


def _few_groups(case: Case) -> str:
    counts = [
        sum(len(series.finite()) >= LEAST for series in case.history.group(role).values())
        for role in _STILL
    ]
    if max(counts) >= 2:
        return ""
    return f"takes {LEAST} points of 2 groups each, logged of {max(counts)}"


@Symptom(
    slug="group-frozen",
    severity=Severity.NOTE,
    confidence=Confidence.HIGH,
    family="weights",
    title="Some weights are not trained",
    needs=("grad_norm or update_ratio or weight_norm",),
    explained_by=("nan", "loss-constant", "grad-nonfinite"),
    enough=(_few_groups,),
    then=(
        Action(Do.CHECK_MODEL, "Look for a detach() or no_grad() on the way to them."),
        Action(Do.DO_NOTHING, "Leave it if they are meant to be frozen."),
    ),
)
def group_frozen(case: Case) -> Evidence | None:
    """Do the gradients of a group stay 0, or its weights unchanged, while others move?"""
    for role in _STILL:
        groups = {
            name: series.finite()
            for name, series in case.history.group(role).items()
            if name != "all" and len(series.finite()) >= LEAST
        }
        is_norm = role == "weight_norm"
        still = sorted(
            name
            for name, series in groups.items()
            if (np.ptp(series.values) == 0 if is_norm else not series.values.any())
        )
        # A series of zeros is taken for a placeholder, and is not among the groups.
        zeros = sorted(_groups_of_zeros(case, role))
        still, count = [*still, *zeros], len(groups) + len(zeros)
        if not still or len(still) == count:
            continue
        what = {"grad_norm": "gradient norm", "update_ratio": "update"}.get(role, "weight norm")
        how = "does not change at all" if is_norm else "is 0 at every record"
        return Evidence(
            because=f"The {what} of {and_more([repr(name) for name in still], 3)} {how} "
            f"({plural(len(still), 'group')} of {count}).",
            step=case.history.first_step,
            measured={"group": still[0], "groups_off": len(still), "groups": count},
            first=Action(
                Do.CHECK_MODEL,
                f"Check that {still[0]!r} has requires_grad and is in the optimizer.",
            ),
        )
    return None
