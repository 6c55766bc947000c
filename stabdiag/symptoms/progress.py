"""Runs that are stable and show no learning, and scores that collapse."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.roles.names import words_of
from stabdiag.model.text import num
from stabdiag.stats.levels import MIN_CONSECUTIVE, levels
from stabdiag.stats.quantiles import MIN_TREND_POINTS, diff_sigma, median
from stabdiag.symptoms.losses import (
    RANGE_TEST,
    TENTHS,
    few_trained,
    from_the_start,
    has_ended,
    no_course,
    small_test,
)
from stabdiag.symptoms.settings import change_of, far_settings, lacks_warmup
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import Progress, find_progress, learns_clearly
from stabdiag.tree.scores import Score, scores

# A loss that ends within this fraction of log K, or above, is no better than a guess.
_NEAR_CHANCE: Final = 0.05

# An accuracy below this, after this many epochs, is low; that it is too low shows in the loss.
_LOW_ACCURACY: Final = 0.5
_MANY_EPOCHS: Final = 10

# A score has collapsed if it ends below this fraction of its best and has lost this fraction of
# what it had gained. Scores of a sound run go up and down by a tenth.
_COLLAPSED: Final = 0.4
_LOST_GAIN: Final = 0.5

# Of a score between 0 and 1, or 0 and 100, this fraction has to be lost: a score that never was
# good cannot collapse.
_LEAST_LOSS: Final = 0.2

# Three values for the best level and three for the last one.
_MIN_SCORES: Final = 2 * MIN_CONSECUTIVE

# A perplexity follows from the loss: one that never changes is a constant of the program.
_PERPLEXITY: Final = frozenset({"ppl", "perplexity"})

_LEARNING: Final = (
    *("loss-constant", "plateau-at-chance", "not-learning", "learning-slow", "lr-too-high"),
    *("loss-oscillating", "reward-not-rising", "score-collapsed", "eval-constant"),
)


def _few_losses(case: Case) -> str:
    """Return why the log is too short to show progress, or ""."""
    longest = max(len(case.loss), len(case.history.finite("reward")))
    return "" if longest >= MIN_TREND_POINTS else too_few(MIN_TREND_POINTS, f"{longest} of loss")


@Symptom(
    slug="no-progress",
    severity=Severity.NOTE,
    family="learning",
    title="Stable, but no learning shown",
    needs=("loss or reward",),
    enough=(_few_losses,),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    yields_to=_LEARNING,
    then=(
        RANGE_TEST,
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
    ),
)
def no_progress(case: Case) -> Evidence | None:
    """Does nothing end better than it began, beyond its noise, or the loss only at chance?"""
    progress = find_progress(case)
    little = _learned_little(case, progress) if progress.better else None
    # A shorter log, in which spikes cannot be tested, says no more than that.
    is_short = max(len(case.loss), len(case.history.finite("reward"))) < case.min_losses_for_spikes
    if little is not None or is_short:
        return little
    # The loss of a policy or of two networks that compete shows no progress either way.
    is_unknown = progress.better is None and case.loss_kind is not None
    if is_unknown or starts_pretrained(case):
        return None
    chance = _chance(case)
    # A loss that comes down to what a guess costs has learned nothing yet.
    if progress.better and (chance is None or few_trained(case) or _has_better_score(progress)):
        return None
    return _evidence(case, progress, chance)


def _has_better_score(progress: Progress) -> bool:
    return any(change.better for change in progress.changes if change.role != "loss")


def _evidence(case: Case, progress: Progress, chance: _Chance | None) -> Evidence:
    if progress.better:
        words = ["The loss falls, and ends no better than a guess."]
    elif progress.better is None:
        words = ["The loss cannot be compared from beginning to end, and no score was logged."]
    else:
        words = ["Nothing that was logged ends better than it began, beyond its noise."]
    words.append(progress.sentence)
    if chance is not None:
        words.append(chance.text)
    elif not from_the_start(case) and len(case.loss):
        words.append(f"The log begins at {case.unit} {int(case.loss.steps[0])}.")
    level = change.last if (change := progress.change_of("loss")) is not None else None
    small, far = _first_action(case, level), far_settings(case)
    words += [setting.text for setting in far]
    if lacks_warmup(case):
        words.append("There is no warm-up.")
    is_warning = chance is not None and not few_trained(case)
    return Evidence(
        because=" ".join(filter(None, words)),
        step=int(case.loss.steps[0]) if len(case.loss) else None,
        measured=progress.measured | ({} if chance is None else chance.measured),
        first=change_of(far[0]) if far else small,
        then=(*map(change_of, far[1:]), *((small,) if far else ()), *no_progress.then),
        severity=Severity.WARNING if is_warning else None,
    )


def _learned_little(case: Case, progress: Progress) -> Evidence | None:
    """Report an accuracy that is low after many epochs in which the loss fell little.

    Nothing of that is odd for a task with thousands of answers, or for a model that starts
    pretrained; a loss that fell from log K by less than a third says that most is left to learn.
    """
    loss = progress.change_of("loss")
    # What part of the tokens is right says little.
    accuracies = [
        score.series
        for score in scores(case)
        if score.series.role in ("accuracy", "eval_accuracy")
        and "token" not in words_of(score.name)
    ]
    if loss is None or not accuracies or starts_pretrained(case) or no_course(case):
        return None
    values = accuracies[0].values
    right = median(values[-MIN_CONSECUTIVE:]) / (100.0 if values.max() > 1 else 1.0)
    is_long = _epochs(case) >= _MANY_EPOCHS or has_ended(case)
    if not is_long or right >= _LOW_ACCURACY or learns_clearly(case, progress):
        return None
    fell = (loss.first - loss.last) / loss.first if loss.first > 0 else 0.0
    return Evidence(
        title="Stable, but little was learned",
        because=f"{progress.sentence} The loss fell by {fell:.0%}, and "
        f"{accuracies[0].column!r} is {right:.0%} at the end.",
        step=int(case.loss.steps[0]),
        measured=progress.measured | {"accuracy": right},
        first=small_test(loss.last),
        severity=Severity.WARNING,
    )


def _epochs(case: Case) -> float:
    """Return how many epochs a log spans, 0 if that is unknown."""
    if case.history.counts_epochs:
        return float(len(case.loss))
    epochs = case.history.finite("epoch").values
    if len(epochs):
        return float(np.ptp(epochs))
    # A run that did all its steps did all its epochs.
    planned = other_number(case.manifest.others(case.history.config), "epochs")
    return planned if planned is not None and has_ended(case) else 0.0


@frozen
class _Chance:
    """A loss that ends no better than a guess, in words and numbers."""

    text: str
    measured: dict[str, Scalar]


def _chance(case: Case) -> _Chance | None:
    """Return that the loss ends at chance or above, if log K is known."""
    cost = chance_loss(case)
    if cost is None or not from_the_start(case):
        return None
    last = float(levels(case.loss.values, TENTHS)[-1])
    if last < (1 - _NEAR_CHANCE) * cost:
        return None
    classes = case.manifest.vocab_size
    return _Chance(
        text=f"A guess among {classes} classes costs {num(cost)}.", measured={"log_k": cost}
    )


def _first_action(case: Case, level: float | None) -> Action:
    """Return what shows whether the model can learn: for a policy, an easy task."""
    if level is None or "reward" in case.history.series:
        return Action(
            Do.TRY_SMALL,
            "Run the same code on a task that is solved within minutes: if nothing improves "
            "there either, the fault is in the code.",
        )
    return small_test(level)


def _scale(good: Floats) -> float:
    """Return the range that a score can have: 1 or 100 if its values say so, else 0 for unknown."""
    highest = float(np.abs(good).max())
    return 1.0 if highest <= 1 else 100.0 if highest <= 100 else 0.0


def _few_scores(case: Case) -> str:
    """Return why no score is long enough to show a collapse, or ""."""
    longest = max((len(score.series) for score in scores(case)), default=0)
    return "" if longest >= _MIN_SCORES else too_few(_MIN_SCORES, f"{longest} of a score")


@Symptom(
    slug="score-collapsed",
    severity=Severity.ERROR,
    family="generalisation",
    title="A score collapsed",
    needs=("accuracy or eval_accuracy or score",),
    enough=(_few_scores,),
    explained_by=("nan",),
    then=(
        Action(
            Do.CHECK_EVALUATION,
            "Evaluate an earlier checkpoint with the code of now: a low score means that the "
            "evaluation changed, not the model.",
        ),
        Action(Do.LOWER_LR, "If the model changed, restart from there at a lower learning rate."),
    ),
)
def score_collapsed(case: Case) -> Evidence | None:
    """Did a score lose most of what it had gained, and stay down?"""
    collapses = (_collapse(case, score) for score in scores(case))
    return next((evidence for evidence in collapses if evidence is not None), None)


def _collapse(case: Case, score: Score) -> Evidence | None:
    good, steps = score.goodness, score.series.steps
    if len(good) < _MIN_SCORES:
        return None
    # The best value may be luck: the best level of three in a row counts.
    level = np.array(
        [median(good[i : i + MIN_CONSECUTIVE]) for i in range(len(good) - MIN_CONSECUTIVE + 1)]
    )
    at = int(np.argmax(level))
    best, last = float(level[at]), float(level[-1])
    lost, gained = best - last, best - float(good[0])
    noise = 3 * diff_sigma(good)
    is_far = last < _COLLAPSED * best if best > 0 else last < best / _COLLAPSED
    least = max(noise, _LOST_GAIN * gained, _LEAST_LOSS * _scale(good))
    if not is_far or lost <= least or at + MIN_CONSECUTIVE >= len(good):
        return None
    best_value, last_value = best * score.direction, last * score.direction
    below = np.flatnonzero(good < (best + last) / 2)
    step = int(steps[at + MIN_CONSECUTIVE - 1])
    onset = int(steps[below[below > at][0]]) if (below > at).any() else step
    return Evidence(
        because=f"{score.name!r} was {num(best_value)} at {case.unit} {step} and is "
        f"{num(last_value)} at the end ({case.unit} {int(steps[-1])}, "
        f"medians of {MIN_CONSECUTIVE}); it began at {num(float(score.series.values[0]))}.",
        step=onset,
        measured={"best": best_value, "last": last_value},
        first=Action(
            Do.KEEP_CHECKPOINT,
            f"Keep the checkpoint nearest to {case.describe(step)}, and find out what changed "
            f"before {case.describe(onset)}: data, learning rate, evaluation.",
            also=(Do.INSPECT_DATA,),
            checkpoint=step,
        ),
    )


@Symptom(
    slug="score-constant",
    family="generalisation",
    title="No score changes",
    needs=("accuracy or eval_accuracy or score",),
    enough=(_few_scores,),
    explained_by=("nan",),
    yields_to=("plateau-at-chance", "loss-constant", "eval-constant", "not-learning"),
    then=(
        Action(Do.CHECK_LABELS, "Check that the labels of the evaluation are those of training."),
    ),
)
def score_constant(case: Case) -> Evidence | None:
    """Does every score keep one value while the loss falls?"""
    still = [
        score
        for score in scores(case)
        if len(score.series) >= _MIN_SCORES and not _PERPLEXITY & set(words_of(score.name))
    ]
    if not still or any(np.ptp(score.goodness) for score in still):
        return None
    loss = find_progress(case).change_of("loss")
    # A score that is perfect has nowhere to go.
    imperfect = [score for score in still if not _is_perfect(score)]
    if loss is None or not loss.better or not imperfect:
        return None
    score = imperfect[0]
    value, steps = float(score.series.values[0]), score.series.steps
    first, last = int(steps[0]), int(steps[-1])
    return Evidence(
        because=f"{score.name!r} is {num(value)} at all {len(score.series)} evaluations, from "
        f"{case.unit} {first} to {last}, while the loss went {loss.text}.",
        step=first,
        measured={"value": value, "evaluations": len(score.series)},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Print 20 predictions with their labels as {score.name!r} compares them: look for "
            "another label format, an empty prediction, a threshold that nothing reaches.",
            also=(Do.CHECK_LABELS,),
        ),
    )


def _is_perfect(score: Score) -> bool:
    best = score.goodness[0]
    return bool(best == 0 if score.direction < 0 else best in (1.0, 100.0))
