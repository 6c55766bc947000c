"""The first loss of a classifier, compared with the logarithm of the number of classes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.manifest.keys import other_number
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.course import end_level
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    HALF,
    MAJORITY,
    MIN_SAMPLE,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    TENFOLD,
    THIRD,
)
from stabdiag.symptoms.losses import no_course
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import (
    USUAL_CLASSES,
    chance_loss,
    has_chance_level,
    may_sum_sequences,
)
from stabdiag.tree.progress import improved_score

# A sum over n examples starts within this factor of n times log K.
_NEAR_SUM: Final = CLEAR_RATIO

# Without a known batch size, this close to a power of two is a sum over that many examples.
_AT_POWER: Final = NEGLIGIBLE
_MIN_POWER: Final = MIN_SAMPLE

# If at least this fraction of the examples is right, a cross-entropy above 1 is suspicious.
MOSTLY_RIGHT: Final = MAJORITY

_SCALE_DOWN: Final = (
    "Print the standard deviation of each layer's output before training, and scale down the "
    "initialization of the first layer that is far above 1"
)


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
    because = (
        f"The first loss is {num(first)}, {num(ratio)} x the {num(cost)} of an "
        f"untrained model with {case.manifest.vocab_size} classes."
    )
    scale_down = Action(
        Do.CHECK_MODEL,
        f"{_SCALE_DOWN} until the first loss is near "
        f"{num(cost)}, and check that the loss is a mean, not a sum.",
        also=(Do.CHANGE_MODEL, Do.CHECK_LOSS_FUNCTION),
    )
    evidence = Evidence(
        because=because,
        step=int(case.loss.steps[0]),
        measured={"first_loss": first, "log_k": cost},
        first=scale_down,
    )
    return _with_wrong_loss(case, evidence, first, cost)


def _with_wrong_loss(case: Case, evidence: Evidence, first: float, cost: float) -> Evidence:
    """Return the evidence with the error in the loss function that explains it, if one does."""
    ratio = first / cost
    batches, examples = _accumulated_batches(case, ratio), _summed_examples(case, ratio)
    if batches is not None:
        per_batch = Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Divide the loss of each micro-batch by {batches} before backward(), and log the "
            "mean: summed gradients multiply the learning rate of SGD by the same factor.",
        )
        return _explained(
            evidence,
            "The first loss is a sum over micro-batches",
            f"A sum over {batches} accumulated batches starts at {num(batches * cost)}.",
            per_batch,
            accumulated_batches=batches,
        )
    if examples is not None:
        return _explained(
            evidence,
            "The first loss is a sum over the batch",
            f"A sum over {examples} examples starts at {num(examples * cost)}.",
            _use_mean(examples),
            examples=examples,
        )
    words = _contradiction(case, first, cost)
    if not words:
        return evidence
    dimension = Action(
        Do.CHECK_LOSS_FUNCTION,
        "Check the dimension of the softmax in the loss: it has to be the one of the classes, and "
        "not of the batch.",
    )
    return _explained(evidence, "The loss does not fit the predictions", words, dimension)


def _explained(
    evidence: Evidence, title: str, words: str, first: Action, **measured: int
) -> Evidence:
    """Return the evidence with its explanation; the action before comes next."""
    return replace(
        evidence,
        title=title,
        because=f"{evidence.because} {words}",
        measured={**evidence.measured, **measured},
        first=first,
        next_actions=(evidence.first,),
    )


def _contradiction(case: Case, first: float, cost: float) -> str:
    """Return the reason why a first loss is not the cross-entropy of the predictions, or ""."""
    batch = case.manifest.batch_size or 0
    right, last = max(final_accuracies(case), default=0.0), end_level(case.loss.values)
    if batch > 1 and abs(first / math.log(batch) - 1) <= RELATIVE_TOLERANCE:
        return f"The {batch} examples of a batch, as classes, would have {num(math.log(batch))}."
    if right >= MOSTLY_RIGHT and last >= HALF * cost:
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
        severity=Severity.NOTE if _overcame_its_start(case, first) else None,
        because=f"The first loss is {num(first)}, and an accuracy is logged with it. The mean "
        f"cross-entropy of an untrained classifier is log K; {num(highest)} would give "
        "the right class a probability of one in a million.",
        step=int(case.loss.steps[0]),
        measured={"first_loss": first},
        first=first_action,
        next_actions=(other, *initial_loss_off.next_actions),
    )


def _overcame_its_start(case: Case, first: float) -> bool:
    """Return True if most answers are right at the end, or if the model left its first loss behind.

    A score improves, and the loss is as low as an untrained classifier has, or lower.
    """
    if max(final_accuracies(case), default=0.0) >= MOSTLY_RIGHT:
        return True
    last = end_level(case.loss.values)
    is_usual = last <= min(case.limits.learning.untrained_loss, first / TENFOLD)
    return is_usual and improved_score(case) is not None


def _has_learned_at_once(case: Case) -> bool:
    """Return True if two in three examples are right at the first loss, so it is a sum.

    An untrained classifier of two classes is right half of the time. A model that was trained for
    an epoch is not untrained, and its loss is a sum over the batches.
    """
    right = case.history.finite("accuracy")
    is_first = len(right) > 0 and right.steps[0] <= case.loss.steps[0]
    return is_first and right.values[0] / full_scale(right.values.max()) >= 1 - THIRD


def _is_sum_throughout(case: Case) -> bool:
    """Return True if no loss is a mean: many answers are right at the end, and the losses are high.

    Speech recognition logs sums over each sequence, also for its evaluations. A mean falls with the
    errors, but a sum of many terms may fall by less than half.
    """
    highest = case.limits.learning.untrained_loss
    evaluated = case.history.finite("eval_loss").values
    is_high = len(evaluated) > 0 and min(evaluated[0], end_level(case.loss.values)) > highest
    is_slow = end_level(case.loss.values) > HALF * case.loss.values[0]
    least = HALF if is_slow and improved_score(case) is not None else MOSTLY_RIGHT
    return bool(is_high) and max(final_accuracies(case), default=0.0) >= least


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


def final_accuracies(case: Case) -> list[float]:
    """Return the medians of the last tenths of the logged accuracies, as fractions."""
    logged = (case.history.finite(role).values for role in ("accuracy", "eval_accuracy"))
    return [end_level(right) / full_scale(right.max()) for right in logged if len(right)]
