"""Layers that learn nothing: gradients that vanish with depth, and groups that do not change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.events import EventCode
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num, plural
from stabdiag.stats.course import end_level
from stabdiag.stats.quantiles import is_constant
from stabdiag.stats.standards import LEAST, MIN_COMPARED, QUARTER
from stabdiag.symptoms.recorded.facts import quoted
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case

# Fewer numbered layers do not show a trend over depth.
_MIN_LAYERS: Final = MIN_COMPARED

# The gradient falls from layer to layer, with at most this fraction of exceptions.
_EXCEPTIONS: Final = QUARTER


def _groups(case: Case) -> Iterator[tuple[int, str, Floats]]:
    """Yield the gradient norms of each group with one number in its name: number, name, values."""
    for name, series in case.history.group("grad_norm").items():
        numbers = re.findall(r"\d+", name)
        if len(numbers) == 1:
            values = series.finite().values
            if len(values) >= LEAST:
                yield int(numbers[0]), name, values


def _depths(case: Case) -> list[tuple[int, str, float]]:
    """Return the numbered layers by depth: number, name, and the usual gradient norm at the end.

    If a layer has several groups, the middle one is used.
    """
    layers: dict[int, list[tuple[float, str]]] = {}
    for number, name, values in _groups(case):
        usual = end_level(values)
        layers.setdefault(number, []).append((usual, name))
    middles = {number: sorted(groups)[len(groups) // 2] for number, groups in layers.items()}
    return [(number, name, usual) for number, (usual, name) in sorted(middles.items())]


def _few_layers(case: Case) -> str:
    count = len({number for number, *_ in _groups(case)})
    if count >= _MIN_LAYERS:
        return ""
    return f"needs {LEAST} points for each of {_MIN_LAYERS} numbered layers; logged for {count}"


@Symptom(
    slug="grad-vanishing-by-depth",
    severity=Severity.NOTE,
    title="Gradients vanish on the way down",
    needs=("grad_norm",),
    explained_by=("nan",),
    preconditions=(_few_layers,),
    next_actions=(
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
    if low >= case.limits.gradients.depth_ratio * high or exceptions > _EXCEPTIONS * (
        len(layers) - 1
    ):
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
    """Return the groups of a role that are 0 in every record."""
    return [
        event.role.partition("/")[2]
        for event in case.history.events
        if event.code is EventCode.PLACEHOLDER_DROPPED
        and event.value == 0
        and event.role is not None
        and event.role.startswith(f"{role}/")
    ]


# In a group that is not trained, gradients and updates are 0 and the weight norm is constant.
_CONSTANT_ROLES: Final = ("grad_norm", "update_ratio", "weight_norm")


def _few_groups(case: Case) -> str:
    counts = [
        sum(len(series.finite()) >= LEAST for series in case.history.group(role).values())
        for role in _CONSTANT_ROLES
    ]
    if max(counts) >= 2:
        return ""
    return f"needs {LEAST} points for each of 2 groups; logged for {max(counts)}"


@Symptom(
    slug="group-frozen",
    severity=Severity.NOTE,
    confidence=Confidence.HIGH,
    title="Some weights are not trained",
    needs=("grad_norm or update_ratio or weight_norm",),
    explained_by=("nan", "loss-constant", "grad-nonfinite"),
    preconditions=(_few_groups,),
    next_actions=(
        Action(Do.CHECK_MODEL, "Look for a detach() or no_grad() between them and the loss."),
        Action(Do.DO_NOTHING, "Do nothing if they are frozen on purpose."),
    ),
)
def group_frozen(case: Case) -> Evidence | None:
    """Do the gradients of a group stay 0, or its weights unchanged, while others change?"""
    for role in _CONSTANT_ROLES:
        groups = {
            name: series.finite()
            for name, series in case.history.group(role).items()
            if name != "all" and len(series.finite()) >= LEAST
        }
        is_norm = role == "weight_norm"
        frozen = sorted(
            name
            for name, series in groups.items()
            if (is_constant(series.values) if is_norm else not series.values.any())
        )
        # A series of zeros is taken for a placeholder, so it is not among the groups.
        zeros = sorted(_groups_of_zeros(case, role))
        frozen, count = [*frozen, *zeros], len(groups) + len(zeros)
        if not frozen or len(frozen) == count:
            continue
        noun = {"grad_norm": "gradient norm", "update_ratio": "update"}.get(role, "weight norm")
        verb = "does not change at all" if is_norm else "is 0 at every record"
        return Evidence(
            because=f"The {noun} of {quoted(frozen)} {verb} "
            f"({plural(len(frozen), 'group')} of {count}).",
            step=case.history.first_step,
            measured={"group": frozen[0], "groups_affected": len(frozen), "groups": count},
            first=Action(
                Do.CHECK_MODEL,
                f"Check that {frozen[0]!r} has requires_grad and is in the optimizer.",
            ),
        )
    return None
