"""Runs that are stable and show no learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.roles.names import name_words
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, percent
from stabdiag.stats.course import early_high, end_level, evaluation_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    FAR_RATIO,
    HALF,
    LEAST,
    MIN_COMPARED,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    QUARTERS,
    TENTHS,
)
from stabdiag.symptoms.gradients.clipping import tiny_clip
from stabdiag.symptoms.learning.causes import rose_far
from stabdiag.symptoms.learning.first_loss import initial_loss_off
from stabdiag.symptoms.learning.rate_fixes import (
    lower_rate,
    lr_out_of_range,
    rate_near_low,
    unfinished_warmup,
)
from stabdiag.symptoms.losses import (
    RANGE_TEST,
    diagnose_whole,
    few_trained,
    from_the_start,
    has_ended,
    is_late_part,
    losses_after_warmup,
    no_course,
    small_test,
)
from stabdiag.symptoms.schedule.settings import lacks_warmup
from stabdiag.symptoms.schedule.warmup import lr_no_warmup
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.advice.settings import far_settings, replacement
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import Progress, find_progress, learns_clearly
from stabdiag.tree.scores import CLEAR_CHANGE, Score, heldout_scores, scores

# A loss that ends within this fraction of log K, or above it, does not beat a guess.
_NEAR_CHANCE: Final = NEGLIGIBLE

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

_LEARNING: Final = (
    *("loss-constant", "plateau-at-chance", "not-learning", "learning-slow", "lr-too-high"),
    *("loss-oscillating", "reward-not-rising", "score-collapsed", "eval-constant"),
    *("epoch-pattern", "loss-negative", "grad-vanishing-by-depth"),
)


def _few_losses(case: Case) -> str:
    """Return the reason why the log is too short to show progress, or ""."""
    longest, name = max(len(case.loss), len(case.history.finite("reward"))), "loss"
    if not longest:
        longest, name = max((len(score.series) for score in scores(case)), default=0), "a score"
    return "" if longest >= MIN_TREND_POINTS else too_few(MIN_TREND_POINTS, f"{longest} of {name}")


# After a loss that rose far above its start and learned nothing, a spike that recovered is no news.
_EXPLAINED_RISES = ("spike-recovered",)


@Symptom(
    slug="no-progress",
    severity=Severity.NOTE,
    title="Stable, but no learning shown",
    needs=("loss or reward or accuracy or eval_accuracy or score",),
    preconditions=(_few_losses,),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    yields_to=_LEARNING,
    next_actions=(
        RANGE_TEST,
        Action(Do.CHECK_LABELS, "Check for shuffled labels, shifted targets and a wrong mask."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
    ),
)
def no_progress(case: Case) -> Evidence | None:
    """Does nothing end better than it began, beyond its noise, or the loss only at chance?"""
    progress = find_progress(case)
    worse = _worse_than_mean(case, progress)
    if worse is not None:
        return worse
    # In a log too short to test for spikes, missing progress means nothing, except after many
    # epochs.
    longest = max(len(case.loss), len(case.history.finite("reward")))
    is_short = 0 < longest < case.min_losses_for_spikes
    little = _learned_little(case, progress) if progress.better or is_short else None
    if is_short:
        return little if little is not None and little.severity is Severity.WARNING else None
    if little is not None:
        return little
    if not longest and not _could_improve(case):
        return None
    # A policy loss or an adversarial loss does not show progress either way.
    is_unknown = progress.better is None and case.loss_kind is not None
    if is_unknown or starts_pretrained(case):
        return None
    chance = None if _starts_as_sum(case) else _chance(case)
    # If the loss falls only to chance level, nothing has been learned yet.
    if progress.better and (chance is None or few_trained(case) or _has_better_score(progress)):
        return None
    return _evidence(case, progress, chance)


def _starts_as_sum(case: Case) -> bool:
    """Return True if the first loss is a sum, which is not compared with log K."""
    evidence = initial_loss_off.evidence(case)
    return evidence is not None and not {"examples", "accumulated_batches"}.isdisjoint(
        evidence.measured
    )


def _could_improve(case: Case) -> bool:
    """Return True if every score was logged from the start, and none began at its best value."""
    return all(
        int(score.series.steps[0]) <= 2 * usual_gap(score.series.steps) and not score.starts_perfect
        for score in scores(case)
    )


def _has_better_score(progress: Progress) -> bool:
    return any(change.better for change in progress.changes if change.role != "loss")


def _evidence(case: Case, progress: Progress, chance: _Chance | None) -> Evidence:
    reward = _unusable_reward(case)
    title = ""
    if progress.better:
        words = ["The loss ends no better than a guess."]
    elif progress.better is None:
        other = "no score was logged" if reward is None else f"{reward!r} is never finite"
        words = [f"The loss cannot be compared from beginning to end, and {other}."]
    else:
        words = ["No logged series ends better than it began by more than its noise."]
    words.append(progress.sentence)
    if chance is not None:
        words.append(chance.text)
    elif not len(case.loss) and "reward" not in case.history.series:
        title = "No learning shown"
        words.append("No loss was logged, so NaN, spikes and climbs cannot be tested.")
    elif not from_the_start(case) and len(case.loss):
        words.append(f"The log begins at {case.unit} {int(case.loss.steps[0])}.")
    level = change.last if (change := progress.role_change("loss")) is not None else None
    first, others = _first_action(case, level), list[Action]()
    if is_late_part(case):
        title = "Stable, and flat in this part of the run"
        # The rate and the rises of a part do not explain why the whole run is flat here.
        first, others = diagnose_whole(case), [first]
    else:
        causes, first, others = _causes(case, first)
        words += causes
    if reward is not None:
        text = (
            f"Find out why {reward!r} is never finite: no episode ended, or the environment does "
            "not record its episodes (Monitor in Stable-Baselines)."
        )
        first, others = Action(Do.CHECK_EVALUATION, text), [first, *others]
    little = _learned_little(case, progress)
    is_warning = (chance is not None and not few_trained(case)) or (
        little is not None and little.severity is Severity.WARNING
    )
    return Evidence(
        title=title,
        because=" ".join(filter(None, words)),
        step=int(case.loss.steps[0]) if len(case.loss) else None,
        measured=progress.measured | ({} if chance is None else chance.measured),
        first=first,
        next_actions=(*others, *no_progress.next_actions),
        severity=Severity.WARNING if is_warning else None,
        explains=_EXPLAINED_RISES if is_warning and _has_risen(case) else (),
    )


def _causes(case: Case, test: Action) -> tuple[list[str], Action, list[Action]]:
    """Return what the settings say about missing progress, and the actions, a ``test`` last."""
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
    if not _has_risen(case):
        return None
    x = case.loss.values
    words = f"The loss had risen from {num(float(x[0]))} to {num(float(x.max()))}."
    return words, lower_rate(case)


def _has_risen(case: Case) -> bool:
    """Return True if the loss rose far above its first value, for a while or in the first steps."""
    if rose_far(case) or lr_no_warmup.evidence(case) is not None:
        return True
    x = case.loss.values
    return len(x) > CONTEXT_POINTS and early_high(x, CONTEXT_POINTS)[0] > FAR_RATIO * x[0] > 0


def _unusable_reward(case: Case) -> str | None:
    """Return the column of the reward if none of its values is finite."""
    reward = case.history.series.get("reward")
    is_unusable = reward is not None and len(reward) > 0 and not len(reward.finite())
    return reward.column if reward is not None and is_unusable else None


def _learned_little(case: Case, progress: Progress) -> Evidence | None:
    """Report little progress: a low accuracy after many epochs, or a tiny fall of the loss.

    That is normal for a task with thousands of answers, or for a pretrained model. A loss that fell
    by less than a third from log K means that there is much left to learn. Early in a run, a loss
    and an accuracy that hardly changed are a note, as is a loss that crawls along a line.
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
    if right >= _LOW_ACCURACY or learns:
        return None
    # In the first tenth of the planned steps, an accuracy may still be low.
    is_early = progress.planned is not None and progress.done * TENTHS < progress.planned
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
        explains=_EXPLAINED_RISES if is_long and _has_risen(case) else (),
    )


