"""The symptoms of weights and activations, where they were logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.levels import levels
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.history import Series
    from stabdiag.tree.case import Case

    Floats = NDArray[np.float64]

# The level is a median over a tenth of the run, and a run has at least so many points.
_TENTHS = 10
_LEAST = 20

# What changes by so much of all its change in the last three of nine tenths has not settled: one
# third is a straight line, a random walk slows down below it.
_GOES_ON = 1 / 3


def weight_norm_runaway(case: Case) -> Evidence | None:
    """Does a weight norm grow, and go on growing?"""
    found = _farthest(case, growing=True)
    if found is None or found[1] <= case.limits.weights.norm_growth:
        return None
    name, ratio, first, last, step = found
    decay = case.manifest.weight_decay
    now = "" if decay is None else f" (now {num(decay)})"
    return Evidence(
        because=f"The weight norm of {name!r} went from {num(first)} at step {step} to "
        f"{num(last)}, {num(ratio)} x, and was still growing at the end.",
        step=step,
        measured={"group": name, "first": first, "last": last, "ratio": ratio},
        first=f"Double the weight decay{now}, or check that it applies to {name!r} at all.",
        then=(
            "Look at the logits: a softmax that saturates pushes them on without end; a z-loss or "
            "a cap on them stops it.",
            "Lower the learning rate.",
        ),
    )


def weight_norm_shrinking(case: Case) -> Evidence | None:
    """Does a weight norm shrink towards zero?"""
    found = _farthest(case, growing=False)
    if found is None or found[1] >= case.limits.weights.norm_loss:
        return None
    name, ratio, first, last, step = found
    decay = case.manifest.weight_decay
    now = "" if decay is None else f" (now {num(decay)})"
    return Evidence(
        because=f"The weight norm of {name!r} went from {num(first)} at step {step} to "
        f"{num(last)}, {num(ratio)} x, and was still shrinking at the end.",
        step=step,
        measured={"group": name, "first": first, "last": last, "ratio": ratio},
        first=f"Halve the weight decay{now}: {name!r} is on its way to zero.",
        then=(
            "Exclude biases and normalisation layers from weight decay.",
            "Check that decay is not applied twice, by the optimizer and as a loss.",
        ),
    )


def _farthest(case: Case, *, growing: bool) -> tuple[str, float, float, float, int] | None:
    """Return the group whose norm changed most since the run's first tenth, and goes on changing.

    As its name, the factor, both norms and the first one's step.
    """
    best: tuple[str, float, float, float, int] | None = None
    for name, series in case.history.group("weight_norm").items():
        finite = series.finite()
        if len(finite) < _LEAST:
            continue
        norm = levels(finite.values, _TENTHS)
        # The first tenth is the way from the initialisation.
        first, last = float(norm[1]), float(norm[-1])
        if first <= 0 or last <= 0:
            continue
        # A decay by the same share a step is a straight line of the logarithm.
        scaled = norm if growing else -np.log(np.maximum(norm, 1e-300))
        if scaled[-1] - scaled[-4] < max(_GOES_ON * (scaled[-1] - scaled[1]), 0.0):
            continue
        ratio = last / first
        if best is None or abs(np.log(ratio)) > abs(np.log(best[1])):
            step = int(finite.steps[len(finite) // _TENTHS])
            best = (name, ratio, first, last, step)
    return best


def update_ratio_off(case: Case) -> Evidence | None:
    """Are updates far too large or too small for the weights that they change?"""
    limits = case.limits.weights
    off: list[tuple[float, str, float, int]] = []
    groups = _settled(case, "update_ratio")
    for name, values, step in groups:
        # Some log the power of ten.
        ratios = 10.0**values if values.max() < 0 else values
        ratio = float(ratios[-1])
        high, low = ratios.min() > limits.update_high, ratios.max() < limits.update_low
        if ratio > 0 and (high or low):
            off.append((abs(float(np.log(ratio / 1e-3))), name, ratio, step))
    if not off:
        return None
    _, name, ratio, step = max(off)
    large = ratio > limits.update_high
    factor = num(ratio / 1e-3 if large else 1e-3 / ratio)
    verb = "Lower" if large else "Raise"
    return Evidence(
        because=f"Updates of {name!r} are {num(ratio)} of its weights, where about 0.001 is usual "
        f"({plural(len(off), 'group')} of {len(groups)} off).",
        step=step,
        measured={"group": name, "ratio": ratio, "groups_off": len(off), "groups": len(groups)},
        first=f"{verb} the learning rate of {name!r}, by up to {factor} times.",
        then=(
            "Check the initialisation: weights that begin near zero make every update large.",
            "Check that gradient clipping does not take most of the gradient.",
        ),
    )


def dead_neurons(case: Case) -> Evidence | None:
    """Are most neurons of a layer always zero?"""
    found = _share(case, "dead_fraction", case.limits.weights.dead_share)
    if found is None:
        return None
    name, share, step, count, groups = found
    return Evidence(
        because=f"{share:.0%} of the neurons of {name!r} are dead "
        f"({plural(count, 'group')} of {groups} above the limit).",
        step=step,
        measured={"group": name, "share": share, "groups_off": count, "groups": groups},
        first=f"Replace the ReLU of {name!r} by GELU or a leaky one, or lower the learning rate "
        "that killed it.",
        then=(
            "Check its initialisation, and the bias before it.",
            "Normalise what goes into it.",
        ),
    )


def activation_saturated(case: Case) -> Evidence | None:
    """Are most activations of a layer at their bound?"""
    found = _share(case, "saturated_fraction", case.limits.weights.saturated_share)
    if found is None:
        return None
    name, share, step, count, groups = found
    return Evidence(
        because=f"{share:.0%} of the activations of {name!r} are saturated "
        f"({plural(count, 'group')} of {groups} above the limit).",
        step=step,
        measured={"group": name, "share": share, "groups_off": count, "groups": groups},
        first=f"Put a normalisation layer before {name!r}, or scale its initialisation down.",
        then=(
            "Replace tanh or sigmoid by GELU.",
            "Lower the learning rate; look whether the weight norm before it runs away.",
        ),
    )


def attention_entropy_collapse(case: Case) -> Evidence | None:
    """Has the entropy of attention collapsed in most places where it is logged?"""
    groups = _settled(case, "attention_entropy", settled=0)
    collapsed: list[tuple[float, str, float, float]] = []
    for name, values, _ in groups:
        early, last = float(values[:3].max()), float(values[-3:].max())
        if early > 0 and last < case.limits.weights.entropy_share * early:
            collapsed.append((last / early, name, early, last))
    # A head that looks at one token may do so by right, as induction heads do.
    if not groups or 2 * len(collapsed) <= len(groups):
        return None
    _, name, early, last = min(collapsed)
    return Evidence(
        because=f"The entropy of attention fell in {len(collapsed)} of "
        f"{plural(len(groups), 'group')}, most in {name!r}: from {num(early)} to {num(last)}.",
        measured={"group": name, "early": early, "last": last, "groups_off": len(collapsed)},
        first=f"Lower the learning rate and normalise queries and keys (QK-norm), {name!r} first.",
        then=(
            "Lengthen the warm-up.",
            "Look at the largest attention logits and at the norms of the query and key weights.",
        ),
    )


def _settled(case: Case, role: str, settled: int = 5) -> list[tuple[str, Floats, int]]:
    """Return each group's levels by tenths of the run, from one of them on, and its step."""
    found = []
    for name, series in case.history.group(role).items():
        finite: Series = series.finite()
        if len(finite) >= _LEAST:
            step = int(finite.steps[settled * len(finite) // _TENTHS])
            found.append((name, levels(finite.values, _TENTHS)[settled:], step))
    return found


def _share(case: Case, role: str, limit: float) -> tuple[str, float, int, int, int] | None:
    """Return the group whose share stays highest over the second half of the run, if too high.

    As its name, its share, the step of the half, and how many groups of how many are too high.
    """
    groups = _settled(case, role)
    # Shares may have been logged in per cent.
    scale = 100.0 if any(values.max() > 1 for _, values, _ in groups) else 1.0
    high = [
        (float(values[-1]) / scale, name, step)
        for name, values, step in groups
        if values.min() / scale > limit
    ]
    if not high:
        return None
    share, name, step = max(high)
    return name, share, step, len(high), len(groups)


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="weight-norm-runaway",
        severity=Severity.WARNING,
        family="weights",
        title="A weight norm that grows without end",
        check=weight_norm_runaway,
        needs=("weight_norm",),
        limits=("weights.norm_growth",),
        explained_by=("divergence-weight-norm-climbing",),
    ),
    Symptom(
        slug="weight-norm-shrinking",
        severity=Severity.WARNING,
        family="weights",
        title="A weight norm that shrinks towards zero",
        check=weight_norm_shrinking,
        needs=("weight_norm",),
        limits=("weights.norm_loss",),
        explained_by=("divergence-weight-norm-collapsing",),
    ),
    Symptom(
        slug="update-ratio-off",
        severity=Severity.WARNING,
        family="weights",
        title="Updates out of proportion to the weights",
        check=update_ratio_off,
        needs=("update_ratio",),
        limits=("weights.update_high", "weights.update_low"),
    ),
    Symptom(
        slug="dead-neurons",
        severity=Severity.WARNING,
        family="weights",
        title="Dead neurons",
        check=dead_neurons,
        needs=("dead_fraction",),
        limits=("weights.dead_share",),
    ),
    Symptom(
        slug="activation-saturated",
        severity=Severity.WARNING,
        family="weights",
        title="Saturated activations",
        check=activation_saturated,
        needs=("saturated_fraction",),
        limits=("weights.saturated_share",),
    ),
    Symptom(
        slug="attention-entropy-collapse",
        severity=Severity.WARNING,
        family="weights",
        title="Attention that has collapsed on single tokens",
        check=attention_entropy_collapse,
        needs=("attention_entropy",),
        limits=("weights.entropy_share",),
    ),
)
