"""The symptoms of weights: norms that run away or shrink, updates out of proportion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural, sentence, times
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.tenths import by_tenths
from stabdiag.tree.advice.shared import less_decay, more_decay

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.symptoms.tenths import Group
    from stabdiag.tree.case import Case

# A group is judged by so many points at least: with three in each tenth, a single one that blew up
# is no level.
_LEAST = 30

# What changes by so much of all its change in the last three of nine tenths has not settled: one
# third is a straight line, a random walk slows down below it.
_GOES_ON = 1 / 3

# Of these three the last has at least this share: a norm that jumped and then stood has settled.
_LAST = 1 / 9

# A norm has begun to change in the last tenth by which it had made no more than this share.
_BEGUN = 0.1

# The update ratio that is usual, and the tenth from which on a group has settled.
_USUAL_UPDATE = 1e-3
_SETTLED = 5


def weight_norm_runaway(case: Case) -> Evidence | None:
    """Does a weight norm grow, and go on growing?"""
    group = _farthest(case, growing=True)
    if group is None or _ratio(group) <= case.limits.weights.norm_growth:
        return None
    decay = more_decay(case, group.name)
    return _evidence(
        group,
        "growing",
        first=Action(decay.kind, sentence(str(decay)), **decay.change),
        then=(
            Action(
                ActionKind.CHANGE_MODEL,
                "Look at the logits: a softmax that saturates pushes them on without end; a "
                "z-loss or a cap on them stops it.",
            ),
            Action(ActionKind.LOWER_LR, "Lower the learning rate."),
        ),
    )


def weight_norm_shrinking(case: Case) -> Evidence | None:
    """Does a weight norm shrink towards zero?"""
    group = _farthest(case, growing=False)
    if group is None or _ratio(group) >= case.limits.weights.norm_loss:
        return None
    decay = less_decay(case)
    return _evidence(
        group,
        "shrinking",
        first=Action(
            decay.kind,
            sentence(f"{decay}; {group.name!r} is on its way to zero"),
            **decay.change,
        ),
        then=(
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                "Exclude biases and normalisation layers from weight decay.",
            ),
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                "Check that decay is not applied twice, by the optimizer and as a loss.",
            ),
        ),
    )


def _farthest(case: Case, *, growing: bool) -> Group | None:
    """Return the group whose norm changed most since the run's first tenth, and goes on changing.

    The first tenth is the way from the initialisation.
    """
    changing = [
        group
        for group in by_tenths(case, "weight_norm", _LEAST)
        if min(group.levels[1], group.levels[-1]) > 0 and _goes_on(group.levels, growing=growing)
    ]
    return max(changing, key=lambda group: abs(np.log(_ratio(group))), default=None)


def _goes_on(norm: Floats, *, growing: bool) -> bool:
    # A decay by the same share a step is a straight line of the logarithm.
    scaled = norm if growing else -np.log(np.maximum(norm, 1e-300))
    late, last = scaled[-1] - scaled[-4], scaled[-1] - scaled[-2]
    return bool(late >= max(_GOES_ON * (scaled[-1] - scaled[1]), 0.0) and last >= _LAST * late)


def _ratio(group: Group, since: int = 1) -> float:
    return float(group.levels[-1] / group.levels[since])


def _begun(group: Group) -> int:
    """Return the tenth in which a norm began to change: the last in which it hardly had."""
    levels = np.maximum(group.levels[1:], 1e-300)
    done = np.log(levels / levels[0]) / np.log(_ratio(group))
    return int(np.flatnonzero(done <= _BEGUN)[-1]) + 1


def _evidence(group: Group, doing: str, *, first: Action, then: tuple[Action, ...]) -> Evidence:
    """Return what speaks for a norm that still does something at the end: growing, shrinking."""
    begun = _begun(group)
    begin, last, ratio = float(group.levels[begun]), float(group.levels[-1]), _ratio(group, begun)
    return Evidence(
        because=f"The weight norm of {group.name!r} went from {num(begin)}, from step "
        f"{group.step(begun)} on, to {num(last)} ({times(ratio)}; medians of a tenth of the run), "
        f"and was still {doing} at the end.",
        step=group.step(begun),
        measured={"group": group.name, "first": begin, "last": last, "ratio": ratio},
        first=first,
        then=then,
    )


def update_ratio_off(case: Case) -> Evidence | None:
    """Are updates far too large or too small for the weights that they change?"""
    limits = case.limits.weights
    groups = by_tenths(case, "update_ratio", _LEAST)
    off: list[tuple[float, str, float, int]] = []
    for group in groups:
        settled = group.levels[_SETTLED:]
        # Some log the power of ten.
        ratios = 10.0**settled if settled.max() < 0 else settled
        ratio = float(ratios[-1])
        high, low = ratios.min() > limits.update_high, ratios.max() < limits.update_low
        if ratio > 0 and (high or low):
            away = abs(float(np.log(ratio / _USUAL_UPDATE)))
            off.append((away, group.name, ratio, group.step(_SETTLED)))
    if not off:
        return None
    _, name, ratio, step = max(off)
    large = ratio > limits.update_high
    factor = num(ratio / _USUAL_UPDATE if large else _USUAL_UPDATE / ratio)
    kind, verb = (ActionKind.LOWER_LR, "Lower") if large else (ActionKind.RAISE_LR, "Raise")
    return Evidence(
        because=f"Updates of {name!r} are {num(ratio)} of its weights, where about "
        f"{num(_USUAL_UPDATE)} is usual ({plural(len(off), 'group')} of {len(groups)} off).",
        step=step,
        measured={"group": name, "ratio": ratio, "groups_off": len(off), "groups": len(groups)},
        first=Action(
            kind, f"{verb} the learning rate of {name!r}, by up to {factor} times.", setting="lr"
        ),
        then=(
            Action(
                ActionKind.CHECK_MODEL,
                "Check the initialisation: weights that begin near zero make every update large.",
            ),
            Action(
                ActionKind.RAISE_CLIP,
                "Check that gradient clipping does not take most of the gradient.",
            ),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="weight-norm-runaway",
        severity=Severity.WARNING,
        family="weights",
        title="A weight norm keeps growing",
        check=weight_norm_runaway,
        needs=("weight_norm",),
        limits=("weights.norm_growth",),
        explained_by=("divergence-weight-norm-climbing",),
        enough=(at_least(_LEAST, "weight_norm", groups=True),),
    ),
    Symptom(
        slug="weight-norm-shrinking",
        severity=Severity.WARNING,
        family="weights",
        title="A weight norm is shrinking towards zero",
        check=weight_norm_shrinking,
        needs=("weight_norm",),
        limits=("weights.norm_loss",),
        explained_by=("divergence-weight-norm-collapsing",),
        enough=(at_least(_LEAST, "weight_norm", groups=True),),
    ),
    Symptom(
        slug="update-ratio-off",
        severity=Severity.WARNING,
        family="weights",
        title="Updates are out of proportion to the weights",
        check=update_ratio_off,
        needs=("update_ratio",),
        limits=("weights.update_high", "weights.update_low"),
        enough=(at_least(_LEAST, "update_ratio", groups=True),),
    ),
)
