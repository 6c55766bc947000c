"""Learning that does not carry over to the evaluation, and a gap from the start."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.model.unique import unique_values
from stabdiag.stats.course import (
    beginning,
    end_level,
    evaluation_level,
    late_level,
    outer_levels,
)
from stabdiag.stats.standards import (
    HALF,
    MIN_COMPARED,
    MIN_SAMPLE,
    RELATIVE_TOLERANCE,
    TENTH,
)
from stabdiag.symptoms.generalization.gap import (
    RUN_AWAY,
    TurningPoint,
    find_gap,
    may_be_pretrained,
    with_evaluations,
)
from stabdiag.symptoms.generalization.overfitting import (
    FEW_EVALUATIONS,
    UNLEARNED,
    carries_nothing,
    is_memorizing,
    is_mostly_right,
    memorizing_turn,
    overfitting,
)
from stabdiag.symptoms.learning.causes import evaluations_are_constant
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained
from stabdiag.tree.progress import find_progress

_STALE = Action(
    Do.CHECK_EVALUATION,
    "Check that the evaluated model is the trained one: its loss hardly changes. An average of the "
    "weights may decay too slowly (EMA), or the evaluation may use an old copy.",
)
_CARRIES_NOTHING = Action(
    Do.CHECK_LABELS,
    "Print 20 training and 20 evaluation examples with their labels, as the model gets them: look "
    "for labels that belong to other inputs, leaked labels, repeated batches and different "
    "preprocessing.",
    also=(Do.INSPECT_DATA, Do.CHECK_EVALUATION),
)


_OTHER_MODE = Action(
    Do.CHECK_EVALUATION,
    "Evaluate the last checkpoint on training batches, in training and in evaluation mode: if they "
    "differ, batch norm or dropout is at fault; otherwise compare the data of training and "
    "evaluation batches.",
    also=(Do.INSPECT_DATA,),
)


# Both losses must measure the same thing before they are compared.
_SAME_MEASURE = (
    Action(
        Do.CHECK_LOSS_FUNCTION,
        "Check that both losses are means over the same unit, with the same mask.",
    ),
    Action(Do.CHECK_EVALUATION, "Preprocess evaluation data with the same code as training data."),
)


@Symptom(
    slug="eval-gap-from-start",
    title="The evaluation loss is far above the training loss from the start",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    next_actions=_SAME_MEASURE,
)
def eval_gap_from_start(case: Case) -> Evidence | None:
    """Is the evaluation loss far above the training loss from the first evaluation on?"""
    # Early memorization is overfitting.
    if is_memorizing(case) or learning_not_transferring.evidence(case):
        return None
    gap = find_gap(case)
    if gap is None or gap.is_factor or _leaves_no_loss(case):
        return None
    measured = {"first_ratio": gap.evaluated / gap.trained, "min_ratio": gap.least}
    # A model that was trained before may know the training data already.
    is_known = starts_pretrained(case) is True
    caveat = " The pretrained model may have seen the training data." if is_known else ""
    return Evidence(
        severity=Severity.NOTE if is_known else None,
        because=f"At {case.unit} {gap.step}, {gap.fraction_of_run:.0%} into the run, the "
        f"evaluation loss is "
        f"{num(gap.evaluated)} and the training loss {num(gap.trained)}; it stays at least "
        f"{num(gap.least)} x the training loss.{caveat}",
        step=gap.step,
        measured=measured,
        first=Action(
            Do.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to {case.describe(gap.step)} on training batches in "
            "training and in evaluation mode. If they differ, batch norm or dropout is at fault; "
            "otherwise compare the data of training and evaluation batches.",
            also=(Do.INSPECT_DATA,),
            step=gap.step,
        ),
    )


def _leaves_no_loss(case: Case) -> bool:
    """Return True if the evaluation loss ends at a hundredth of the first loss: a solved task."""
    last = evaluation_level(case.history.finite("eval_loss").values)
    return last <= RELATIVE_TOLERANCE * beginning(case.loss.values)


@Symptom(
    slug="eval-equals-train",
    title="The evaluation loss is the training loss",
    needs=("loss", "eval_loss"),
    confidence=Confidence.HIGH,
    explained_by=("nan", "loss-constant"),
    preconditions=(at_least(MIN_SAMPLE, "loss"), at_least(MIN_SAMPLE, "eval_loss")),
    next_actions=(
        Action(
            Do.CHECK_EVALUATION,
            "If only the log is wrong, write the evaluation loss instead of a copy of the training "
            "loss.",
        ),
    ),
)
def eval_equals_train(case: Case) -> Evidence | None:
    """Are all evaluation losses identical to the training loss of the same step?"""
    trained, heldout = case.loss, case.history.finite("eval_loss")
    if len(heldout) < MIN_SAMPLE or len(unique_values(heldout.values)) < MIN_SAMPLE:
        return None
    at = np.searchsorted(trained.steps, heldout.steps)
    if at[-1] >= len(trained) or not np.array_equal(trained.steps[at], heldout.steps):
        return None
    if not np.array_equal(trained.values[at], heldout.values):
        return None
    return Evidence(
        because=f"All {len(heldout)} evaluation losses are identical to the training loss of the "
        f"same {case.unit}, to the last digit.",
        step=int(heldout.steps[0]),
        measured={"evaluations": len(heldout)},
        first=Action(
            Do.CHECK_EVALUATION,
            "Check which data is evaluated: on the training data, nothing shows whether the model "
            "carries over to other data.",
            also=(Do.INSPECT_DATA,),
        ),
    )


@Symptom(
    slug="learning-not-transferring",
    title="Learning does not carry over to any evaluation",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    next_actions=_SAME_MEASURE,
)
def learning_not_transferring(case: Case) -> Evidence | None:
    """Did training lower the loss while no evaluation was better than at the start?"""
    turning_point = memorizing_turn(case)
    if turning_point is not None:
        return (
            _turned_at_start(case, turning_point) if carries_nothing(case, turning_point) else None
        )
    pair = with_evaluations(case)
    if pair is None or may_be_pretrained(case) or evaluations_are_constant(case) or find_gap(case):
        return None
    train, heldout = pair
    early, now = outer_levels(train.values)
    begun, best = beginning(train.values), float(heldout.values.min())
    if now > RUN_AWAY * early:
        return None
    least = f"no evaluation loss was below {num(best)}"
    # The first batch may be harder than the evaluation, so accuracies that disagree count as well.
    stays = best > UNLEARNED * float(heldout.values[0]) and _is_right_in_training_only(case)
    # The first losses are noisy: a first evaluation near them is made by an untrained model.
    first = float(heldout.values[0])
    untrained = first if first >= (1 - TENTH) * begun else begun
    if best <= UNLEARNED * untrained and not stays:
        late = late_level(heldout.values)
        if late <= case.limits.generalization.gap * begun or _has_better_evaluation(case):
            return None
        least = f"the evaluation loss stays near {num(late)}"
    # Evaluations far worse than an untrained model are made by another mode or other inputs.
    is_far = best > case.limits.generalization.gap * begun
    if not is_far and is_mostly_right(case):
        return None
    # An average of the weights that hardly moves improves slowly and steadily.
    is_still = float(np.ptp(heldout.values)) <= RELATIVE_TOLERANCE * best
    is_still = (
        is_still and len(heldout) >= MIN_COMPARED and bool((np.diff(heldout.values) < 0).all())
    )
    if is_still:
        least = f"{least} or above {num(float(heldout.values.max()))}"
    return Evidence(
        because=f"The training loss went from {num(begun)} to {num(now)}; {least}.",
        step=int(heldout.steps[0]),
        measured={"first_loss": begun, "loss": now, "best_eval_loss": best},
        first=_OTHER_MODE if is_far else _STALE if is_still else _CARRIES_NOTHING,
        next_actions=(_CARRIES_NOTHING, *_SAME_MEASURE) if is_far or is_still else None,
    )


def _is_right_in_training_only(case: Case) -> bool:
    """Return True if most training examples are right at the end, and far fewer held-out ones."""
    trained, heldout = (case.history.finite(role).values for role in ("accuracy", "eval_accuracy"))
    if not len(trained) or not len(heldout):
        return False
    full = full_scale(float(max(trained.max(), heldout.max())))
    return end_level(trained) - evaluation_level(heldout) >= HALF * full


def _has_better_evaluation(case: Case) -> bool:
    """Return True if the evaluation loss or a score ends better than it began."""
    changes = find_progress(case).changes
    return any(change.better for change in changes if change.role not in ("loss", "accuracy"))


def _turned_at_start(case: Case, turning_point: TurningPoint) -> Evidence:
    learned = (
        "What the model learned later" if is_mostly_right(case) else "Nothing the model learned"
    )
    does = "does not carry over" if is_mostly_right(case) else "carries over"
    return Evidence(
        because=f"{turning_point.words} {learned} {does} to the evaluation.",
        step=turning_point.step,
        measured=turning_point.measured,
        first=_CARRIES_NOTHING,
        next_actions=overfitting.next_actions,
    )
