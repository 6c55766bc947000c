"""Evaluation losses that rise, are far above the training loss, or are not finite."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.course import beginning, end_level, evaluation_level
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.stats.standards import (
    CLEAR,
    FIFTH,
    HALF,
    MAX_CHANCE,
    MAX_CHANCE_OF_MANY,
    MIN_COMPARED,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    TENFOLD,
    THIRD,
    TWICE,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.generalization.gap import (
    TurningPoint,
    find_gap,
    find_turn,
    with_evaluations,
)
from stabdiag.symptoms.losses import few_trained, from_the_start, is_late_part, losses_after_warmup
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import improved_score
from stabdiag.tree.scores import Score, heldout_scores

# Memorization is gradual: two neighboring evaluations never account for a third of the rise by a
# sudden jump far beyond earlier differences.
_JUMP_FRACTION = THIRD
_MIN_EVALUATIONS_BEFORE = MIN_COMPARED

# Overfitting in the first fifth of a run may be a repeated batch or leaked labels.
_EARLY = FIFTH
_LOOK = Action(
    Do.INSPECT_DATA,
    "Print two training batches and an evaluation batch: a repeated batch, leaked labels or "
    "different preprocessing look like memorization, too.",
    also=(Do.CHECK_EVALUATION,),
)

# A model whose evaluations were never below this fraction of the first training loss has learned
# nothing that carries over to other data.
UNLEARNED = 1 - NEGLIGIBLE


FEW_EVALUATIONS = (
    at_least("generalization.min_evaluations", "loss"),
    at_least("generalization.min_evaluations", "eval_loss"),
)


@Symptom(
    slug="overfitting",
    title="The model overfits: it memorizes the training data",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=FEW_EVALUATIONS,
    next_actions=(
        Action(Do.REGULARIZE, "Add regularization: weight decay, dropout."),
        Action(Do.REGULARIZE, "Add augmentation or data; see each example fewer times."),
        Action(Do.CHANGE_MODEL, "Reduce the capacity of the model."),
    ),
)
def overfitting(case: Case) -> Evidence | None:
    """Did the evaluation loss begin to rise while the training loss kept falling?

    If the log contains only the end of the run, it is sufficient that the training loss still
    falls, far below the evaluation loss.
    """
    turning_point = memorizing_turn(case)
    if turning_point is None:
        return _memorized_before(case)
    if carries_nothing(case, turning_point):
        return None
    stop = Action(
        Do.STOP_EARLY,
        f"Keep the checkpoint nearest to {case.describe(turning_point.step)}, where the "
        f"evaluation loss was {num(turning_point.best)}, and stop there.",
        also=(Do.KEEP_CHECKPOINT,),
        checkpoint=turning_point.step,
    )
    is_soon = turning_point.step <= int(case.loss.steps[0]) + _EARLY * int(np.ptp(case.loss.steps))
    jump = _jump(case, turning_point)
    next_actions = (stop,) if jump else (_LOOK,) if is_soon else ()
    return Evidence(
        because=turning_point.words,
        step=turning_point.step,
        measured=turning_point.measured,
        first=jump or stop,
        next_actions=(*next_actions, *overfitting.next_actions),
        severity=Severity.NOTE if turning_point.is_mild else None,
    )


def _memorized_before(case: Case) -> Evidence | None:
    """Report the end of a run whose evaluation loss no longer falls, far above the training loss.

    A larger multiple may be a sum of many terms.
    """
    pair = with_evaluations(case)
    if pair is None or not is_late_part(case) or improved_score(case) is not None:
        return None
    train, heldout = pair
    ratio = float(heldout.values.min() / train.values.max())
    if len(heldout) < MIN_SAMPLE or not TWICE <= ratio <= TENFOLD:
        return None
    falls = mann_kendall(-train.values) < MAX_CHANCE_OF_MANY
    if not falls or mann_kendall(-heldout.values) < MAX_CHANCE:
        return None
    step, begun, now = int(heldout.steps[0]), float(train.values[0]), float(train.values[-1])
    best = float(heldout.values.min())
    return Evidence(
        because=f"Since {case.unit} {step} the training loss went from {num(begun)} to {num(now)}, "
        f"but the evaluation loss did not fall: it was never below {num(best)}.",
        step=step,
        measured={"first_loss": begun, "loss": now, "best_eval_loss": best},
        first=Action(
            Do.STOP_EARLY,
            f"Keep the checkpoint of the best evaluation before {case.describe(step)}, and stop "
            "there: since then only the training loss has improved.",
            also=(Do.KEEP_CHECKPOINT,),
        ),
    )


def memorizing_turn(case: Case) -> TurningPoint | None:
    """Return the rise of the evaluation loss if the training loss fell and no score improved."""
    turning_point = find_turn(case)
    # A few noisy evaluations are sufficient if the training loss has halved since.
    if turning_point is None or not turning_point.falls or not turning_point.is_beyond_noise:
        return None
    if not (turning_point.is_clear or turning_point.runs_away):
        return None
    # Examples that the model sees for the first time cannot have been memorized, and a gap from the
    # start says more than a small rise.
    gap = find_gap(case)
    if gap is not None and (gap.is_of_first_epoch or turning_point.is_small):
        return None
    return None if _better_score(case, turning_point) is not None else turning_point


def is_memorizing(case: Case) -> bool:
    """Return True if the evaluation loss rises while the training loss keeps falling."""
    return memorizing_turn(case) is not None


def carries_nothing(case: Case, turning_point: TurningPoint) -> bool:
    """Return True if the best evaluation does not beat an untrained model, and did not jump.

    In a log that begins later, the first losses are those of a trained model.
    """
    if not from_the_start(case):
        return False
    begun, best = beginning(case.loss.values), turning_point.best
    # Far above the loss of an untrained model, evaluations are made by another mode or inputs.
    is_far = best > case.limits.generalization.gap * begun
    is_unlearned = best > UNLEARNED * begun and (is_far or not is_mostly_right(case))
    return is_unlearned and _jump(case, turning_point) is None


def is_mostly_right(case: Case) -> bool:
    """Return True if most evaluation examples are right, so the model has learned something.

    The first loss of a log with one record per epoch is not the loss of an untrained model.
    """
    right = case.history.finite("eval_accuracy").values
    return len(right) > 0 and end_level(right) / full_scale(right.max()) >= HALF


def _jump(case: Case, turning_point: TurningPoint) -> Action | None:
    """Return the action for a sudden jump of the evaluation loss after the best evaluation."""
    heldout = case.history.finite("eval_loss")
    x = heldout.values
    best = int(np.searchsorted(heldout.steps, turning_point.step))
    rises = np.diff(x)
    at = best + int(rises[best:].argmax())
    least = _JUMP_FRACTION * (evaluation_level(x) - float(x.min()))
    if at < _MIN_EVALUATIONS_BEFORE or rises[at] < max(
        least, CLEAR * diff_sigma(x[at // 2 : at + 1])
    ):
        return None
    since, step = int(heldout.steps[at]), int(heldout.steps[at + 1])
    return Action(
        Do.INSPECT_DATA,
        f"Find out what changed between {case.unit}s {since} and {step}, where the evaluation loss "
        f"jumped from {num(float(x[at]))} to {num(float(x[at + 1]))}: the shard, the "
        "preprocessing, a resume.",
        step=step,
    )


@Symptom(
    slug="eval-rising",
    title="The evaluation loss rises, but not from overfitting",
    needs=("loss", "eval_loss"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    preconditions=FEW_EVALUATIONS,
    next_actions=(
        Action(
            Do.CHECK_EVALUATION,
            "Check that the evaluation data is the same, and that averaged weights and batch-norm "
            "statistics are saved and loaded.",
        ),
        Action(Do.LOWER_LR, "Lower the learning rate: the weights may be drifting."),
    ),
)
def eval_rising(case: Case) -> Evidence | None:
    """Does the evaluation loss rise although the training loss no longer falls?"""
    turning_point = find_turn(case)
    if (
        turning_point is None
        or turning_point.falls
        or turning_point.is_mild
        or not (turning_point.is_clear and turning_point.is_beyond_noise)
    ):
        return None
    if _better_score(case, turning_point) is not None:
        return None
    heldout = case.history.finite("eval_loss")
    rises = np.diff(heldout.values[heldout.steps >= turning_point.step])
    # A few noisy evaluations go up and down.
    if len(heldout) < MIN_TREND_POINTS and bool((rises < 0).any()):
        return None
    return Evidence(
        because=turning_point.words,
        step=turning_point.step,
        measured=turning_point.measured,
        first=Action(
            Do.CHECK_EVALUATION,
            f"Keep the checkpoint nearest to {case.describe(turning_point.step)} and evaluate it "
            "again on the same data in evaluation mode: a different number means that the "
            "evaluation changed.",
            also=(Do.KEEP_CHECKPOINT,),
            checkpoint=turning_point.step,
        ),
    )


@Symptom(
    slug="overconfident",
    severity=Severity.NOTE,
    title="The evaluation loss rises while a score improves",
    needs=("loss", "eval_loss", "eval_accuracy or score"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    preconditions=FEW_EVALUATIONS,
    next_actions=(
        Action(
            Do.REGULARIZE,
            "If you need the probabilities, calibrate them: temperature scaling on held-out data, "
            "or label smoothing.",
        ),
    ),
)
def overconfident(case: Case) -> Evidence | None:
    """Does the evaluation loss rise while a score of the evaluations keeps improving?"""
    turning_point = find_turn(case)
    if turning_point is None or turning_point.is_mild:
        return None
    if not (turning_point.is_clear or turning_point.runs_away):
        return None
    better = _better_score(case, turning_point)
    if better is None:
        return None
    score, value_at_turn = better
    best = score.best_position
    step, value = int(score.series.steps[best]), float(score.series.values[best])
    return Evidence(
        because=f"{turning_point.words} Since then {score.name!r} went from "
        f"{num(value_at_turn)} to {num(value)}: the model still improves, and is more confident "
        "where it is wrong.",
        step=turning_point.step,
        measured=turning_point.measured | {"score_at_turn": value_at_turn, "best_score": value},
        first=Action(
            Do.KEEP_CHECKPOINT,
            f"Choose the checkpoint by the score that matters: {case.describe(step)} by "
            f"{score.name!r}, {case.describe(turning_point.step)} by the loss.",
            checkpoint=step,
        ),
        severity=Severity.WARNING if turning_point.is_far else None,
    )


def _better_score(case: Case, turning_point: TurningPoint) -> tuple[Score, float] | None:
    """Return a held-out score that improved since a step, with its value there, if none dropped.

    The score has to be better at the end of the run than at that step, not only in between.
    """
    gains = [(score, score.later_gain(turning_point.step)) for score in heldout_scores(case)]
    comparable = [(score, gain) for score, gain in gains if gain is not None]
    improved = [score for score, gain in comparable if score.is_material(gain)]
    if not improved or len(improved) < sum(gain < 0 for _, gain in comparable):
        return None
    score = improved[0]
    return score, float(score.series.until(turning_point.step).values[-1])


@Symptom(
    slug="underfitting",
    severity=Severity.NOTE,
    title="Both losses end near chance",
    needs=("loss", "eval_loss", "manifest.vocab_size"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    preconditions=(few_trained, *FEW_EVALUATIONS),
    next_actions=(
        Action(Do.CHANGE_MODEL, "Use a larger model."),
        Action(Do.REGULARIZE_LESS, "Reduce weight decay, dropout and label smoothing."),
    ),
)
def underfitting(case: Case) -> Evidence | None:
    """Are both losses still near chance at the end of the run?"""
    pair, after, classes = (
        with_evaluations(case),
        losses_after_warmup(case),
        case.manifest.vocab_size,
    )
    chance = chance_loss(case)
    if pair is None or chance is None:
        return None
    last = end_level(after.values)
    heldout = evaluation_level(pair[1].values)
    learned = last < chance * (1 - CLEAR * case.limits.learning.chance_band)
    if not learned or last < case.limits.generalization.underfit * chance or heldout < last:
        return None
    end = int(after.steps[-1])
    rate, kinds = "raise the learning rate carefully", (Do.RAISE_LR,)
    if starts_pretrained(case):
        rate, kinds = "use a larger model", (Do.CHANGE_MODEL,)
    return Evidence(
        because=f"After {end} {case.unit}s the training loss is {num(last)} and the evaluation "
        f"loss {num(heldout)}; random guessing among {classes} classes gives {num(chance)}.",
        measured={"loss": last, "eval_loss": heldout, "log_k": chance},
        first=Action(
            Do.KEEP_GOING,
            f"Train longer than {end} {case.unit}s if the loss still falls; otherwise {rate}.",
            also=kinds,
            step=end,
        ),
    )


@Symptom(
    slug="eval-nonfinite",
    confidence=Confidence.HIGH,
    title="The evaluation loss is not finite",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    next_actions=(
        Action(Do.INSPECT_DATA, "Look for empty batches and fully masked labels: 0/0 is NaN."),
        Action(Do.CHECK_PRECISION, "Evaluate in fp32: autocast may overflow here."),
        Action(Do.CHECK_EVALUATION, "Keep NaN out of averages, early stopping and best models."),
    ),
)
def eval_nonfinite(case: Case) -> Evidence | None:
    """Is an evaluation loss NaN or infinite while the training loss is finite?"""
    heldout = case.history.series["eval_loss"]
    bad = ~np.isfinite(heldout.values)
    # Before its first evaluation, a program may print NaN in place of a value.
    is_placeholder = bool(np.isnan(heldout.values[0])) and len(heldout) >= MIN_TREND_POINTS
    if not bad.any() or (is_placeholder and not bad[1:].any()):
        return None
    first, count = int(heldout.steps[bad][0]), int(bad.sum())
    of = f" ({count} of {len(heldout)} evaluations)" if len(heldout) > 1 else ""
    return Evidence(
        because=f"The evaluation loss is not finite at {case.unit} {first}{of}; the training loss "
        "is.",
        step=first,
        measured={"steps": count, "total": len(heldout)},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to {case.describe(first)} batch by batch to find the "
            "example whose loss is not finite.",
            step=first,
        ),
    )
