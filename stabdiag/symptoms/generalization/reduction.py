"""Training and evaluation losses that are reduced differently."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    FIFTH,
    MIN_COMPARED,
    MIN_CONSECUTIVE,
    NEGLIGIBLE,
    QUARTER,
    RELATIVE_TOLERANCE,
    TWICE,
)
from stabdiag.symptoms.generalization.gap import (
    RUN_AWAY,
    find_gap,
    training_levels,
    training_values,
    with_evaluations,
)
from stabdiag.symptoms.generalization.overfitting import FEW_EVALUATIONS, is_memorizing
from stabdiag.symptoms.losses import FALLEN
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import has_chance_level, may_sum_sequences

# A cross-entropy that starts here is over thousands of tokens, which are not augmented: then a
# factor of two is sufficient.
_TOKENS: Final = 8.0

_SAME_UNIT: Final = Action(
    Do.CHECK_LOSS_FUNCTION,
    "Check that both losses are means over the same unit, with the same mask.",
)


@Symptom(
    slug="eval-loss-scaled",
    title="The evaluation loss is a multiple of the training loss",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    next_actions=(
        Action(
            Do.CHECK_EVALUATION, "Preprocess evaluation data with the same code as training data."
        ),
    ),
)
def eval_loss_scaled(case: Case) -> Evidence | None:
    """Is the evaluation loss a constant multiple of the training loss while both fall?"""
    gap = None if is_memorizing(case) else find_gap(case)
    if gap is None or not gap.is_factor:
        return None
    return Evidence(
        because=f"The evaluation loss is {num(gap.least)} to {num(gap.highest)} x the training "
        f"loss from {case.unit} {gap.step} to the end: a constant factor, not a generalization "
        f"gap.",
        step=gap.step,
        measured={"first_ratio": gap.evaluated / gap.trained, "min_ratio": gap.least},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check that both losses are means over the same unit (tokens or examples), not "
            "sums. If they are, compare how the inputs of both sets are scaled.",
            also=(Do.CHECK_EVALUATION,),
        ),
    )


def _ratios(case: Case) -> Floats | None:
    """Return the training loss over the evaluation loss: first, and in the second half."""
    pair = with_evaluations(case)
    if pair is None:
        return None
    train, heldout = pair
    positions = [0, *range(len(heldout) // 2, len(heldout))]
    nearby = [level or 0.0 for level in training_levels(train, heldout, positions)]
    ratios: Floats = np.array(nearby) / heldout.values[positions]
    return ratios


def _has_fallen(case: Case, *, to: float) -> bool:
    """Return True if the training loss has fallen to a fraction since the first evaluation."""
    pair = with_evaluations(case)
    if pair is None:
        return False
    train, heldout = pair
    levels = training_levels(train, heldout, [0, len(heldout) - 1])
    first, last = (level or 0.0 for level in levels)
    return last <= to * first


@Symptom(
    slug="train-loss-summed",
    title="The training loss is a multiple of the evaluation loss",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    next_actions=(_SAME_UNIT,),
)
def train_loss_summed(case: Case) -> Evidence | None:
    """Is the training loss a constant multiple of the evaluation loss while both fall?

    Summed over the micro-batches of a step, its gradients are too large by the same factor.
    """
    ratios = _ratios(case)
    if ratios is None or is_memorizing(case):
        return None
    least, highest = float(ratios.min()), float(ratios.max())
    limits = case.limits.generalization
    is_constant = limits.augmentation <= least <= highest < limits.gap * least
    # A number of micro-batches is a whole number: if the factor is one, a small fall is enough.
    factor = median(ratios)
    is_whole = abs(factor - round(factor)) <= 2 * RELATIVE_TOLERANCE * factor
    fall = FALLEN if is_whole and highest <= (1 + FIFTH) * least else RUN_AWAY
    if not is_constant or not _has_fallen(case, to=fall):
        return None
    step = int(case.history.finite("eval_loss").steps[0])
    return Evidence(
        because=f"The training loss is {num(least)} to {num(highest)} x the evaluation loss, "
        "before both fell and since: a constant factor.",
        step=step,
        measured={"min_ratio": least, "max_ratio": highest},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check that the training loss is divided by the number of micro-batches of a step "
            f"(about {num(factor, 2)}): if summed, its gradients are too large by that "
            f"factor.",
        ),
    )


@Symptom(
    slug="eval-far-below-train",
    severity=Severity.NOTE,
    title="The evaluation loss is far below the training loss",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    yields_to=("train-loss-summed",),
    next_actions=(
        Action(
            Do.CHECK_EVALUATION,
            "Evaluate on training batches in evaluation mode: if that loss is just as low, "
            "dropout or augmentation raises the training loss, and nothing leaks.",
        ),
        _SAME_UNIT,
    ),
)
def eval_far_below_train(case: Case) -> Evidence | None:
    """Is the evaluation better than the training in the second half, and far better at the end?"""
    ratios = _ratios(case)
    if ratios is None:
        return None
    late = ratios[1:]
    least, last = float(late.min()), median(late[-MIN_CONSECUTIVE:])
    lowest, highest = _TOKENS, case.limits.learning.untrained_loss
    is_text = has_chance_level(case) and not may_sum_sequences(case)
    is_text = is_text and lowest <= case.loss.values[0] <= highest
    far = TWICE if is_text else case.limits.generalization.augmentation
    if least < TWICE or last < far:
        return _accuracy_far_above(case)
    heldout = case.history.finite("eval_loss")
    return Evidence(
        because=f"At the end of the run the training loss is {num(last)} x the "
        f"evaluation loss, which ends at {num(float(heldout.values[-1]))}.",
        step=int(heldout.steps[len(heldout) // 2]),
        measured={"min_ratio": least, "usual_ratio": last},
        first=Action(
            Do.INSPECT_DATA,
            "Look for evaluation examples among the training data, and for labels that leak into "
            "the evaluation inputs: held-out data is rarely that easy.",
            also=(Do.CHECK_EVALUATION,),
        ),
    )


def _accuracy_far_above(case: Case) -> Evidence | None:
    """Report an accuracy that is far higher in evaluations than in training.

    Dropout and augmentation cost some accuracy in training. A fifth of all, or a quarter of
    the accuracy, is more than that, unless labels are mixed as well.
    """
    train, heldout = (case.history.finite(role) for role in ("accuracy", "eval_accuracy"))
    if min(len(train), len(heldout)) < case.limits.generalization.min_evaluations:
        return None
    late = range(len(heldout) // 2, len(heldout))
    # The accuracies of small batches have few different values, so a median is too coarse.
    values = training_values(train, heldout, late)
    full = full_scale(max(train.values.max(), heldout.values.max()))
    trained = np.array([since.mean() if len(since) else np.nan for since in values]) / full
    evaluated = heldout.values[late.start :] / full
    gaps = evaluated - trained
    usual, higher = median(trained), median(evaluated)
    is_far = higher - usual >= FIFTH or usual <= (1 - QUARTER) * higher
    if not (gaps >= NEGLIGIBLE).all() or not is_far:
        return None
    is_clear = len(late) >= MIN_COMPARED and bool((gaps >= FIFTH).all())
    return Evidence(
        severity=Severity.WARNING if is_clear else None,
        title="The evaluation accuracy is far above the training accuracy",
        because=f"In the second half of the run {usual:.0%} of the training examples are right, "
        f"but {higher:.0%} of the evaluation examples.",
        step=int(heldout.steps[late.start]),
        measured={"accuracy": usual, "eval_accuracy": higher},
        first=Action(
            Do.CHECK_EVALUATION,
            "Evaluate the last checkpoint on training batches, without dropout and augmentation. "
            f"If about {usual:.0%} are still right, training labels are wrong: look at the "
            f"examples with the highest loss. If about {higher:.0%} are right, dropout or "
            "augmentation is strong, or batch norm averages over very few examples.",
            also=(Do.CHECK_LABELS,),
        ),
        next_actions=(
            Action(
                Do.INSPECT_DATA,
                "Look for evaluation examples among the training data, and for labels that leak "
                "into the evaluation inputs.",
            ),
        ),
    )
