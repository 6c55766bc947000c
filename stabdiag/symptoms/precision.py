"""The symptoms of precision that §3 of the tree does not look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.shared import TO_BF16
from stabdiag.tree.scaler import skips

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# A scaler searches its scale over so many steps or this share of the log, whichever is longer.
_CALIBRATION = 50
_SHARE = 0.1

# So many skipped steps are no rate.
_FEW = 5


def overflow_rate_high(case: Case) -> Evidence | None:
    """Are too many steps skipped once the scaler has found its scale?"""
    skipped = case.history.finite("skipped")
    if len(skipped) < 10:
        return None
    counts = skips(skipped)
    begins = int(skipped.steps[0])
    span = int(skipped.steps[-1]) - begins
    after = begins + max(_CALIBRATION, _SHARE * span)
    late = skipped.steps > after
    steps = int(skipped.steps[-1]) - after
    count = int(counts[late].sum())
    share = count / steps if steps > 0 else 0.0
    # More skips than steps count something else.
    if count < _FEW or not case.limits.overflow.skipped_share < share <= 1:
        return None
    first = int(skipped.steps[late][np.argmax(counts[late] > 0)])
    return Evidence(
        because=f"{plural(count, 'step')} of {round(steps)} ({share:.1%}) were skipped for "
        f"overflows after the scaler's first search, from step {first} on.",
        step=first,
        measured={"skipped": count, "steps": steps, "share": share},
        first=Action(
            ActionKind.CHANGE_DTYPE,
            "Switch from fp16 to bf16, or halve the learning rate.",
            also=(ActionKind.LOWER_LR,),
            **TO_BF16,
        ),
        then=(
            Action(
                ActionKind.DYNAMIC_LOSS_SCALE,
                "Lengthen the scaler's growth interval (loss_scale_window).",
            ),
            Action(
                ActionKind.LOG_MORE, "Look for activations that grow: log their largest values."
            ),
        ),
    )


def adam_underflow_risk(case: Case) -> Evidence | None:
    """Is Adam's epsilon too small for fp16, with nothing that keeps its state in fp32?"""
    manifest = case.manifest
    epsilon, name = manifest.epsilon, (manifest.optimizer or "").lower()
    if epsilon is None or manifest.dtype != "fp16" or "adam" not in name:
        return None
    # A loss scale is the sign of mixed precision: weights and moments are then fp32.
    mixed = (
        case.history.get("loss_scale") is not None
        or manifest.loss_scale_window is not None
        or manifest.static_loss_scale is not None
    )
    if mixed or epsilon >= case.limits.overflow.least_epsilon:
        return None
    return Evidence(
        because=f"Adam's epsilon is {num(epsilon)} and the run is in fp16, in which nothing is "
        "smaller than 6e-08; no loss scale was logged, so the optimizer may hold fp16 as well.",
        measured={"epsilon": epsilon},
        first=Action(
            ActionKind.CHANGE_OPTIMIZER,
            f"Raise epsilon from {num(epsilon)} to 1e-4, or keep the optimizer's state in fp32.",
            also=(ActionKind.CHANGE_DTYPE,),
            setting="epsilon",
            from_=epsilon,
            to=1e-4,
        ),
        then=(
            Action(
                ActionKind.CHANGE_DTYPE,
                "Switch to bf16, whose range is that of fp32.",
                setting="dtype",
                to="bf16",
            ),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="overflow-rate-high",
        severity=Severity.WARNING,
        family="precision",
        title="Too many skipped steps",
        check=overflow_rate_high,
        needs=("skipped",),
        limits=("overflow.skipped_share",),
        explained_by=("nan", "gradient-overflow", "loss-scale"),
        enough=(at_least(10, "skipped"),),
    ),
    Symptom(
        slug="adam-underflow-risk",
        severity=Severity.NOTE,
        family="precision",
        title="Adam's epsilon is too small for fp16",
        check=adam_underflow_risk,
        needs=("manifest.dtype", "manifest.optimizer", "manifest.epsilon"),
        limits=("overflow.least_epsilon",),
    ),
)
