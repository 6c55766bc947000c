"""The symptoms of gradients: norms that are not finite, too large, too small, or cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.symptoms.weights import weight_norm_shrinking
from stabdiag.tree.advice.words import clip
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.arrays import Floats
    from stabdiag.history import Series
    from stabdiag.tree.case import Case

# A level is a median over one of so many stretches; the end is a median of so many points.
_STRETCHES = 20
_END = 8
_LEAST = 100

# The end of a loss is the median of few: so many times what one level differs from the next by.
_USUAL = 5.0

# Most of the loss is left if it still has this share of its first level.
_LEFT = 0.8


def grad_nonfinite(case: Case) -> Evidence | None:
    """Is a gradient norm NaN or infinite beside a finite loss, where §3 does not look?"""
    norm, loss = case.history.get("grad_norm"), case.loss
    reduced = case.manifest.dtype in ("fp16", "bf16") or case.history.get("loss_scale") is not None
    if norm is None or reduced:
        return None
    bad = ~np.isfinite(norm.values)
    # So few points of a run whose dtype is not known may be means over epochs, overflows among
    # them: unless they are the last ones.
    if case.manifest.dtype is None and len(norm) < _LEAST and not bad[-2:].all():
        return None
    # Before the first update there is nothing to measure.
    bad[:1] = False
    steps = norm.steps[bad]
    steps = steps[np.isin(steps, loss.steps)]
    if not len(steps):
        return None
    first, dtype = int(steps[0]), case.manifest.dtype
    where = (
        f"in {dtype}: no loss scaler is there to absorb it"
        if dtype
        else "in a dtype that is not known: in fp16 a loss scaler skips such steps, elsewhere "
        "nothing does"
    )
    return Evidence(
        because=f"The gradient norm is not finite at {plural(len(steps), 'step')} of {len(norm)} "
        f"while the loss is finite, {where}.",
        step=first,
        measured={"steps": len(steps), "of": len(norm)},
        first=f"Step through the batch of step {first} with torch.autograd.set_detect_anomaly(True)"
        " to find the operation whose gradient is not finite.",
        then=(
            "Look for the square root or the norm of a zero, a division, or a log in the loss: "
            "finite values there can have infinite gradients.",
            "Skip the update when the norm is not finite, and save the batch.",
            "Clip gradients by value before clipping them by norm.",
        ),
    )


def grad_exploding(case: Case) -> Evidence | None:
    """Does the gradient norm end orders of magnitude above its level, while nothing is learned?"""
    norm = finite_norm(case)
    if norm is None or len(case.loss) < _END:
        return None
    reached = levels(norm.values, _STRETCHES)
    lowest, last = float(reached.min()), median(norm.values[-_END:])
    ratio, limit = last / lowest if lowest > 0 else 0.0, case.limits.gradients.explode_ratio
    if ratio <= limit:
        return None
    small = np.flatnonzero(norm.values <= 10 * lowest)
    began = int(norm.steps[min(int(small[-1]) + 1, len(norm) - 1)])
    if _got_worse(case):
        outcome = "and the loss got worse"
    # At a loss that has converged, gradients may grow from next to nothing.
    elif last > limit * _early(reached) and _stands_still(case, began):
        outcome = "and the loss has not fallen since"
    else:
        return None
    sound = checkpoint_before(case.manifest, began, case.stride)
    return Evidence(
        because=f"The gradient norm went from {num(lowest)} to {num(last)}, {num(ratio)} x, from "
        f"step {began} on, {outcome}.",
        step=began,
        measured={"lowest": lowest, "last": last, "ratio": ratio},
        first=f"{sound.reload('the explosion')}, and lower the learning rate by 3 to 10 times.",
        then=(
            f"Clip the global norm at {clip(case)}.",
            "Lengthen the warm-up.",
            "Try another epsilon or β2 for Adam.",
            "Log the norm of each layer, to see where it begins.",
        ),
    )


def _got_worse(case: Case) -> bool:
    """Tell whether the loss ends above its best level, by more than a little of its progress.

    And by more than its levels vary: a loss that never fell has no progress to measure by.
    """
    loss = levels(case.loss.values, _STRETCHES)
    best = float(loss.min())
    worse = median(case.loss.values[-_END:]) - best
    usual = median(np.abs(np.diff(loss))) if len(loss) > 1 else 0.0
    least = case.limits.divergence.material * max(float(loss[0]) - best, 0.0)
    return worse > max(least, _USUAL * usual)


def _stands_still(case: Case, since: int) -> bool:
    """Tell whether a loss that has far to go has hardly fallen since a step."""
    loss = case.loss.values
    before = case.loss.until(since).values
    # A loss that may be negative or zero says nothing about how much of it is left.
    if not len(before) or loss.min() <= 0:
        return False
    last = median(loss[-_END:])
    far = last > (1 - _LEFT) * float(levels(loss, _STRETCHES)[0])
    return far and last > _LEFT * median(before[-_END:])


def _early(reached: Floats) -> float:
    """Return the early level; a first few steps far above all others are the initialisation's."""
    return median(reached[: _STRETCHES // 4])


def grad_vanishing(case: Case) -> Evidence | None:
    """Has the gradient gone to nothing while most of the loss is left?"""
    norm, loss = finite_norm(case), case.loss.values
    # A loss that may be negative or zero says nothing about how much of it is left.
    if norm is None or len(loss) < _LEAST or loss.min() <= 0:
        return None
    reached = levels(norm.values, _STRETCHES)
    left = levels(loss, _STRETCHES)
    early, last = _early(reached), float(reached[-1])
    share = last / early if early > 0 else 1.0
    if share >= case.limits.gradients.vanish_ratio or left[-1] < _LEFT * left[0]:
        return None
    # Where the weights themselves go to nothing, the gradient goes with them.
    if weight_norm_shrinking(case) is not None:
        return None
    large = np.flatnonzero(norm.values > 0.1 * early)
    began = int(norm.steps[min(int(large[-1]) + 1, len(norm) - 1)])
    return Evidence(
        because=f"The gradient norm fell from {num(early)} to {num(last)} while the loss only went "
        f"from {num(float(left[0]))} to {num(float(left[-1]))}.",
        step=began,
        measured={"early": early, "last": last, "share": share},
        first=f"Log the gradient norm of each layer from step {began} on and find the first, from "
        "the output down, where it vanishes.",
        then=(
            "Check the residual connections and the normalisation layers.",
            "Replace ReLU by GELU or a leaky one: neurons that are always off pass nothing.",
            "Check the initialisation, and that activations do not saturate.",
        ),
    )


def finite_norm(case: Case) -> Series | None:
    """Return the finite gradient norms of the whole model, if there are enough."""
    norm = case.history.finite("grad_norm")
    return norm if len(norm) >= _LEAST else None


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="grad-nonfinite",
        severity=Severity.WARNING,
        family="gradients",
        title="The gradient norm is NaN or infinite while the loss is finite",
        check=grad_nonfinite,
        needs=("grad_norm", "loss"),
        explained_by=("nan", "gradient-overflow", "loss-scale"),
    ),
    Symptom(
        slug="grad-exploding",
        severity=Severity.WARNING,
        family="gradients",
        title="Exploding gradients",
        check=grad_exploding,
        needs=("grad_norm", "loss"),
        limits=("gradients.explode_ratio", "divergence.material"),
        explained_by=("nan", "divergence-grad-norm-rising", "gradient-overflow", "loss-scale"),
    ),
    Symptom(
        slug="grad-vanishing",
        severity=Severity.ERROR,
        family="gradients",
        title="Vanishing gradients",
        check=grad_vanishing,
        needs=("grad_norm", "loss"),
        limits=("gradients.vanish_ratio",),
        explained_by=("nan", "loss-scale", "divergence-weight-norm-collapsing"),
    ),
)
