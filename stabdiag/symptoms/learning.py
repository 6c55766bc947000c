"""The symptom of a loss that does not fall: it stands where it began, or rose at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import block_levels, levels
from stabdiag.stats.quantiles import diff_sigma, median, robust_sigma
from stabdiag.symptoms.frozen import RANGE, stands_still, with_cause
from stabdiag.symptoms.losses import (
    best_evaluation,
    few_trained,
    from_the_start,
    is_distance,
    trained,
    warmed_up,
)
from stabdiag.symptoms.stuck import ONE_BATCH, STRETCHES, loss_constant, plateau_at_chance
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.symptoms.warmup import lr_no_warmup

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A loss whose levels wander by more than this share is not judged.
_WANDER = 0.1
_SIGMAS = 3.0

# So many losses tell a fall from their noise; of more than can matter some are left out.
_LEVEL = 100
_ENOUGH = 20_000

# A loss rose at once if its first few are lower than chance would have them.
_FIRST = (3, 5, 10)
_BY_CHANCE = 0.001

# One that blew up at once was above this many times its beginning for most of the log, by its first
# tenth, and by so many deviations: of healthy runs the first loss is no more than three too low.
_TIMES = 2.0
_SOON = 0.1
_FAR = 6.0
_FEWEST = 20

_SLOWER = Action(
    ActionKind.LOWER_LR,
    "Start again with a tenth of the learning rate and a longer warm-up: the first steps made the "
    "model worse than it was untrained.",
    also=(ActionKind.ADD_WARMUP,),
    checkpoint=0,
)


def not_learning(case: Case) -> Evidence | None:
    """Has the loss not fallen at all, at a level that is not that of chance?"""
    if plateau_at_chance(case) is not None or loss_constant(case) is not None:
        return None
    if stands_still(case):
        level = levels(case.loss.values, STRETCHES)
        return _never_lower(case, case.loss, float(case.loss.values[0]), level)
    if _is_measured_otherwise(case):
        return None
    return _not_learned(case) or _never_fell(case)


def _is_measured_otherwise(case: Case) -> bool:
    """Tell whether the loss came to be measured on something else, or weighed otherwise."""
    weight = case.history.finite("loss_weight").values
    grows = len(weight) > 1 and weight[-1] > weight[0]
    return bool(case.shifts) or case.ramp is not None or grows


def _not_learned(case: Case) -> Evidence | None:
    if _blew_up(case) and lr_no_warmup(case) is None:
        return _blown_up(case)
    after = trained(case)
    if after is None:
        return None
    level = levels(after.values, STRETCHES)
    if _rose_at_once(case.loss.values):
        return _worse_than_at_first(case, level)
    before = float(level[0])
    began = float(max(case.loss.values[0], after.values[0]))
    least = case.limits.learning.least_fall * before
    wander = float(np.abs(np.diff(level)).max())
    if before - float(level.min()) > least or wander > _WANDER * before:
        return None
    # What fell before the first stretch ended has been learned; single losses tell it as far as
    # their noise allows.
    noise = robust_sigma(after.values[: len(after) // STRETCHES])
    if began - before > max(least, _SIGMAS * min(noise, _WANDER * before)):
        return None
    if best_evaluation(case) < before * (1 - 2 * case.limits.learning.least_fall):
        return None
    return _never_lower(case, after, began, level)


def _never_lower(case: Case, after: Series, began: float, level: Floats) -> Evidence:
    """Return what speaks for a loss that stands where it began, after the warm-up if there is one.

    ``level`` are the levels of its stretches.
    """
    found = Evidence(
        because=f"The loss began at {num(began)} and is {num(float(level[-1]))} after "
        f"{int(case.loss.steps[-1])} steps; it was never lower than {num(float(level.min()))} over "
        "a tenth of the run.",
        step=int(after.steps[0]),
        measured={"first_loss": began, "last_loss": float(level[-1])},
        first=Action(
            ActionKind.TRY_SMALL,
            f"Train on one batch alone: if the loss does not fall from {num(began)} to nearly "
            "zero, the fault is in the model, the loss or the data, and no setting will fix it.",
        ),
        then=(
            Action(
                ActionKind.CHECK_LABELS,
                "Check that labels are not shuffled, targets not shifted, and the loss not masked "
                "where it counts.",
            ),
            Action(
                ActionKind.CHECK_MODEL,
                "Check requires_grad, and that the optimizer holds the parameters, adapters above "
                "all.",
            ),
            RANGE,
            Action(
                ActionKind.CHECK_MODEL,
                "Check initialisation and where the normalisation layers stand; take out label "
                "smoothing and other regularisation.",
            ),
        ),
    )
    return with_cause(case, found)


def _never_fell(case: Case) -> Evidence | None:
    """Find that no tenth of the log lies below the first, nor below where it began.

    Any fall that shows is enough to acquit a short run.
    """
    x = case.loss.values
    if len(x) < _LEVEL or not is_distance(case) or not from_the_start(case):
        return None
    least, begun = case.limits.learning.least_fall, float(x[0])
    if best_evaluation(case) < begun * (1 - 2 * least) or not _warmed_up_long_ago(case):
        return None
    some = x[:: max(len(x) // _ENOUGH, 1)]
    tenths, _ = block_levels(some, len(some) // STRETCHES)
    noise = _SIGMAS * diff_sigma(some) / (len(some) // STRETCHES) ** 0.5
    first = float(tenths[0])
    if max(first, median(some[:3]) - noise) - float(tenths.min()) > min(noise, 2 * least * first):
        return None
    return _never_lower(case, case.loss, begun, tenths)


def _warmed_up_long_ago(case: Case) -> bool:
    """Tell whether most of the losses are from after the warm-up."""
    after = case.loss.between(warmed_up(case), int(case.loss.steps[-1]))
    return 2 * len(after) >= len(case.loss)


def _few_losses(case: Case) -> str:
    if _is_measured_otherwise(case):
        return "the loss is measured or weighed otherwise in the course of the run"
    return few_trained(case) if len(case.loss) < _LEVEL or not _warmed_up_long_ago(case) else ""


def _rose_at_once(x: Floats) -> bool:
    """Tell whether a loss was nearly never again as low as it began.

    That the first ``k`` of losses that stand still are all as low as a share of the others has the
    chance ``share ** k``.
    """
    return any(
        float((x[k:] <= x[:k].max()).mean()) ** k < _BY_CHANCE for k in _FIRST if len(x) > 2 * k
    )


def _blew_up(case: Case) -> bool:
    """Tell whether the loss soon was far above its beginning, and stayed there for most of the log.

    Its logarithm is looked at: the noise of a loss grows with its level.
    """
    x = case.loss.values
    if len(x) < _FEWEST or not is_distance(case) or not from_the_start(case):
        return False
    above = x > _TIMES * x[0]
    if above.mean() < 1 / 2 or not above[: round(_SOON * len(x))].any():
        return False
    level = np.log(x)
    return median(level) - float(level[0]) > _FAR * diff_sigma(level)


def _blown_up(case: Case) -> Evidence:
    """Return what speaks for a loss that was above its beginning for most of the log."""
    x, steps = case.loss.values, case.loss.steps
    began, high = float(x[0]), x > _TIMES * x[0]
    last, count = int(steps[np.flatnonzero(high)[-1]]), int(high.sum())
    return Evidence(
        because=f"The loss began at {num(began)}, went up to {num(float(x.max()))} and was above "
        f"{num(_TIMES)} x its beginning at {count} of {len(x)} logged points, up to step {last}; "
        f"it is {num(float(levels(x, STRETCHES)[-1]))} after {int(steps[-1])} steps.",
        step=int(steps[0]),
        measured={"first_loss": began, "highest_loss": float(x.max()), "points_above": count},
        first=_SLOWER,
        then=(
            Action(ActionKind.CLIP_GRADIENTS, "Clip the gradient by its global norm."),
            RANGE,
            ONE_BATCH,
        ),
        title="The loss blew up in the first steps",
    )


def _worse_than_at_first(case: Case, level: Floats) -> Evidence | None:
    """Return what speaks for a loss that rose in its first steps and did not come back."""
    began, steps = float(case.loss.values[0]), case.loss.steps
    if best_evaluation(case) < began * (1 - 2 * case.limits.learning.least_fall):
        return None
    return Evidence(
        because=f"The loss began at {num(began)}, rose at once and is {num(float(level[-1]))} "
        f"after {int(steps[-1])} steps; no tenth of the run came below {num(float(level.min()))}.",
        step=int(steps[0]),
        measured={"first_loss": began, "last_loss": float(level[-1])},
        first=_SLOWER,
        then=(
            ONE_BATCH,
            Action(
                ActionKind.CHECK_LOSS_FUNCTION,
                "Check the sign of the loss, and that gradients are set to zero before each step.",
            ),
            RANGE,
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="not-learning",
        severity=Severity.WARNING,
        family="learning",
        title="The loss does not fall",
        check=not_learning,
        needs=("loss",),
        limits=("learning.least_fall", "learning.min_points", "learning.min_steps"),
        explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
        enough=(_few_losses,),
    ),
)
