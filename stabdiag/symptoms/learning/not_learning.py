"""A loss that has not fallen, at a level other than chance."""

from __future__ import annotations

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num
from stabdiag.stats.course import change_of_halves, level_error, start_level
from stabdiag.stats.levels import levels
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CONTEXT_POINTS,
    FEW_EVENTS,
    MAX_CHANCE_OF_MANY,
    NEGLIGIBLE,
    TENTHS,
)
from stabdiag.symptoms.learning.causes import (
    evaluations_are_constant,
    rose_far,
    unchanged_norm,
    without_learning,
)
from stabdiag.symptoms.learning.chance import plateau_at_chance
from stabdiag.symptoms.learning.rate_fixes import lower_rate
from stabdiag.symptoms.learning.stuck import loss_constant
from stabdiag.symptoms.losses import (
    ONE_BATCH,
    RANGE_TEST,
    best_evaluation,
    few_trained,
    has_ended,
    losses_after_warmup,
    not_comparable,
    rate_is_zero,
    small_test,
    untrained_model,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained
from stabdiag.tree.progress import find_progress

# The probability that the first k losses are all among the lowest fraction p by chance is p ** k.
_FIRST = (2, 3, 5, 10)
_MAX_TREND_CHANCE = MAX_CHANCE_OF_MANY

# With this many losses, the levels of tenths show whether the loss fell.
_MIN_LOSSES = CONTEXT_POINTS * TENTHS


def _few_losses(case: Case) -> str:
    """Return the reason why a loss that never fell cannot be recognized here, or ""."""
    after, count = len(losses_after_warmup(case)), len(case.loss)
    if count < _MIN_LOSSES:
        return too_few(_MIN_LOSSES, f"{count} of loss")
    span = int(case.loss.steps[-1] - case.loss.steps[0]) + case.stride
    if not case.history.counts_epochs and span < case.limits.learning.min_steps_ended:
        return f"needs {case.limits.learning.min_steps_ended} {case.unit}s, logged: {span:.0f}"
    return "" if 2 * after >= count else f"needs half of the losses after the warm-up, not {after}"


@Symptom(
    slug="not-learning",
    title="The loss does not fall",
    needs=("loss",),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    yields_to=("epoch-pattern",),
    preconditions=(not_comparable,),
    inconclusive_if=(_few_losses,),
    next_actions=(
        RANGE_TEST,
        Action(Do.CHECK_LABELS, "Check for shuffled labels, shifted targets and a wrong mask."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
        Action(Do.CHECK_MODEL, "Check the initialization and normalization; regularize less."),
    ),
)
def not_learning(case: Case) -> Evidence | None:
    """Has the loss not fallen at all, at a level other than chance?"""
    if plateau_at_chance.evidence(case) or loss_constant.evidence(case):
        return None
    x, steps = case.loss.values, case.loss.steps
    least = case.limits.learning.min_fall
    is_better = best_evaluation(case) < float(x[0]) * (1 - 2 * least)
    if (is_better or _something_improved(case)) and not evaluations_are_constant(case):
        return None
    begin, tenths = num(float(x[0])), levels(x, TENTHS)
    measured = {"first_loss": float(x[0]), "last_loss": float(tenths[-1])}
    because = (
        f"The loss began at {begin} and is {num(float(tenths[-1]))} after {int(steps[-1])} "
        f"{case.unit}s; no tenth of the run has a median below {num(float(tenths.min()))}"
    )
    is_static = _is_static(case)
    if not is_static and _rose_immediately(case):
        return Evidence(
            because=f"{because}: it rose in the first steps, "
            f"which made the model worse than {untrained_model(case)}.",
            step=int(steps[0]),
            measured=measured,
            first=lower_rate(case),
            next_actions=(
                ONE_BATCH,
                Action(
                    Do.CHECK_LOSS_FUNCTION,
                    "Check the sign of the loss, and that gradients are zeroed before each step.",
                ),
                RANGE_TEST,
            ),
        )
    # The loss of a pretrained model may stay at its initial level.
    if not is_static and starts_pretrained(case):
        return None
    if not is_static and not _never_fell(case, tenths) and not _evaluations_never_fell(case):
        return None
    return without_learning(
        case,
        not_learning,
        step=int(steps[0]),
        because=because,
        measured=measured,
        first=small_test(float(x[0])),
    )


def _something_improved(case: Case) -> bool:
    """Return True if evaluations or scores end better than they began by more than their noise."""
    return any(change.better for change in find_progress(case).changes if change.role != "loss")


def _is_static(case: Case) -> bool:
    """Return True if the log shows that no step changes the weights, and the loss does not fall.

    A logged rate of 0 may have been rounded, so a loss that falls is not static.
    """
    x = case.loss.values
    if len(x) <= FEW_EVENTS or rose_far(case):
        return False
    if (
        not rate_is_zero(case, int(case.loss.steps[0]))
        and unchanged_norm(case) is None
        and not evaluations_are_constant(case)
        and not case.history.without_gradient
    ):
        return False
    return change_of_halves(x, case.limits.learning.min_fall * abs(float(x.mean()))) >= 0


def _rose_immediately(case: Case) -> bool:
    """Return True if the first losses are lower than nearly all that follow, not by chance."""
    x = case.loss.values
    is_lowest = any(
        float((x[k:] <= x[:k].max()).mean()) ** k < _MAX_TREND_CHANCE
        for k in _FIRST
        if len(x) > 2 * k
    )
    return is_lowest and not few_trained(case) and not case.chance_start


def _never_fell(case: Case, tenths: Floats) -> bool:
    """Return True if no tenth of the log is below the first tenth or the first three losses.

    ``tenths`` are the levels of the tenths.
    """
    if _few_losses(case):
        return False
    x, least = case.loss.values, case.limits.learning.min_fall
    noise = BEYOND_CHANCE * level_error(case.loss_sigma, len(x) // TENTHS)
    first = float(tenths[0])
    began = max(first, start_level(x) - noise)
    return bool(began - float(tenths.min()) <= min(noise, 2 * least * first))


def _evaluations_never_fell(case: Case) -> bool:
    """Return True if a run ended without improved evaluations or losses."""
    heldout, x, learning = case.history.finite("eval_loss"), case.loss.values, case.limits.learning
    least = case.limits.generalization.min_evaluations
    if len(heldout) < least or few_trained(case) or not has_ended(case):
        return False
    begun, tenths = float(heldout.values[0]), levels(x, TENTHS)
    gained = begun - float(heldout.values.min())
    is_flat = float(tenths[-1]) >= (1 - NEGLIGIBLE) * float(tenths[0])
    return is_flat and gained <= learning.min_fall * begun
