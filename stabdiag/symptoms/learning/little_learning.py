"""Little learning: a low accuracy after many epochs, a tiny fall, or a guess of the mean."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.roles.names import name_words
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, percent
from stabdiag.stats.course import early_high, end_level, evaluation_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    FAR_RATIO,
    HALF,
    LEAST,
    MIN_COMPARED,
    NEGLIGIBLE,
    QUARTERS,
    TENTHS,
)
from stabdiag.symptoms.gradients.clipping import tiny_clip
from stabdiag.symptoms.learning.causes import rose_far
from stabdiag.symptoms.learning.rate_fixes import (
    lower_rate,
    lr_out_of_range,
    rate_near_low,
    unfinished_warmup,
)
from stabdiag.symptoms.losses import (
    RANGE_TEST,
    has_ended,
    losses_after_warmup,
    no_course,
    small_test,
)
from stabdiag.symptoms.schedule.settings import lacks_warmup
from stabdiag.symptoms.schedule.warmup import lr_no_warmup
from stabdiag.symptoms.symptom import Evidence
from stabdiag.tree.advice.settings import far_settings, replacement
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained
from stabdiag.tree.progress import Progress, learns_clearly
from stabdiag.tree.scores import CLEAR_CHANGE, Score, heldout_scores, scores

# An accuracy below this, after this many epochs, is low. The loss shows whether it is too low.
_LOW_ACCURACY: Final = HALF
_MANY_EPOCHS: Final = 10

_TRAIN_MORE: Final = Action(
    Do.CHANGE_MODEL,
    "If it can learn, train longer, use a larger model, or raise the learning rate carefully.",
    also=(Do.KEEP_GOING, Do.RAISE_LR),
)

_COMPARE_EXAMPLES: Final = Action(
    Do.CHECK_LABELS,
    "Print 20 training and 20 evaluation examples with their labels, as the model gets them: it "
    "learns its training examples, and nothing that carries over. Look for labels that belong to "
    "other inputs.",
    also=(Do.INSPECT_DATA,),
)

LEARNING_CHECKS: Final = (
    RANGE_TEST,
    Action(Do.CHECK_LABELS, "Check for shuffled labels, shifted targets and a wrong mask."),
    Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
)

# If the loss rose far above its start and the model learned nothing, a spike that recovered is not
# reported.
EXPLAINED_RISES = ("spike-recovered",)


def causes_of_missing_progress(case: Case, test: Action) -> tuple[list[str], Action, list[Action]]:
    """Return the causes of missing progress in the settings, and the actions, a ``test`` last."""
    far = far_settings(case)
    words = [setting.text for setting in far]
    if lacks_warmup(case):
        words.append("The schedule has no warm-up.")
    first, *others = [*map(replacement, far), test]
    rate = unfinished_warmup(case)
    if rate is None and not far:
        rate = lr_out_of_range(case) or _far_rise(case) or rate_near_low(case) or tiny_clip(case)
    if rate is not None:
        text, fix = rate
        words.append(text)
        first, others = fix, [first, *others]
    return words, first, others


def _far_rise(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a loss that rose far above its first value."""
    if not has_risen(case):
        return None
    return describe_rise(case), lower_rate(case)


def describe_rise(case: Case) -> str:
    """State the rise of a loss that ``has_risen``."""
    x = case.loss.values
    return f"The loss had risen from {num(float(x[0]))} to {num(float(x.max()))}."


def has_risen(case: Case) -> bool:
    """Return True if the loss rose far above its first value, for a while or in the first steps."""
    if rose_far(case) or lr_no_warmup.evidence(case) is not None:
        return True
    x = case.loss.values
    return len(x) > CONTEXT_POINTS and early_high(x, CONTEXT_POINTS)[0] > FAR_RATIO * x[0] > 0


def find_little_progress(case: Case, progress: Progress) -> Evidence | None:
    """Report little progress: a low accuracy after many epochs, or a tiny fall of the loss.

    That is normal for a task with thousands of answers, or for a pretrained model. Then the
    loss is high: a guess among as many answers would be right far less often. A loss that fell by
    less than a third from log K means that there is much left to learn. Early in a run, a loss and
    an accuracy that hardly changed are a note, as is a loss that crawls along a line.
    """
    loss = progress.role_change("loss")
    if loss is None or starts_pretrained(case) or no_course(case):
        return None
    fell = (loss.first - loss.last) / loss.first if loss.first > 0 else 0.0
    # Token accuracy says little.
    accuracies = [
        score
        for score in scores(case)
        if score.series.role in ("accuracy", "eval_accuracy")
        and "token" not in name_words(score.name)
    ]
    if not accuracies:
        return _little(case, progress, fell) if _crawls(case, progress) else None
    values = accuracies[0].series.values
    right = evaluation_level(values) / full_scale(values.max())
    learns = learns_clearly(case, progress) and not _evaluations_stay(progress, loss.last)
    if right >= _LOW_ACCURACY or learns or _is_right_among_many(accuracies[0], right, loss.last):
        return None
    # In the first tenth of the planned steps, an accuracy may still be low.
    planned: float | None = progress.planned
    if planned is None and case.history.counts_epochs:
        planned = other_number(case.settings, "epochs")
    is_early = planned is not None and progress.done * TENTHS < planned
    is_long = (_epochs(case) >= _MANY_EPOCHS and not is_early) or has_ended(case)
    if not is_long and not _is_at_its_start(case, accuracies[0], fell):
        return None
    evidence = _little(case, progress, fell)
    return replace(
        evidence,
        because=f"{evidence.because} {accuracies[0].name!r} is {right:.0%} at the end.",
        measured=progress.measured | {"accuracy": right},
        first=_COMPARE_EXAMPLES if _only_memorizes(progress) else evidence.first,
        severity=Severity.WARNING if is_long else None,
        explains=EXPLAINED_RISES if is_long and has_risen(case) else (),
    )


