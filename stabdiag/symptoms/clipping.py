"""The symptom of a gradient that is clipped at nearly every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median, quantiles
from stabdiag.symptoms.norms import LEAST, finite_norm
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# A norm at the threshold differs from it by rounding alone.
_AT_CLIP = 0.999

# A gradient so many times the threshold is of another unit, or none that may be let through.
_FAR_OFF = 1000.0
_UNSCALED = Action(
    ActionKind.CHECK_LOSS_FUNCTION,
    "Find out why the gradient is so large before the threshold is touched: a norm taken before "
    "the loss scale is divided out, a loss that is a sum and no mean, targets out of scale.",
    also=(ActionKind.RAISE_CLIP,),
)


def grad_clip_saturated(case: Case) -> Evidence | None:
    """Is nearly every gradient clipped, to a fraction of its size or before it was logged?"""
    norm = finite_norm(case)
    if norm is None:
        return None
    since = int(norm.steps[len(norm) // 10])
    x = norm.values[len(norm) // 10 :]
    return _cut_deep(case, x, since) or _logged_late(case, x, since)


def _cut_deep(case: Case, x: Floats, since: int) -> Evidence | None:
    """Find a threshold that is far below the norm that is usual."""
    clip, limits = case.manifest.grad_clip or 0.0, case.limits.gradients
    if clip <= 0:
        return None
    share, usual, high = float(np.mean(x > clip)), median(x), float(quantiles(x, [0.9])[0])
    if share < limits.clip_share or usual <= limits.clip_depth * clip:
        return None
    return Evidence(
        because=f"The gradient norm is above the clip threshold {num(clip)} at {share:.0%} of "
        f"{len(x)} logged steps; its median is {num(usual)}, {num(usual / clip)} x the threshold.",
        step=since,
        measured={"share": share, "threshold": clip, "median": usual},
        first=_UNSCALED
        if usual > _FAR_OFF * clip
        else Action(
            ActionKind.RAISE_CLIP,
            f"Raise the clip threshold from {num(clip)} to about {num(high)}: as it is, the "
            "threshold sets the size of every step.",
            setting="grad_clip",
            from_=clip,
            to=high,
        ),
        then=(
            Action(
                ActionKind.LOWER_LR,
                "If the loss spikes with a higher threshold, lower the learning rate instead.",
            ),
            Action(ActionKind.DO_NOTHING, "Leave it if normalised gradients are what you want."),
        ),
    )


def _logged_late(case: Case, x: Floats, since: int) -> Evidence | None:
    """Find a norm that is logged after the clip: it stands at its own highest value."""
    top, clip = float(x.max()), case.manifest.grad_clip
    share = float(np.mean(x >= _AT_CLIP * top)) if top > 0 else 0.0
    elsewhere = clip is not None and clip > 0 and not _AT_CLIP * clip <= top <= 1.01 * clip
    if share < case.limits.gradients.clip_share or elsewhere:
        return None
    return Evidence(
        because=f"The gradient norm is at {num(top)} at {share:.0%} of {len(x)} logged steps: it "
        "was logged after the clip.",
        step=since,
        measured={"share": share, "threshold": top, "median": median(x)},
        first=Action(
            ActionKind.LOG_MORE,
            "Log the gradient norm before clipping: as it is, it shows no surge.",
        ),
        then=(
            Action(
                ActionKind.RAISE_CLIP,
                f"Raise the clip threshold from {num(top)} if it turns out to be far above.",
                setting="grad_clip",
                from_=top,
            ),
            Action(ActionKind.DO_NOTHING, "Leave it if normalised gradients are what you want."),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="grad-clip-saturated",
        severity=Severity.NOTE,
        family="gradients",
        title="Gradients are clipped at nearly every step",
        check=grad_clip_saturated,
        needs=("grad_norm",),
        limits=("gradients.clip_share", "gradients.clip_depth"),
        enough=(at_least(LEAST, "grad_norm"),),
    ),
)
