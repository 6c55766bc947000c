"""The level of a cross-entropy: where it starts, and the floor of a softmax applied twice."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import capitalized, num
from stabdiag.stats.course import end_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    FIFTH,
    HALF,
    MAJORITY,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEARLY_ALL,
    NEGLIGIBLE,
    QUARTER,
    RELATIVE_TOLERANCE,
    TENTH,
    TENTHS,
    THIRD,
)
from stabdiag.symptoms.losses import no_course
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import (
    USUAL_CLASSES,
    chance_loss,
    has_chance_level,
    may_sum_sequences,
)
from stabdiag.tree.progress import ProgressChange, improved_score

# A sum over n examples starts within this factor of n times log K.
_NEAR_SUM: Final = CLEAR_RATIO

# Without a known batch size, this close to a power of two is a sum over that many examples.
_AT_POWER: Final = NEGLIGIBLE
_MIN_POWER: Final = MIN_SAMPLE

# If at least this fraction of the examples is right, a cross-entropy above 1 is suspicious.
_MOSTLY_RIGHT: Final = MAJORITY

# Without an accuracy, the loss must end this close above the floor and never fall below it. The
# floor of two classes, 0.31, is excluded because many healthy runs end there.
_NEAR_FLOOR: Final = NEGLIGIBLE
_LOSS_ROUNDING: Final = 1e-3

_SCALE_DOWN: Final = (
    "Print the standard deviation of each layer's output before training, and scale down the "
    "initialization of the first layer that is far above 1"
)


def _not_a_cross_entropy(case: Case) -> str:
    """Return the reason why the loss may be negative, or ""."""
    is_game = "reward" in case.history.series or case.loss_kind is not None
    is_plain = has_chance_level(case) and not is_game and not is_evaluation(case.loss.column)
    return "" if is_plain else "needs a cross-entropy"


@Symptom(
    slug="initial-loss-off",
    title="The first loss is far above chance",
    needs=("loss", "manifest.vocab_size or accuracy or eval_accuracy"),
    preconditions=(no_course,),
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "Check the normalization of the inputs, and the scale of the last layer.",
        ),
        Action(Do.CHECK_LABELS, "Check the labels and the positions that the loss ignores."),
        Action(Do.CHECK_MODEL, "If it is fine-tuned, check its tokenizer, template and weights."),
    ),
)
def initial_loss_off(case: Case) -> Evidence | None:
    """Is the first loss far above the logarithm of the number of classes?"""
    if not has_chance_level(case) or may_sum_sequences(case):
        return None
    first, cost = float(case.loss.values[0]), chance_loss(case)
    if cost is None:
        return _beyond_untrained(case, first)
    ratio = first / cost
    if ratio <= case.limits.learning.initial_factor:
        return None
    classes, count = case.manifest.vocab_size, _summed_examples(case, ratio)
    accumulated = _accumulated_batches(case, ratio)
    because = (
        f"The first loss is {num(first)}, {num(ratio)} x the {num(cost)} of an "
        f"untrained model with {classes} classes."
    )
    measured = {"first_loss": first, "log_k": cost}
    step = int(case.loss.steps[0])
    scale_down = Action(
        Do.CHECK_MODEL,
        f"{_SCALE_DOWN} until the first loss is near "
        f"{num(cost)}, and check that the loss is a mean, not a sum.",
        also=(Do.CHANGE_MODEL, Do.CHECK_LOSS_FUNCTION),
    )
    if accumulated is not None:
        return Evidence(
            title="The first loss is a sum over micro-batches",
            because=f"{because} A sum over {accumulated} accumulated batches starts at "
            f"{num(accumulated * cost)}.",
            step=step,
            measured=measured | {"accumulated_batches": accumulated},
            first=Action(
                Do.CHECK_LOSS_FUNCTION,
                f"Divide the loss of each micro-batch by {accumulated} before backward(), and log "
                "the mean: summed gradients multiply the learning rate of SGD by the same factor.",
            ),
            next_actions=(scale_down,),
        )
    if count is None and (words := _contradiction(case, first, cost)):
        return Evidence(
            title="The loss does not fit the predictions",
            because=f"{because} {words}",
            step=step,
            measured=measured,
            first=Action(
                Do.CHECK_LOSS_FUNCTION,
                "Check the dimension of the softmax in the loss: it has to be the one of the "
                "classes, and not of the batch.",
            ),
            next_actions=(scale_down,),
        )
    if count is None:
        return Evidence(because=because, step=step, measured=measured, first=scale_down)
    return Evidence(
        title="The first loss is a sum over the batch",
        because=f"{because} A sum over {count} examples starts at {num(count * cost)}.",
        step=step,
        measured=measured | {"examples": count},
        first=_use_mean(count),
        next_actions=(scale_down,),
    )


def _contradiction(case: Case, first: float, cost: float) -> str:
    """Return the reason why a first loss is not the cross-entropy of the predictions, or ""."""
    batch = case.manifest.batch_size or 0
    right, last = max(_final_accuracies(case), default=0.0), end_level(case.loss.values)
    if batch > 1 and abs(first / math.log(batch) - 1) <= RELATIVE_TOLERANCE:
        return f"The {batch} examples of a batch, as classes, would have {num(math.log(batch))}."
    if right >= _MOSTLY_RIGHT and last >= HALF * cost:
        return f"It still ends at {num(last)}, although {right:.0%} of the examples are right."
    return ""


def _accumulated_batches(case: Case, ratio: float) -> int | None:
    """Return the configured number of micro-batches in a step if the first loss is their sum."""
    count = int(other_number(case.settings, "accumulated_batches") or 1)
    is_sum = count > 1 and abs(ratio / count - 1) <= _AT_POWER
    return count if is_sum else None


def _summed_examples(case: Case, ratio: float) -> int | None:
    """Return the number of examples that the first loss sums over, or None if it is not a sum.

    The ratio to log K is near the batch size, or the batch size times the sequence length. If the
    batch size is unknown, it is near a power of two.
    """
    batch = case.manifest.batch_size
    if batch is not None and batch >= _MIN_POWER:
        tokens = batch * int(other_number(case.settings, "sequence_length") or 1)
        sums = (
            count for count in (batch, tokens) if count / _NEAR_SUM <= ratio <= count * _NEAR_SUM
        )
        return next(sums, None)
    power = 2 ** round(math.log2(ratio))
    return power if power >= _MIN_POWER and abs(ratio / power - 1) <= _AT_POWER else None


def _use_mean(count: int | None) -> Action:
    divisor = "the number of examples" if count is None else f"the {count} examples"
    return Action(
        Do.CHECK_LOSS_FUNCTION,
        f'Divide the loss by {divisor} of a batch (reduction="mean"), and start again: a summed '
        "loss multiplies the gradients, and so the learning rate, by the same factor.",
    )


def _beyond_untrained(case: Case, first: float) -> Evidence | None:
    """Report a first loss too high to be the mean cross-entropy of an untrained classifier."""
    highest = case.limits.learning.untrained_loss
    if first <= highest or _has_learned_at_once(case) or _is_sum_throughout(case):
        return None
    scale = Action(
        Do.CHECK_MODEL,
        "Scale the inputs to a mean of 0 and a standard deviation of 1. If they are, print the "
        "standard deviation of each layer's output before training, and scale down the "
        "initialization of the first layer that is far above 1.",
        also=(Do.INSPECT_DATA, Do.CHANGE_MODEL),
    )
    mean = _use_mean(case.manifest.batch_size)
    first_action, other = (mean, scale) if _may_be_sum(case, first) else (scale, mean)
    return Evidence(
        because=f"The first loss is {num(first)}, and an accuracy is logged with it. The mean "
        f"cross-entropy of an untrained classifier is log K; {num(highest)} would give "
        "the right class a probability of one in a million.",
        step=int(case.loss.steps[0]),
        measured={"first_loss": first},
        first=first_action,
        next_actions=(other, *initial_loss_off.next_actions),
    )


def _has_learned_at_once(case: Case) -> bool:
    """Return True if two in three examples are right at the first loss, so it is a sum.

    An untrained classifier of two classes is right half of the time. A model that was trained for
    an epoch is not untrained, and its loss is a sum over the batches.
    """
    right = case.history.finite("accuracy")
    is_first = len(right) > 0 and right.steps[0] <= case.loss.steps[0]
    return is_first and right.values[0] / full_scale(right.values.max()) >= 1 - THIRD


def _is_sum_throughout(case: Case) -> bool:
    """Return True if no loss is a mean: most answers are right at the end, and the losses are high.

    Speech recognition logs sums over each sequence, also for its evaluations.
    """
    highest = case.limits.learning.untrained_loss
    evaluated = case.history.finite("eval_loss").values
    is_high = len(evaluated) > 0 and min(evaluated[0], end_level(case.loss.values)) > highest
    return bool(is_high) and max(_final_accuracies(case), default=0.0) >= _MOSTLY_RIGHT


def _may_be_sum(case: Case, first: float) -> bool:
    """Return True if a first loss may be a sum over the batch.

    Over a known batch, the mean is then plausible. Otherwise the loss is a usual log K times a
    power of two; evaluations, which are usually means, tell a sum from a wrong scale first.
    """
    highest = case.limits.learning.untrained_loss
    evaluated = case.history.finite("eval_loss").values
    if len(evaluated):
        return bool(evaluated[0] <= highest)
    if case.manifest.batch_size is not None:
        return first / case.manifest.batch_size <= highest
    ratios = [first / math.log(classes) for classes in USUAL_CLASSES]
    return any(abs(ratio / 2 ** round(math.log2(ratio)) - 1) <= _AT_POWER for ratio in ratios)


@Symptom(
    slug="loss-negative",
    title="A cross-entropy is negative",
    needs=("loss", "manifest.vocab_size or accuracy or eval_accuracy"),
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
    if score is not None and not _has_learned(score):
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
        if fraction < _MOSTLY_RIGHT or before - last > NEGLIGIBLE * last:
            continue
        for classes in (configured,) if configured else USUAL_CLASSES:
            floor = _floor(classes)
            # Probabilities below 1 add to the loss, but other losses may end there, too.
            excess = last - (floor + 1 - fraction)
            is_known = configured is not None and configured > 2
            most = TENTH * (math.log(classes) - floor) if is_known else 0.0
            if -band * floor <= excess <= max(most, band * floor):
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
        severity=None if len(_final_accuracies(case)) > 1 else Severity.NOTE,
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


def _final_accuracies(case: Case) -> list[float]:
    """Return the medians of the last tenths of the logged accuracies, as fractions."""
    logged = (case.history.finite(role).values for role in ("accuracy", "eval_accuracy"))
    return [end_level(right) / full_scale(right.max()) for right in logged if len(right)]


def _by_floor(case: Case) -> Evidence | None:
    """Report a loss that ends just above the floor and never falls below it, if K is known."""
    classes, x = case.manifest.vocab_size or 0, case.loss.values
    # An accuracy that stays low explains a high loss by itself.
    if classes <= 2 or any(fraction < _MOSTLY_RIGHT for fraction in _final_accuracies(case)):
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
