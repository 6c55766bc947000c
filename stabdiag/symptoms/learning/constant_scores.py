"""Scores that never change."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.names import is_perplexity, name_words
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.course import moving_medians, position_after
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    HALF,
    MAX_CHANCE,
    MIN_SAMPLE,
    RELATIVE_TOLERANCE,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.learning.scores import MIN_SCORES, few_scores
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained
from stabdiag.tree.progress import ProgressChange, find_progress, learns_clearly
from stabdiag.tree.scores import Score, scores

# Scores of generated text are 0 until whole phrases match. A program may print a 0 until it
# evaluates.
_TEXT_SCORES: Final = frozenset({"bleu", "sacrebleu", "rouge", "meteor", "chrf", "cider"})

_COUNT_CLASSES: Final = Action(
    Do.CHECK_EVALUATION,
    "Count the predictions and the labels of each class in one evaluation. If only the most "
    "frequent class is predicted, weight the loss by class, sample the classes evenly, or lower "
    "the threshold.",
    also=(Do.CHECK_LABELS, Do.INSPECT_DATA),
)


@Symptom(
    slug="score-constant",
    title="No score changes",
    needs=("accuracy or eval_accuracy or score",),
    preconditions=(few_scores,),
    explained_by=("nan",),
    yields_to=("plateau-at-chance", "loss-constant", "eval-constant", "not-learning"),
    next_actions=(
        Action(Do.CHECK_LABELS, "Check that evaluation and training use the same labels."),
    ),
)
def score_constant(case: Case) -> Evidence | None:
    """Is every score constant, or every one but the accuracy 0 to its end, while the loss falls?

    A short log, or one without a loss, needs no loss that falls: there it is a note.
    """
    candidates = [
        score
        for score in scores(case)
        # A perplexity follows from the loss: one that never changes is a constant of the program.
        if len(score.series) >= MIN_SCORES and not is_perplexity(score.name)
    ]
    loss = find_progress(case).role_change("loss")
    fewest = case.limits.learning.constant_points
    changes = any(np.ptp(score.goodness) for score in candidates)
    is_short = any(len(score.series) < fewest for score in candidates)
    if not len(case.loss):
        if changes or "reward" in case.history.series:
            return None
    elif loss is None or not loss.better:
        # The accuracy of the training may differ by a few examples.
        moves = (np.ptp(score.goodness) / score.scale for score in candidates)
        if max(moves, default=0.0) > RELATIVE_TOLERANCE or not is_short:
            return None
        loss, changes = None, False
    has_accuracy = any("accuracy" in score.series.role for score in candidates)
    if loss is not None and (has_accuracy or changes):
        zero = _zero_to_end(case, candidates, loss)
        if zero is not None or changes:
            return zero or _constant_accuracy(case, candidates) or _never_better(case, candidates)
    # A perfect score cannot improve.
    imperfect = [
        score for score in candidates if not score.starts_perfect and not np.ptp(score.goodness)
    ]
    if not imperfect:
        return None
    score = imperfect[0]
    is_text_score = bool(_TEXT_SCORES & set(name_words(score.name)))
    if is_text_score and not score.series.values[0] and len(score.series) < fewest:
        return None
    contrast = "" if loss is None else f", while the loss went {loss.text}"
    value, steps = float(score.series.values[0]), score.series.steps
    first, last = int(steps[0]), int(steps[-1])
    return Evidence(
        because=f"{score.name!r} is {num(value)} at all {len(score.series)} evaluations, from "
        f"{case.unit} {first} to {last}{contrast}.",
        step=first,
        measured={"value": value, "evaluations": len(score.series)},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Print 20 predictions with their labels as {score.name!r} compares them: look for "
            "a different label format, an empty prediction, a threshold that is never reached.",
            also=(Do.CHECK_LABELS,),
        ),
        severity=Severity.NOTE if is_short and loss is None else None,
    )


def _constant_accuracy(case: Case, candidates: list[Score]) -> Evidence | None:
    """Report a held-out accuracy that never changes: all examples get the same answer."""
    accuracy = next((own for own in candidates if own.series.role == "eval_accuracy"), None)
    if accuracy is None or accuracy.starts_perfect or np.ptp(accuracy.goodness):
        return None
    if len(accuracy.series) < MIN_SAMPLE or starts_pretrained(case):
        return None
    value, steps = float(accuracy.series.values[0]), accuracy.series.steps
    return Evidence(
        title="The evaluation accuracy never changes",
        because=f"{accuracy.name!r} is {num(value)} at all {len(steps)} evaluations, from "
        f"{case.unit} {int(steps[0])} to {int(steps[-1])}, while other scores change: the model "
        "may give the same answer for all examples.",
        step=int(steps[0]),
        measured={"value": value, "evaluations": len(steps)},
        first=_COUNT_CLASSES,
    )


def _never_better(case: Case, candidates: list[Score]) -> Evidence | None:
    """Report a low evaluation accuracy that never improves although both losses fall.

    If the evaluation loss does not fall, what was learned does not carry over, which is a finding
    of its own.
    """
    progress = find_progress(case)
    heldout, loss = progress.role_change("eval_loss"), progress.role_change("loss")
    accuracy = next((own for own in candidates if own.series.role == "eval_accuracy"), None)
    if accuracy is None or loss is None or heldout is None or heldout.first <= 0:
        return None
    if heldout.last > (1 - case.limits.learning.small_fall) * heldout.first:
        return None
    if starts_pretrained(case) or not learns_clearly(case, progress):
        return None
    x, steps = accuracy.series.values, accuracy.series.steps
    is_low = x.max() < HALF * full_scale(x.max())
    if len(x) < MIN_SAMPLE or not is_low or mann_kendall(x) < MAX_CHANCE:
        return None
    best = float(moving_medians(x).max())
    if best - float(x[0]) > BEYOND_CHANCE * diff_sigma(x):
        return None
    return Evidence(
        title="The accuracy never improves",
        because=f"{accuracy.name!r} is {num(float(x[0]))} at {case.unit} {int(steps[0])} and at "
        f"most {num(float(x.max()))} in {len(x)} evaluations, while the loss went {loss.text} and "
        f"the evaluation loss {heldout.text}.",
        step=int(steps[0]),
        measured={"first": float(x[0]), "best": float(x.max()), "evaluations": len(x)},
        first=Action(
            Do.CHECK_LABELS,
            "Check that the loss and the accuracy use the same target: print 20 predictions with "
            "what the loss compares them with (labels, the outputs of a teacher) and what the "
            "accuracy compares them with.",
            also=(Do.CHECK_LOSS_FUNCTION, Do.CHECK_EVALUATION),
        ),
        severity=Severity.NOTE,
    )


def _zero_to_end(case: Case, candidates: list[Score], loss: ProgressChange) -> Evidence | None:
    """Report a score that ends at 0, so that no example of a class is found.

    A guess of the most frequent class has a high accuracy, but an F1, a recall and a precision of
    0, and an area under the ROC curve of exactly one half. One score of several may be 0 because
    its class or size of object does not occur.
    """
    accuracies = [score for score in candidates if "accuracy" in score.series.role]
    others = [score for score in candidates if score not in accuracies]
    if not others or any(
        score.direction < 0 or score.series.values[-1] != score.guess_value for score in others
    ):
        return None
    score = others[0]
    useless = score.guess_value
    at = position_after(score.series.values != useless)
    count = len(score.series) - at
    # A score that was above 0 most of the time has collapsed.
    if count < max(MIN_SCORES, HALF * len(score.series)):
        return None
    first, last = int(score.series.steps[at]), int(score.series.steps[-1])
    contrast = (
        f", although {accuracies[0].name!r} is {num(float(accuracies[0].series.values[-1]))}"
        if accuracies
        else ""
    )
    return Evidence(
        title="A score is at chance to the end" if useless else "A score is 0 to the end",
        because=f"{score.name!r} is {num(useless)} at the last {count} evaluations, from "
        f"{case.unit} {first} to {last}{contrast}. The loss went {loss.text}.",
        step=first,
        measured={"value": useless, "evaluations": count},
        first=_COUNT_CLASSES,
    )
