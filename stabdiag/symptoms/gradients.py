"""The symptoms of gradients: norms that are not finite, too large, or too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural
from stabdiag.stats.levels import levels
from stabdiag.symptoms.exploding import END, grad_exploding
from stabdiag.symptoms.norms import LEAST, LEFT, STRETCHES, early_level, finite_norm
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.weights import weight_norm_shrinking

if TYPE_CHECKING:
    from stabdiag.tree.case import Case


def grad_nonfinite(case: Case) -> Evidence | None:
    """Is a gradient norm NaN or infinite beside a finite loss, where §3 does not look?"""
    norm, loss = case.history.get("grad_norm"), case.loss
    if norm is None or case.manifest.dtype in ("fp16", "bf16"):
        return None
    # A scale that never moves is no scaler's, and absorbs nothing; some write 1 whatever the dtype.
    scale = case.history.finite("loss_scale").values
    if len(scale) and np.ptp(scale):
        return None
    bad = ~np.isfinite(norm.values)
    # So few points of a run whose dtype is not known may be means over epochs, overflows among
    # them: unless they are the last ones.
    if case.manifest.dtype is None and len(norm) < LEAST and not bad[-2:].all():
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
        first=Action(
            ActionKind.INSPECT_LAYERS,
            f"Step through the batch of step {first} with torch.autograd.set_detect_anomaly(True)"
            " to find the operation whose gradient is not finite.",
            step=first,
        ),
        then=(
            Action(
                ActionKind.SAFE_OPERATIONS,
                "Look for the square root or the norm of a zero, a division, or a log in the loss: "
                "finite values there can have infinite gradients.",
            ),
            Action(
                ActionKind.SKIP_BATCHES,
                "Skip the update when the norm is not finite, and save the batch.",
            ),
            Action(
                ActionKind.CLIP_GRADIENTS, "Clip gradients by value before clipping them by norm."
            ),
        ),
    )


def grad_vanishing(case: Case) -> Evidence | None:
    """Has the gradient gone to nothing while most of the loss is left?"""
    norm, loss = finite_norm(case), case.loss.values
    # A loss that may be negative or zero says nothing about how much of it is left.
    if norm is None or len(loss) < LEAST or loss.min() <= 0:
        return None
    reached = levels(norm.values, STRETCHES)
    left = levels(loss, STRETCHES)
    early, last = early_level(reached), float(reached[-1])
    share = last / early if early > 0 else 1.0
    if share >= case.limits.gradients.vanish_ratio or left[-1] < LEFT * left[0]:
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
        first=Action(
            ActionKind.INSPECT_LAYERS,
            f"Log the gradient norm of each layer from step {began} on and find the first, from "
            "the output down, where it vanishes.",
            step=began,
        ),
        then=(
            Action(
                ActionKind.CHECK_MODEL,
                "Check the residual connections and the normalisation layers.",
            ),
            Action(
                ActionKind.CHANGE_MODEL,
                "Replace ReLU by GELU or a leaky one: neurons that are always off pass nothing.",
            ),
            Action(
                ActionKind.CHECK_MODEL,
                "Check the initialisation, and that activations do not saturate.",
            ),
        ),
    )


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
        enough=(
            at_least(LEAST, "grad_norm"),
            at_least(END, "loss"),
        ),
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
        enough=(
            at_least(LEAST, "grad_norm"),
            at_least(LEAST, "loss"),
        ),
    ),
)
