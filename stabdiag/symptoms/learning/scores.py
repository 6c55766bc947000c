"""Scores that collapse or get worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.roles.scores import Direction
from stabdiag.model.text import num
from stabdiag.stats.course import measure_course, moving_medians
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    CONTEXT_POINTS,
    FIFTH,
    HALF,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    QUARTER,
    TWENTIETHS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.learning.nonfinite import nonfinite_evidence
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
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
MIN_SCORES: Final = MIN_VALUES


def few_scores(case: Case) -> str:
    """Return the reason why no score is long enough to show a collapse, or ""."""
    longest = max((len(score.series) for score in scores(case)), default=0)
    return "" if longest >= MIN_SCORES else too_few(MIN_SCORES, f"{longest} of a score")


@Symptom(
    slug="score-collapsed",
    severity=Severity.ERROR,
    title="A score collapsed",
    needs=("accuracy or eval_accuracy or score",),
    preconditions=(few_scores,),
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
    useless = score.guess_value
    if len(score.series) < MIN_SCORES:
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


def _is_much(score: Score, best: float, last: float) -> bool:
    """Return True if a score lost a fifth, or if a good one got a quarter more errors.

    A twentieth of all examples is wrong in addition.
    """
    low, high = sorted((abs(best), abs(last)))
    if low <= (1 - FIFTH) * high:
        return True
    if score.direction is not Direction.HIGHER or not score.scale:
        return False
    errors, more = score.scale - best, best - last
    return more >= max(QUARTER * errors, NEGLIGIBLE * score.scale)


def _decline(case: Case, score: Score) -> Evidence | None:
    """Report a held-out score that gets steadily worse while the loss falls, as from overfitting.

    Evaluation losses show it better, and a policy or a generator has no such loss.
    """
    history, loss = case.history, case.loss
    if not score.is_heldout or "eval_loss" in history.series or "reward" in history.series:
        return None
    if history.loss_kind is LossKind.ADVERSARIAL or len(score.series) < MIN_SAMPLE:
        return None
    useless = score.guess_value
    good, _, steps, medians = _course(score, useless)
    level = moving_medians(good)
    at = int(np.argmax(level))
    best, last = float(level[at]), float(level[-1])
    lost = best - last
    if not _is_much(score, best, last) or lost <= CLEAR * diff_sigma(good):
        return None
    if 0 < best < _LEAST_LOSS * score.scale:
        return None
    # Memorization is gradual: no jump accounts for half of it.
    jump = float(np.diff(level[at:]).min(initial=0.0))
    if mann_kendall(-good[at + 1 :]) > MAX_CHANCE or jump < -HALF * lost:
        return None
    step = int(steps[at + MIN_CONSECUTIVE - 1])
    begun, now = loss.until(step).values[-MIN_CONSECUTIVE:], loss.values[-MIN_CONSECUTIVE:]
    # The accuracy of a model that is mostly right falls before the loss has halved.
    is_good = best >= (1 - QUARTER) * score.scale > 0
    least_fall = case.limits.generalization.train_fall if is_good else HALF
    if not len(begun) or not 0 < median(now) < (1 - least_fall) * median(begun):
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
