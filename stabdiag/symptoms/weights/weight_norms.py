"""Weight norms that run away or shrink, and updates out of proportion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.ranges import ADAMW_DECAY
from stabdiag.model.text import num, plural, sentence, times
from stabdiag.stats.course import keeps_growing, measure_course, start_level
from stabdiag.stats.quantiles import power_of_ten
from stabdiag.stats.rise import ONSET_FRACTION
from stabdiag.stats.standards import (
    HALF,
    LEAST,
    NEGLIGIBLE,
    TENFOLD,
    TENTHS,
    TINY,
)
from stabdiag.symptoms.learning.causes import loss_changes
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.weights.groups import SECOND_HALF, NormGroup, norm_groups
from stabdiag.tree.advice.shared import less_decay, more_decay, usual_decay
from stabdiag.tree.case import Case
from stabdiag.tree.progress import find_progress, learns_clearly

# A healthy update is about a thousandth of the weights.
_USUAL_UPDATE = 1e-3

# A norm below half of its first value has done more than settle.
_MIN_KEPT = HALF


def _ratios_of_norms(case: Case) -> list[NormGroup]:
    """Return the norms of updates relative to the norms of the same weights, for long series.

    A norm above the weights' norm, or equal to the gradient's, does not include the learning rate.
    """
    groups = []
    weights, gradients = case.history.group("weight_norm"), case.history.group("grad_norm")
    for name, norms in case.history.group("update_norm").items():
        if name not in weights:
            continue
        update, weight = norms.finite(), weights[name].finite()
        steps, at, of_weights = np.intersect1d(update.steps, weight.steps, return_indices=True)
        sizes = weight.values[of_weights]
        if len(steps) < LEAST or sizes.min() <= 0:
            continue
        ratios = update.values[at] / sizes
        points = replace(update, steps=steps, values=ratios)
        gradient = gradients.get(name)
        is_gradient = gradient is not None and np.array_equal(gradient.values, norms.values)
        if ratios.max() <= 1 and not is_gradient:
            course = measure_course(ratios, TENTHS)
            groups.append(NormGroup(name=name, points=points, course=course))
    return groups


@Symptom(
    slug="weight-norm-runaway",
    title="A weight norm keeps growing",
    needs=("weight_norm",),
    explained_by=("divergence-weight-norm-climbing",),
    preconditions=(at_least(LEAST, "weight_norm", groups=True),),
    next_actions=(
        Action(
            Do.CHANGE_MODEL,
            "Check the logits: a saturating softmax keeps pushing them up; a z-loss or a cap "
            "stops that.",
        ),
        Action(Do.LOWER_LR, "Lower the learning rate."),
    ),
)
def weight_norm_runaway(case: Case) -> Evidence | None:
    """Does a weight norm keep growing?"""
    group = _farthest(case, growing=True)
    limit = case.limits.weights.norm_growth
    if group is None:
        return None
    begin, last = start_level(group.points.values), float(group.levels[-1])
    # Some weights begin at zero, as in an adapter.
    since_start = last / begin if begin > 0 else 0.0
    if _ratio(group) <= limit and (since_start <= limit or _ratio(group) <= limit**0.5):
        return None
    decay = more_decay(case, group.name)
    first = Action(decay.kind, sentence(str(decay)), **decay.change)
    evidence = _evidence(case, group, "growing", first)
    if _ratio(group) > limit:
        return evidence
    # Much of the growth in the first tenth may be the normal change from the initialization.
    return replace(
        evidence,
        because=f"The weight norm of {group.name!r} went from {num(begin)} at the beginning to "
        f"{num(last)} ({times(last / begin)}) and was still growing at the end.",
        step=int(group.points.steps[0]),
        measured={"group": group.name, "first": begin, "last": last, "ratio": last / begin},
        severity=Severity.NOTE,
    )


@Symptom(
    slug="weight-norm-shrinking",
    title="A weight norm is shrinking towards zero",
    needs=("weight_norm",),
    explained_by=("divergence-weight-norm-collapsing",),
    preconditions=(at_least(LEAST, "weight_norm", groups=True),),
    next_actions=(
        Action(Do.FIX_WEIGHT_DECAY, "Exclude biases and normalization layers from weight decay."),
        Action(Do.FIX_WEIGHT_DECAY, "Check that decay is not applied by both optimizer and loss."),
    ),
)
def weight_norm_shrinking(case: Case) -> Evidence | None:
    """Does a weight norm shrink towards zero?"""
    group = _farthest(case, growing=False)
    if group is None or _ratio(group) >= case.limits.weights.norm_loss:
        return _pulled_down(case)
    decay = less_decay(case)
    text = sentence(f"{decay}; {group.name!r} is shrinking towards zero")
    return _evidence(case, group, "shrinking", Action(decay.kind, text, **decay.change))


def _pulled_down(case: Case) -> Evidence | None:
    """Report a norm far below its first value, or less far under a high weight decay."""
    decay = case.manifest.weight_decay
    highest, usual_range = usual_decay(case)
    groups = [group for group in norm_groups(case, "weight_norm") if group.points.values[0] > 0]
    if not groups:
        return None
    group = min(groups, key=lambda group: float(group.levels.min() / group.points.values[0]))
    first, last = float(group.points.values[0]), float(group.levels.min())
    is_high = decay is not None and decay > highest
    if last >= (_MIN_KEPT if is_high else NEGLIGIBLE) * first:
        return None
    # A large initialization may settle while the model learns.
    if not is_high and learns_clearly(case, find_progress(case)):
        return None
    fix = less_decay(case)
    first_action = Action(fix.kind, sentence(str(fix)), checkpoint=0, **fix.change)
    if decay is None:
        first_action = Action(
            fix.kind,
            f"Find the weight decay, which was not logged: above "
            f"{num(case.limits.preflight.decay_high)}, weights shrink to nothing. Use "
            f"{num(ADAMW_DECAY)}, AdamW's default.",
            setting="weight_decay",
            to=ADAMW_DECAY,
            checkpoint=0,
        )
    under = f" under a weight decay of {num(decay)}; {usual_range}" if decay and is_high else ""
    return Evidence(
        because=f"The weight norm of {group.name!r} went from {num(first)} to {num(last)}{under}.",
        step=int(group.points.steps[0]),
        measured={"group": group.name, "first": first, "last": last, "ratio": last / first},
        first=first_action,
    )


def _farthest(case: Case, *, growing: bool) -> NormGroup | None:
    """Return the group whose norm changed most since the run's first tenth and still changes.

    In the first tenth, norms move away from their initialization.
    """
    changing = [
        group
        for group in norm_groups(case, "weight_norm")
        if min(group.levels[1], group.levels[-1]) > 0
        and _keeps_changing(group.levels, growing=growing)
    ]
    return max(changing, key=lambda group: abs(np.log(_ratio(group))), default=None)


def _keeps_changing(norm: Floats, *, growing: bool) -> bool:
    # A decay by a constant fraction per step is linear in the logarithm.
    return keeps_growing(norm if growing else -np.log(np.maximum(norm, TINY)))


def _ratio(group: NormGroup, since: int = 1) -> float:
    return float(group.levels[-1] / group.levels[since])


def _evidence(case: Case, group: NormGroup, trend: str, first: Action) -> Evidence:
    """Return the evidence for a norm that is still growing or shrinking at the end."""
    norms = np.maximum(group.levels[1:], TINY)
    done = np.log(norms / norms[0]) / np.log(_ratio(group))
    begun = int(np.flatnonzero(done <= ONSET_FRACTION)[-1]) + 1
    begin, last, ratio = float(group.levels[begun]), float(group.levels[-1]), _ratio(group, begun)
    return Evidence(
        because=f"The weight norm of {group.name!r} went from {num(begin)} at {case.unit} "
        f"{group.step(begun)} to {num(last)} ({times(ratio)}; medians over a tenth of the run) and "
        f"was still {trend} at the end.",
        step=group.step(begun),
        measured={"group": group.name, "first": begin, "last": last, "ratio": ratio},
        first=first,
    )


@Symptom(
    slug="update-ratio-off",
    title="Updates are out of proportion to the weights",
    needs=("update_ratio or update_norm",),
    preconditions=(at_least(LEAST, "update_ratio", "update_norm", groups=True),),
    next_actions=(
        Action(Do.CHECK_MODEL, "Check the initialization: weights near zero inflate the ratio."),
        Action(Do.RAISE_CLIP, "Check that clipping does not remove most of the gradient."),
    ),
)
def update_ratio_off(case: Case) -> Evidence | None:
    """Are updates far too large or too small for the weights that they change?"""
    limits = case.limits.weights
    groups = norm_groups(case, "update_ratio") or _ratios_of_norms(case)
    off: list[tuple[float, str, float, int]] = []
    for group in groups:
        # Some logs contain the base-10 logarithm.
        every = power_of_ten(group.levels) if group.levels[SECOND_HALF:].max() < 0 else group.levels
        ratios, ratio = every[SECOND_HALF:], float(every[-1])
        high, low = ratios.min() > limits.update_high, ratios.max() < limits.update_low
        if low and group.name == "all":
            # Constant weights do not change the loss: if it changes, the series is a different
            # ratio.
            small = int(np.flatnonzero(np.append(1.0, every) >= limits.update_low)[-1])
            low = not loss_changes(case, group.step(small))
        if ratio > 0 and (high or low):
            distance = abs(float(np.log(ratio / _USUAL_UPDATE)))
            off.append((distance, group.name, ratio, group.step(SECOND_HALF)))
    if not off:
        return None
    _, name, ratio, step = max(off)
    large = ratio > limits.update_high
    # The rate does not explain a ratio that is off by thousands.
    factor = num(min(ratio / _USUAL_UPDATE if large else _USUAL_UPDATE / ratio, TENFOLD))
    kind, verb = (Do.LOWER_LR, "Lower") if large else (Do.RAISE_LR, "Raise")
    return Evidence(
        because=f"Updates of {name!r} are {num(ratio)} of its weights; about "
        f"{num(_USUAL_UPDATE)} is usual ({plural(len(off), 'group')} of {len(groups)} off).",
        step=step,
        # The norm of an update may have been logged before the learning rate was applied.
        severity=None if case.history.has("update_ratio") else Severity.NOTE,
        measured={
            "group": name,
            "ratio": ratio,
            "groups_affected": len(off),
            "groups": len(groups),
        },
        first=Action(
            kind,
            f"{verb} the learning rate of {name!r} by up to {factor} times, and measure again.",
            setting="lr",
        ),
    )
