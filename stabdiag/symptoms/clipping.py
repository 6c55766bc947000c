"""The symptom of a gradient that is clipped at nearly every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.quantiles import median, quantiles
from stabdiag.symptoms.gradients import finite_norm
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# A norm at the threshold differs from it by rounding alone.
_AT_CLIP = 0.999


def grad_clip_saturated(case: Case) -> Evidence | None:
    """Is the gradient clipped at nearly every step?"""
    norm = finite_norm(case)
    if norm is None:
        return None
    x = norm.values[len(norm) // 10 :]
    clip, top = case.manifest.grad_clip or None, float(x.max())
    threshold = clip or top
    if clip and top > 1.01 * clip:
        share = float(np.mean(x > clip))
        told = f"above the clip threshold {num(clip)} at {share:.0%} of {len(x)} logged steps"
    else:
        share = float(np.mean(x >= _AT_CLIP * top)) if top > 0 else 0.0
        # Without a manifest a threshold gives itself away by being the highest value, again and
        # again.
        if clip and top < _AT_CLIP * clip:
            return None
        told = (
            f"at {num(top)} at {share:.0%} of {len(x)} logged steps: it was logged after the clip"
        )
    if share < case.limits.gradients.clip_share:
        return None
    high = float(quantiles(x, [0.9])[0])
    new = f" to about {num(high)}" if high > 1.01 * threshold else ""
    return Evidence(
        because=f"The gradient norm is {told}.",
        step=int(norm.steps[len(norm) // 10]),
        measured={"share": share, "threshold": threshold, "median": median(x)},
        first=f"Raise the clip threshold from {num(threshold)}{new}: as it is, the threshold sets "
        "the size of every step.",
        then=(
            "Log the norm before clipping.",
            "If the loss spikes with a higher threshold, lower the learning rate instead.",
            "Leave it if normalised gradients are what you want.",
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="grad-clip-saturated",
        severity=Severity.NOTE,
        family="gradients",
        title="Gradients clipped at nearly every step",
        check=grad_clip_saturated,
        needs=("grad_norm",),
        limits=("gradients.clip_share",),
    ),
)
