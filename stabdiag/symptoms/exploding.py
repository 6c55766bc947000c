"""The symptom of gradients that explode, while the loss gets worse or stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.norms import LEFT, STRETCHES, early_level, finite_norm
from stabdiag.symptoms.symptom import Evidence
from stabdiag.tree.advice.shared import clip
from stabdiag.tree.checkpoint import checkpoint_before

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# The end is a median of so many points.
END = 8

# The end of a loss is the median of few: so many times what one level differs from the next by.
_USUAL = 5.0


def grad_exploding(case: Case) -> Evidence | None:
    """Does the gradient norm end orders of magnitude above its level, while nothing is learned?"""
    norm = finite_norm(case)
    if norm is None or len(case.loss) < END:
        return None
    reached = levels(norm.values, STRETCHES)
    lowest, last = float(reached.min()), median(norm.values[-END:])
    ratio, limit = last / lowest if lowest > 0 else 0.0, case.limits.gradients.explode_ratio
    if ratio <= limit:
        return None
    small = np.flatnonzero(norm.values <= 10 * lowest)
    began = int(norm.steps[min(int(small[-1]) + 1, len(norm) - 1)])
    if _got_worse(case):
        outcome = "and the loss got worse"
    # At a loss that has converged, gradients may grow from next to nothing.
    elif last > limit * early_level(reached) and _stands_still(case, began):
        outcome = "and the loss has not fallen since"
    else:
        return None
    sound = checkpoint_before(case.manifest, began, case.stride)
    return Evidence(
        because=f"The gradient norm went from {num(lowest)} to {num(last)}, {num(ratio)} x, from "
        f"step {began} on, {outcome}.",
        step=began,
        measured={"lowest": lowest, "last": last, "ratio": ratio},
        first=sound.reload("the explosion").and_then(
            ActionKind.LOWER_LR, "lower the learning rate by 3 to 10 times", setting="lr"
        ),
        then=(
            Action(
                ActionKind.CLIP_GRADIENTS,
                f"Clip the global norm at {clip(case)}.",
                **clip(case).change,
            ),
            Action(ActionKind.ADD_WARMUP, "Lengthen the warm-up."),
            Action(ActionKind.CHANGE_OPTIMIZER, "Try another epsilon or β2 for Adam."),
            Action(ActionKind.LOG_MORE, "Log the norm of each layer, to see where it begins."),
        ),
    )


def _got_worse(case: Case) -> bool:
    """Tell whether the loss ends above its best level, by more than a little of its progress.

    And by more than its levels vary: a loss that never fell has no progress to measure by.
    """
    loss = levels(case.loss.values, STRETCHES)
    best = float(loss.min())
    worse = median(case.loss.values[-END:]) - best
    usual = median(np.abs(np.diff(loss)))
    least = case.limits.divergence.material * (float(loss[0]) - best)
    return worse > max(least, _USUAL * usual)


def _stands_still(case: Case, since: int) -> bool:
    """Tell whether a loss that has far to go has hardly fallen since a step."""
    loss = case.loss.values
    before = case.loss.until(since).values
    # A loss that may be negative or zero says nothing about how much of it is left.
    if not len(before) or loss.min() <= 0:
        return False
    last = median(loss[-END:])
    far = last > (1 - LEFT) * float(levels(loss, STRETCHES)[0])
    return far and last > LEFT * median(before[-END:])
