"""A cross-entropy that gets the wrong input: it is negative, or stays above a floor."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.names import is_evaluation, is_perplexity
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import capitalized, num
from stabdiag.stats.course import end_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    FIFTH,
    HALF,
    MIN_CONSECUTIVE,
    NEARLY_ALL,
    NEGLIGIBLE,
    QUARTER,
    RELATIVE_TOLERANCE,
    TENTH,
    TENTHS,
)
from stabdiag.symptoms.learning.first_loss import MOSTLY_RIGHT, final_accuracies, initial_loss_off
from stabdiag.symptoms.losses import no_course
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import USUAL_CLASSES, has_chance_level
from stabdiag.tree.progress import ProgressChange, improved_score

# Without an accuracy, the loss must end this close above the floor and never fall below it. The
# floor of two classes, 0.31, is excluded because many healthy runs end there.
_NEAR_FLOOR: Final = NEGLIGIBLE
_LOSS_ROUNDING: Final = 1e-3


def _not_a_cross_entropy(case: Case) -> str:
    """Return the reason why the loss may be negative, or ""."""
    is_game = "reward" in case.history.series or case.loss_kind is not None
    is_plain = has_chance_level(case) and not is_game and not is_evaluation(case.loss.column)
    classifies = (
        case.manifest.vocab_size is not None
        or any(case.history.has(role) for role in ("accuracy", "eval_accuracy"))
        # A perplexity is the exponential of a cross-entropy.
        or any(is_perplexity(series.column) for series in case.history.group("score").values())
    )
    return "" if is_plain and classifies else "needs a cross-entropy"


@Symptom(
    slug="loss-negative",
    title="A cross-entropy is negative",
    needs=("loss", "manifest.vocab_size or accuracy or eval_accuracy or score"),
    explained_by=("nan",),
    preconditions=(at_least(MIN_CONSECUTIVE, "loss"), _not_a_cross_entropy),
    next_actions=(
        Action(
            Do.CHECK_LABELS,
            "Check the range of the labels: binary cross-entropy is negative for labels above 1.",
        ),
    ),
)
def loss_negative(case: Case) -> Evidence | None:
    """Is the loss of a classifier negative from the start?"""
    x = case.loss.values
    last = end_level(x)
    if last >= 0 or median(x) >= 0:
        return None
    score = improved_score(case)
    if score is not None and (is_perplexity(score.name) or not _has_learned(score)):
        score = None
    is_probability = bool(x.min() >= -1)
    # Losses of embeddings may be negative: the model learns if a score says so.
    if score is not None and not is_probability:
        return None
    first = Action(
        Do.CHECK_LOSS_FUNCTION,
        "Pass log-probabilities to the loss (log_softmax), or logits to a cross-entropy: "
        "nll_loss of probabilities is minus their mean."
        if is_probability
        else "Check the sign of the loss: it has to be minus the log-probability of the label.",
    )
    figures = "" if score is None else f" {capitalized(score.name)} went {score.text}."
    return Evidence(
        because=f"The loss goes from {num(float(x[0]))} to {num(last)}, but a cross-entropy is "
        f"never negative.{figures}",
        step=int(case.loss.steps[np.argmax(x < 0)]),
        measured={"first_loss": float(x[0]), "loss": last},
        first=first,
        severity=None if is_probability else Severity.ERROR,
    )


def _has_learned(score: ProgressChange) -> bool:
    """Return True if a score changed by a fifth of its range, 0 to 1 or 0 to 100."""
    highest = full_scale(max(abs(score.first), abs(score.last)))
    return abs(score.last - score.first) >= FIFTH * highest


@Symptom(
    slug="softmax-twice",
    title="The softmax is applied twice",
    needs=("loss", "manifest.vocab_size or accuracy or eval_accuracy"),
    explained_by=("nan", "divergence"),
    yields_to=("loss-of-probabilities",),
    preconditions=(at_least(TENTHS, "loss"), no_course),
)
def softmax_twice(case: Case) -> Evidence | None:
    """Does the loss settle at the smallest value that a softmax of a softmax allows?

    At best, the first softmax gives the right class a probability of 1 and the others 0. The second
    one leaves a loss of log(e + K - 1) - 1, plus 1 for each example that is wrong.
    """
    if not has_chance_level(case):
        return None
    return _by_accuracy(case) or _by_floor(case) or _by_confidence(case)


def _by_accuracy(case: Case) -> Evidence | None:
    configured, band = case.manifest.vocab_size, case.limits.learning.chance_band
    for role, score in (("loss", "accuracy"), ("eval_loss", "eval_accuracy")):
        losses, right = (case.history.finite(name).values for name in (role, score))
        if min(len(losses), len(right)) < TENTHS:
            continue
        fraction = end_level(right) / full_scale(right.max())
        *_, before, last = levels(losses, TENTHS // 2).tolist()
        if fraction < MOSTLY_RIGHT or before - last > NEGLIGIBLE * last:
            continue
        for classes in (configured,) if configured else USUAL_CLASSES:
            floor = _floor(classes)
            # Probabilities below 1 add to the loss, but other losses may end there, too.
            excess = last - (floor + 1 - fraction)
            is_known = configured is not None and configured > 2
            largest_excess = TENTH * (math.log(classes) - floor) if is_known else 0.0
            if -band * floor <= excess <= max(largest_excess, band * floor):
                name = "evaluation loss" if role == "eval_loss" else "loss"
                return _evidence(
                    f"The {name} settles at {num(last)} although {fraction:.0%} of the examples "
                    f"are right: with {classes} classes, {num(floor)} is the smallest loss that a "
                    "softmax of a softmax allows.",
                    {"loss": last, "accuracy": fraction, "least": floor, "classes": classes},
                )
    return None


def _by_confidence(case: Case) -> Evidence | None:
    """Report a loss that settles above 1 although nearly all training examples are right.

    A cross-entropy raises the probability of right answers, so it falls below that. A softmax over
    the examples of a batch does not: examples of the same class share its probability.
    """
    losses, right = (case.history.finite(role).values for role in ("loss", "accuracy"))
    # Other terms, or the examples of a batch, may keep a sum high.
    is_sum = case.history.group("other_loss") or initial_loss_off.evidence(case)
    if min(len(losses), len(right)) < TENTHS or is_sum:
        return None
    fraction = end_level(right) / full_scale(right.max())
    *_, before, last = levels(losses, TENTHS // 2).tolist()
    if fraction < NEARLY_ALL or last < 1 or before - last > NEGLIGIBLE * last:
        return None
    return Evidence(
        title="The loss is too high for its accuracy",
        # Without an evaluation of the answers, it may be a contrastive loss, which stays high at a
        # high temperature.
        severity=None if len(final_accuracies(case)) > 1 else Severity.NOTE,
        because=f"The loss settles at {num(last)} although {fraction:.0%} of the training examples "
        f"are right: on average (geometric mean), the right class gets a probability of "
        f"{math.exp(-last):.0%}.",
        measured={"loss": last, "accuracy": fraction, "probability": math.exp(-last)},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check the dimension of the softmax in the loss: it has to be the one of the classes, "
            "not of the batch. If it is, check that the loss gets logits and no probabilities.",
            also=(Do.CHECK_MODEL,),
        ),
        next_actions=(
            Action(
                Do.CHECK_LOSS_FUNCTION,
                "If labels are smoothed, the loss is contrastive or has other terms, log its "
                "cross-entropy alone.",
            ),
        ),
    )


def _by_floor(case: Case) -> Evidence | None:
    """Report a loss that ends just above the floor and never falls below it, if K is known."""
    classes, x = case.manifest.vocab_size or 0, case.loss.values
    # An accuracy that stays low explains a high loss by itself.
    if classes <= 2 or any(fraction < MOSTLY_RIGHT for fraction in final_accuracies(case)):
        return None
    floor, (*_, before, last) = _floor(classes), levels(x, TENTHS // 2).tolist()
    # For thousands of classes, the floor is only a tenth below log K.
    highest = min((1 + _NEAR_FLOOR) * floor, floor + QUARTER * (math.log(classes) - floor))
    is_at_floor = (1 - _LOSS_ROUNDING) * floor <= float(x.min()) and last <= highest
    has_fallen = last < (1 - _NEAR_FLOOR) * float(x[0])
    # A loss that falls past the floor slows down, too, but not as much as one that ends there.
    is_flat = before - last <= max(HALF * (last - floor), RELATIVE_TOLERANCE * last)
    if not is_at_floor or not has_fallen or not is_flat:
        return None
    return _evidence(
        f"The loss ends at {num(last)} and is never below {num(floor)}: with {classes} classes, "
        "that is the smallest loss that a softmax of a softmax allows.",
        {"loss": last, "least": floor, "classes": classes},
    )


def _floor(classes: int) -> float:
    return math.log(math.e + classes - 1) - 1


def _evidence(because: str, measured: dict[str, float]) -> Evidence:
    return Evidence(
        because=because,
        measured=measured,
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Pass logits to the cross-entropy: remove the softmax from the model, or use a loss "
            "that expects probabilities.",
            also=(Do.CHECK_MODEL,),
        ),
    )