def _little(case: Case, progress: Progress, fell: float) -> Evidence:
    words, first, others = _causes(case, small_test(end_level(case.loss.values)))
    is_fall = fell > 0 and not _has_risen(case)
    fall = f"The loss fell by {percent(fell, 2)} of its first value." if is_fall else ""
    return Evidence(
        title="Stable, but little was learned",
        because=" ".join(filter(None, (progress.sentence, fall, *words))),
        step=int(case.loss.steps[0]),
        measured=dict(progress.measured),
        first=first,
        next_actions=(*others, _TRAIN_MORE, *no_progress.next_actions),
    )


def _evaluations_stay(progress: Progress, last: float) -> bool:
    """Return True if a loss ends near evaluations that did not improve, nor their accuracy.

    It only fell from a start that was worse than that, such as the mean of a first epoch.
    """
    heldout, right = map(progress.role_change, ("eval_loss", "eval_accuracy"))
    if heldout is None or right is None or right.better is not False:
        return False
    is_still = heldout.first - heldout.last < CLEAR_CHANGE * heldout.first
    return is_still and last > (1 - NEGLIGIBLE) * heldout.last


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
    is_tiny = first - last < limits.min_fall * first
    return is_tiny and middle - last >= limits.constant_slope * (first - middle) > 0


def _worse_than_mean(case: Case, progress: Progress) -> Evidence | None:
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
        next_actions=(small if is_far else standardize, _TRAIN_MORE, *no_progress.next_actions),
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


@frozen
class _Chance:
    """A loss that ends no better than a guess, in words and numbers."""

    text: str
    measured: dict[str, Scalar]


def _chance(case: Case) -> _Chance | None:
    """Return the chance level if log K is known and the loss ends there or above."""
    cost = chance_loss(case)
    if cost is None or not from_the_start(case):
        return None
    last = end_level(case.loss.values)
    if last < (1 - _NEAR_CHANCE) * cost:
        return None
    classes = case.manifest.vocab_size
    return _Chance(
        text=f"Random guessing among {classes} classes gives {num(cost)}.", measured={"log_k": cost}
    )


def _first_action(case: Case, level: float | None) -> Action:
    """Return a test that shows whether the model can learn; for a policy, an easy task."""
    if level is None or "reward" in case.history.series:
        return Action(
            Do.TRY_SMALL,
            "Run the same code on a task that is solved within minutes: if nothing improves "
            "there either, the fault is in the code.",
        )
    return small_test(level)
