"""Scores that collapse or never change."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.roles.names import is_perplexity, name_words
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.course import measure_course, moving_medians, position_after
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CONTEXT_POINTS,
    FIFTH,
    HALF,
    MAX_CHANCE,
    MAX_CHANCE_OF_MANY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    TWENTIETHS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.learning.nonfinite import nonfinite_evidence
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained
from stabdiag.tree.progress import ProgressChange, find_progress, learns_clearly
from stabdiag.tree.scores import MIN_VALUES, Score, scores

# A score has collapsed if it has also lost this fraction of its gain.
_LOST_GAIN: Final = HALF

# The loss must be at least this fraction of the range of the score (0 to 1, or 0 to 100): a score
# that was never good cannot collapse. Scores of rankings, or of many classes, are lower: they have
# to reach the smaller fraction, and to stay at each level for a while.
_LEAST_LOSS: Final = FIFTH
_LEAST_BEST: Final = NEGLIGIBLE

# More scores than this belong to single batches or games; three parts are a twentieth of them.
_MAX_SINGLE_SCORES: Final = MIN_CONSECUTIVE * TWENTIETHS

# Three values for the best level and three for the last one.
_MIN_SCORES: Final = MIN_VALUES


# Scores of generated text are 0 until whole phrases match. A program may print a 0 until it
# evaluates.
_TEXT_SCORES: Final = frozenset({"bleu", "sacrebleu", "rouge", "meteor", "chrf", "cider"})

# Names of the area under the ROC curve.
_AREA_NAMES: Final = frozenset({"auc", "auroc", "rocauc", "aucroc"})


def _few_scores(case: Case) -> str:
    """Return the reason why no score is long enough to show a collapse, or ""."""
    longest = max((len(score.series) for score in scores(case)), default=0)
    return "" if longest >= _MIN_SCORES else too_few(_MIN_SCORES, f"{longest} of a score")


@Symptom(
    slug="score-collapsed",
    severity=Severity.ERROR,
    title="A score collapsed",
    needs=("accuracy or eval_accuracy or score",),
    preconditions=(_few_scores,),
    explained_by=("nan",),
    next_actions=(
        Action(
            Do.CHECK_EVALUATION,
            "Evaluate an earlier checkpoint with the current code: a low score means that the "
            "evaluation changed, not the model.",
        ),
        Action(Do.LOWER_LR, "If the model changed, restart from there at a lower learning rate."),
    ),
)
def score_collapsed(case: Case) -> Evidence | None:
    """Did a score lose most of what it had gained, and stay down, or go NaN?"""
    found = (judge(case, score) for judge in (_collapse, _decline) for score in scores(case))
    first = next((evidence for evidence in found if evidence is not None), None)
    return first or _not_finite(case)


def _not_finite(case: Case) -> Evidence | None:
    """Report a score that is not finite from a step to the end."""
    history = case.history
    logged = [history.series.get(role) for role in ("eval_accuracy", "accuracy")]

    def first(step: int) -> Action:
        return Action(
            Do.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to {case.describe(step)}, and look at its "
            "outputs: NaN, or the same for all examples.",
            step=step,
        )

    for series in [*filter(None, logged), *history.group("score").values()]:
        subject = repr(series.column)
        evidence = nonfinite_evidence(case, series, kind="A score", subject=subject, first=first)
        if evidence is not None:
            return replace(evidence, severity=Severity.WARNING)
    return None


def _collapse(case: Case, score: Score) -> Evidence | None:
    useless = _useless(score)
    if len(score.series) < _MIN_SCORES:
        return None
    good, onsets, steps, medians = _course(score, useless)
    # The best value may be luck, so the best level of three in a row is used.
    level = moving_medians(good)
    at = int(np.argmax(level))
    best, last = float(level[at]), float(level[-1])
    lost, gained = best - last, best - float(good[0])
    noise = BEYOND_CHANCE * diff_sigma(good)
    least_left = case.limits.generalization.collapsed_score
    is_far = last < least_left * best if best > 0 else last < best / least_left
    least, is_low = max(noise, _LOST_GAIN * gained), lost <= _LEAST_LOSS * score.scale
    if not is_far or lost <= least or at + MIN_CONSECUTIVE >= len(good):
        return None
    if is_low and best < _LEAST_BEST * score.scale:
        return None
    best_value, last_value = (level * score.direction + useless for level in (best, last))
    below = np.flatnonzero(good < (best + last) / 2)
    step = int(steps[at + MIN_CONSECUTIVE - 1])
    drop = below[below > at][0] if (below > at).any() else len(good)
    if is_low and min(drop, len(good) - drop) < CONTEXT_POINTS:
        return None
    is_high = good >= (best + last) / 2
    # A score that goes up and down is as often high after a drop as before it.
    if np.count_nonzero(is_high[drop:]) >= np.count_nonzero(is_high[:drop]):
        return None
    onset = int(onsets[drop]) if drop < len(good) else step
    return Evidence(
        because=f"{score.name!r} was {num(best_value)} at {case.unit} {step} and is "
        f"{num(last_value)} at the end ({case.unit} {int(steps[-1])}, "
        f"{medians}); it began at {num(float(score.series.values[0]))}.",
        step=onset,
        measured={"best": best_value, "last": last_value},
        first=Action(
            Do.KEEP_CHECKPOINT,
            f"Keep the checkpoint nearest to {case.describe(step)}, and find out what changed "
            f"before {case.describe(onset)}: data, learning rate, evaluation.",
            also=(Do.INSPECT_DATA,),
            checkpoint=step,
        ),
        severity=Severity.WARNING if is_low else None,
    )


def _course(score: Score, useless: float) -> tuple[Floats, Ints, Ints, str]:
    """Return the levels of a score above a useless one, where each begins and ends, and its name.

    The score of a single batch or of a few games is mostly noise.
    """
    good, steps = score.goodness - useless, score.series.steps
    if len(good) <= _MAX_SINGLE_SCORES:
        return good, steps, steps, f"medians of {MIN_CONSECUTIVE}"
    parts = measure_course(good, _MAX_SINGLE_SCORES)
    medians = f"medians over {MIN_CONSECUTIVE * parts.size} values"
    return parts.levels, steps[parts.starts], steps[parts.ends], medians


def _decline(case: Case, score: Score) -> Evidence | None:
    """Report a held-out score that gets steadily worse while the loss falls, as from overfitting.

    Evaluation losses show it better, and a policy or a generator has no such loss.
    """
    history, loss = case.history, case.loss
    if not score.is_heldout or "eval_loss" in history.series or "reward" in history.series:
        return None
    if history.loss_kind is LossKind.ADVERSARIAL or len(score.series) < MIN_SAMPLE:
        return None
    useless = _useless(score)
    good, _, steps, medians = _course(score, useless)
    level = moving_medians(good)
    at = int(np.argmax(level))
    best, last = float(level[at]), float(level[-1])
    low, high = sorted((abs(best), abs(last)))
    lost = best - last
    if low > (1 - FIFTH) * high or lost <= BEYOND_CHANCE * diff_sigma(good):
        return None
    if 0 < best < _LEAST_LOSS * score.scale:
        return None
    # Memorization is gradual: no jump accounts for half of it.
    jump = float(np.diff(level[at:]).min(initial=0.0))
    if mann_kendall(-good[at + 1 :]) > MAX_CHANCE_OF_MANY or jump < -HALF * lost:
        return None
    step = int(steps[at + MIN_CONSECUTIVE - 1])
    begun, now = loss.until(step).values[-MIN_CONSECUTIVE:], loss.values[-MIN_CONSECUTIVE:]
    if not len(begun) or not 0 < median(now) < HALF * median(begun):
        return None
    # Of precision and recall, one may rise at the cost of the other.
    gains = (other.later_gain(step) for other in scores(case) if other.is_heldout)
    if any(gain is not None and gain > 0 for gain in gains):
        return None
    best_value, last_value = (value * score.direction + useless for value in (best, last))
    return Evidence(
        title="A score gets worse while the loss falls",
        because=f"{score.name!r} was {num(best_value)} at {case.unit} {step} and is "
        f"{num(last_value)} at the end ({case.unit} {int(steps[-1])}, {medians}), while the loss "
        f"went from {num(median(begun))} to {num(median(now))}: this looks like overfitting.",
        step=step,
        measured={"best": best_value, "last": last_value},
        first=Action(
            Do.STOP_EARLY,
            f"Keep the checkpoint nearest to {case.describe(step)}, and stop there: since then "
            "only the training loss has improved.",
            also=(Do.KEEP_CHECKPOINT,),
            checkpoint=step,
        ),
        next_actions=(
            Action(Do.REGULARIZE, "Add regularization (weight decay, dropout), or more data."),
            *score_collapsed.next_actions[:1],
        ),
        severity=Severity.WARNING,
    )


@Symptom(
    slug="score-constant",
    title="No score changes",
    needs=("accuracy or eval_accuracy or score",),
    preconditions=(_few_scores,),
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
        if len(score.series) >= _MIN_SCORES and not is_perplexity(score.name)
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
            return zero or _never_better(case, candidates)
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
        score.direction < 0 or score.series.values[-1] != _useless(score) for score in others
    ):
        return None
    score = others[0]
    useless = _useless(score)
    at = position_after(score.series.values != useless)
    count = len(score.series) - at
    # A score that was above 0 most of the time has collapsed.
    if count < max(_MIN_SCORES, HALF * len(score.series)):
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
        first=Action(
            Do.CHECK_EVALUATION,
            "Count the predictions and the labels of each class in one evaluation. If only the "
            "most frequent class is predicted, weight the loss by class, sample the classes "
            "evenly, or lower the threshold.",
            also=(Do.CHECK_LABELS, Do.INSPECT_DATA),
        ),
    )


def _useless(score: Score) -> float:
    """Return the value of a score that one answer for all examples gets."""
    words = {*name_words(score.name)}
    if not words & _AREA_NAMES or "pr" in words:
        return 0.0
    return HALF * full_scale(float(score.series.values.max()))