def _little(case: Case, progress: Progress, fell: float) -> Evidence:
    words, first, others = causes_of_missing_progress(case, small_test(end_level(case.loss.values)))
    is_fall = fell > 0 and not has_risen(case)
    fall = f"The loss fell by {percent(fell, 2)} of its first value." if is_fall else ""
    return Evidence(
        title="Stable, but little was learned",
        because=" ".join(filter(None, (progress.sentence, fall, *words))),
        step=int(case.loss.steps[0]),
        measured=dict(progress.measured),
        first=first,
        next_actions=(*others, _TRAIN_MORE, *LEARNING_CHECKS),
    )


def _evaluations_stay(progress: Progress, last: float) -> bool:
    """Return True if a loss ends near evaluations whose loss and accuracy did not improve.

    It only fell from a start that was worse than that, such as the mean of a first epoch.
    """
    heldout, right = map(progress.role_change, ("eval_loss", "eval_accuracy"))
    if heldout is None or right is None or right.better is not False:
        return False
    is_still = heldout.first - heldout.last < CLEAR_CHANGE * heldout.first
    return is_still and last > (1 - NEGLIGIBLE) * heldout.last


def _is_right_among_many(accuracy: Score, right: float, loss: float) -> bool:
    """Return True if an accuracy rose far above that of a guess with this cross-entropy.

    A loss of another kind, or of a model that is sure and wrong, may be as high at chance.
    """
    gained = float(accuracy.goodness[-1] - accuracy.goodness[0]) / (accuracy.scale or 1.0)
    return gained >= NEGLIGIBLE and right >= FAR_RATIO * math.exp(-max(loss, 0.0))


def _is_at_its_start(case: Case, accuracy: Score, fell: float) -> bool:
    """Return True if the loss and an accuracy hardly changed since the end of the warm-up."""
    if not accuracy.scale:
        return False
    gained = float(accuracy.goodness[-1] - accuracy.goodness[0]) / accuracy.scale
    is_sampled = len(losses_after_warmup(case)) >= case.limits.learning.min_points
    return is_sampled and max(fell, gained) < NEGLIGIBLE


def _crawls(case: Case, progress: Progress) -> bool:
    """Return True if the loss fell by a tiny fraction and did not slow down on the way.

    A loss that fell fast at first and is flat now may be as low as it can be.
    """
    after, limits = losses_after_warmup(case).values, case.limits.learning
    is_scored = any(change.is_score and change.better for change in progress.changes)
    if is_scored or len(after) < LEAST:
        return False
    parts = levels(after, TENTHS)
    first, middle, last = float(parts[0]), median(parts[QUARTERS:-QUARTERS]), float(parts[-1])
    little = NEGLIGIBLE if _epochs(case) >= _MANY_EPOCHS else limits.min_fall
    is_tiny = first - last < little * first
    return is_tiny and middle - last >= limits.constant_slope * (first - middle) > 0


def find_worse_than_mean(case: Case, progress: Progress) -> Evidence | None:
    """Report a coefficient of determination that ends at 0 or below: a guess of the mean has 0."""
    score = next((score for score in heldout_scores(case) if score.explains_variance), None)
    if score is None or len(score.series) < MIN_COMPARED or no_course(case):
        return None
    level = evaluation_level(score.series.values)
    if level > 0:
        return None
    # Below -1, the outputs are farther from the mean of the targets than the targets are.
    is_far = learns_clearly(case, progress) or level < -1
    standardize = Action(
        Do.INSPECT_DATA,
        "Standardize the targets (subtract their mean, divide by their standard deviation), so "
        "that the outputs do not have to grow to their size first.",
    )
    is_long = _epochs(case) >= _MANY_EPOCHS or has_ended(case)
    small = small_test(end_level(case.loss.values))
    return Evidence(
        title="Stable, but worse than a guess of the mean",
        because=f"{progress.sentence} {score.name!r} ends at {num(level)}, and a guess of the mean "
        "of the targets has 0.",
        step=int(case.loss.steps[0]),
        measured=progress.measured | {"determination": level},
        first=standardize if is_far else small,
        next_actions=(small if is_far else standardize, _TRAIN_MORE, *LEARNING_CHECKS),
        severity=Severity.WARNING if is_long else None,
    )


def _only_memorizes(progress: Progress) -> bool:
    """Return True if the training accuracy improved, and the evaluation accuracy did not."""
    trained, evaluated = map(progress.role_change, ("accuracy", "eval_accuracy"))
    return bool(trained and trained.better and evaluated and evaluated.better is False)


def _epochs(case: Case) -> float:
    """Return the number of epochs in a log, 0 if unknown."""
    if case.history.counts_epochs:
        return float(len(case.loss))
    epochs = case.history.finite("epoch").values
    if len(epochs):
        # Whole numbers count the epochs; the last one is part of the run.
        is_whole = not np.any(epochs % 1)
        return float(np.ptp(epochs)) + is_whole
    # A run that completed its steps completed its epochs.
    planned = other_number(case.settings, "epochs")
    return planned if planned is not None and has_ended(case) else 0.0
