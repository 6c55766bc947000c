"""The symptoms of learning: a loss that does not go where it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.tree.case import Case


def loss_constant(case: Case) -> Evidence | None:
    """Is the loss one value to the last digit, up to the end of the log?"""
    x, steps = case.loss.values, case.loss.steps
    if not len(x):
        return None
    changes = np.flatnonzero(x != x[-1])
    start = int(changes[-1]) + 1 if len(changes) else 0
    count = len(x) - start
    # A loss of zero is another thing: nothing is left to learn, or to be masked.
    if count < case.limits.learning.constant_points or x[-1] == 0:
        return None
    return Evidence(
        because=f"The loss is {num(float(x[-1]))} at each of the last {count} logged points, "
        f"from step {int(steps[start])} to {int(steps[-1])}, to the last digit.",
        step=int(steps[start]),
        measured={"loss": float(x[-1]), "points": count},
        first=f"Check at step {int(steps[start])} that the parameters change and get gradients: "
        "print which have requires_grad and are in the optimizer.",
        then=(
            "Look for a detach(), a no_grad() or an .item() between the model and the loss.",
            "Check that the learning rate is not 0 and that the optimizer steps.",
            "Train on one batch alone: the loss has to go to zero.",
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="loss-constant",
        severity=Severity.ERROR,
        family="learning",
        title="The loss does not change at all",
        check=loss_constant,
        needs=("loss",),
        limits=("learning.constant_points",),
        explained_by=("nan",),
    ),
)
