"""Runs that are stable, and end no better than they began or no better than a guess."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num
from stabdiag.stats.course import end_level
from stabdiag.stats.quantiles import usual_gap
from stabdiag.stats.standards import MIN_TREND_POINTS, NEGLIGIBLE
from stabdiag.symptoms.learning.first_loss import initial_loss_off
from stabdiag.symptoms.learning.little_learning import (
    EXPLAINED_RISES,
    LEARNING_CHECKS,
    causes_of_missing_progress,
    describe_rise,
    find_little_progress,
    find_worse_than_mean,
    has_risen,
)
from stabdiag.symptoms.losses import (
    diagnose_whole,
    few_trained,
    first_position,
    from_the_start,
    is_late_part,
    small_test,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.evaluations import describe_evaluations
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import Progress, find_progress
from stabdiag.tree.scores import scores

# A loss that ends within this fraction of log K, or above it, does not beat a guess.
_NEAR_CHANCE: Final = NEGLIGIBLE

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


@Symptom(
    slug="no-progress",
    severity=Severity.NOTE,
    title="Stable, but no learning shown",
    needs=("loss or reward or accuracy or eval_accuracy or score",),
    preconditions=(_few_losses,),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    yields_to=_LEARNING,
    next_actions=LEARNING_CHECKS,
)
def no_progress(case: Case) -> Evidence | None:
    """Does nothing end better than it began, beyond its noise, or the loss only at chance?"""
    progress = find_progress(case)
    worse = find_worse_than_mean(case, progress)
    if worse is not None:
        return worse
    # In a log too short to test for spikes, missing progress means nothing, except after many
    # epochs.
    longest = max(len(case.loss), len(case.history.finite("reward")))
    is_short = 0 < longest < case.min_losses_for_spikes
    little = find_little_progress(case, progress) if progress.better or is_short else None
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
    words += (progress.sentence, *describe_evaluations(case))
    if chance is not None:
        words.append(chance.text)
    elif not len(case.loss) and "reward" not in case.history.series:
        title = "No learning shown"
        words.append("No loss was logged, so NaN, spikes and climbs cannot be tested.")
    elif not from_the_start(case) and len(case.loss):
        words.append(f"The log begins at {first_position(case)}.")
    level = change.last if (change := progress.role_change("loss")) is not None else None
    first, others = _first_action(case, level), list[Action]()
    if is_late_part(case):
        title = "Stable, and flat in this part of the run"
        # The rate of a part does not explain why the whole run is flat here.
        words += [describe_rise(case)] if has_risen(case) else []
        first, others = diagnose_whole(case), [first]
    else:
        causes, first, others = causes_of_missing_progress(case, first)
        words += causes
    if reward is not None:
        text = (
            f"Find out why {reward!r} is never finite: no episode ended, or the environment does "
            "not record its episodes (Monitor in Stable-Baselines)."
        )
        first, others = Action(Do.CHECK_EVALUATION, text), [first, *others]
    little = find_little_progress(case, progress)
    is_warning = (chance is not None and not few_trained(case)) or (
        little is not None and little.severity is Severity.WARNING
    )
    return Evidence(
        title=title,
        because=" ".join(filter(None, words)),
        step=int(case.loss.steps[0]) if len(case.loss) else None,
        measured=progress.measured | ({} if chance is None else chance.measured),
        first=first,
        next_actions=(*others, *LEARNING_CHECKS),
        severity=Severity.WARNING if is_warning else None,
        explains=EXPLAINED_RISES if is_warning and has_risen(case) else (),
    )


def _unusable_reward(case: Case) -> str | None:
    """Return the column of the reward if none of its values is finite."""
    reward = case.history.series.get("reward")
    is_unusable = reward is not None and len(reward) > 0 and not len(reward.finite())
    return reward.column if reward is not None and is_unusable else None


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
