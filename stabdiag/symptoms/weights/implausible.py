"""Losses that no healthy run has: impossibly large, or without a bound below zero."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import LARGEST_READ
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, percent, plural, times
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, typical
from stabdiag.stats.shape import FP32_SQUARE_OVERFLOW
from stabdiag.stats.standards import (
    HUNDREDFOLD,
    LEAST,
    MIN_CONSECUTIVE,
    QUARTERS,
    RELATIVE_TOLERANCE,
    TENFOLD,
    TENTH,
    TENTHS,
    TWICE,
)
from stabdiag.symptoms.learning.rate_fixes import lower_rate
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.shared import describe_batches
from stabdiag.tree.case import Case

# A loss this many times the usual one needs no statistical test: noise never spans ten orders of
# magnitude.
_ORDERS: Final = 1e10

# The largest cross-entropy of an example: Keras replaces a probability of 0 by 1e-7, and Caffe by
# the smallest number of fp32.
_LARGEST_COSTS: Final = (-math.log(1e-7), -math.log(np.finfo(np.float32).tiny))

# Losses are printed with at least this relative precision.
_PRINTED_PRECISION: Final = RELATIVE_TOLERANCE * RELATIVE_TOLERANCE


@Symptom(
    slug="loss-implausible",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    title="The loss is impossibly large",
    needs=("loss",),
    explained_by=("nan", "divergence", "loss-constant"),
    preconditions=(at_least(1, "loss"),),
    next_actions=(
        Action(Do.SAFE_OPERATIONS, "Look for a division by nearly 0, an exp or a power in it."),
        Action(
            Do.CLIP_GRADIENTS,
            "Clip the gradient norm, or skip updates when the loss is this large.",
        ),
    ),
)
def loss_implausible(case: Case) -> Evidence | None:
    """Does the square of a finite loss overflow fp32, or is it ten orders above the others?

    In a log too short for a test of spikes, a hundred times the other losses is sufficient. A loss
    that keeps multiplying below zero has no bound. A cross-entropy that is the largest one for each
    wrong answer comes from a saturated softmax.
    """
    other = _unbounded(case) or _saturated(case)
    if other is not None:
        return other
    sizes = np.abs(case.loss.values)
    usual = typical(sizes)
    if 1 < len(sizes) < case.min_losses_for_spikes:
        outlier = _outlier_of_few(case)
        if outlier is not None:
            return outlier
    # A loss that falls to nearly 0, as a discriminator's, was not too large before.
    plausible = max(usual, median(sizes[:MIN_CONSECUTIVE])) if len(sizes) else usual
    # Below the precision of fp32 next to 1, it is as good as 0.
    plausible = max(plausible, float(np.finfo(np.float32).eps))
    bar = (
        min(FP32_SQUARE_OVERFLOW, _ORDERS * plausible)
        if len(sizes) >= MIN_CONSECUTIVE and usual > 0
        else FP32_SQUARE_OVERFLOW
    )
    high = np.flatnonzero(sizes > bar)
    if not len(high):
        return None
    first, worst = int(high[0]), int(np.argmax(sizes))
    step = case.at(first)
    comparison = (
        "a number whose square is infinite in fp32"
        if len(high) == len(sizes) or usual <= 0
        else f"{times(float(sizes[worst]) / usual)} the usual {num(usual)}"
    )
    # Larger numbers are read as this value.
    bound = "at least " if sizes[worst] >= LARGEST_READ else ""
    are = "is" if len(high) == 1 else "are"
    return Evidence(
        because=f"{len(high)} of {plural(len(sizes), 'loss', 'losses')} {are} finite but "
        f"impossibly large: the largest, {bound}{num(float(case.loss.values[worst]))} at "
        f"{case.describe(case.at(worst))}, is {comparison}.",
        step=step,
        measured={
            "losses": len(high),
            "total": len(sizes),
            "largest": float(case.loss.values[worst]),
            "usual": usual,
        },
        first=Action(
            Do.INSPECT_DATA,
            f"Recompute the loss of {describe_batches(case, step)} in fp32, term by term, and "
            "inspect its inputs and labels.",
            also=(Do.CHECK_LOSS_FUNCTION,),
            step=step,
        ),
    )


def _outlier_of_few(case: Case) -> Evidence | None:
    """Report a loss of a short log that is a hundred times the size of those before it.

    It is an error if the loss has not come back. One or two losses before may be unusually low:
    then it has to be higher by another factor of a hundred, and to stay.
    """
    x = case.loss.values
    before = np.maximum.accumulate(np.abs(x))[:-1]
    if x.min() <= 0:
        # The sign of a policy's loss says nothing, and a loss that crosses 0 is small there.
        if not x.all() or case.loss_kind is not None or "reward" in case.history.series:
            return None
        before = np.maximum(before, 1.0)
    bar = np.where(np.arange(1, len(x)) < MIN_CONSECUTIVE, HUNDREDFOLD**2, HUNDREDFOLD)
    jumps = np.flatnonzero(x[1:] > bar * before)
    if not len(jumps):
        return None
    at = int(jumps[0]) + 1
    highest, last = float(before[at - 1]), float(x[-1])
    is_back = last <= TWICE * highest
    if is_back and at < MIN_CONSECUTIVE:
        return None
    step = case.at(at)
    largest = "the highest" if x.min() > 0 else "the largest size"
    previous = "the loss" if at == 1 else f"{largest} of the {at} losses"
    end = "" if at == len(x) - 1 else f", and is {num(last)} at the end"
    return Evidence(
        title="The loss jumped far above all before it",
        because=f"The loss jumped to {num(float(x[at]))} at {case.unit} {step}, "
        f"{times(float(x[at]) / highest)} {previous} before{end}. The log is too short for a test "
        "of spikes.",
        step=step,
        measured={"largest": float(x[at]), "usual": highest},
        severity=Severity.WARNING if is_back else None,
        first=Action(
            Do.INSPECT_DATA,
            f"Recompute the loss of {describe_batches(case, step)} from the weights before it: if "
            "it is as high, inspect its inputs and labels, otherwise lower the learning rate.",
            also=(Do.LOWER_LR,),
            step=step,
        ),
    )


def _unbounded(case: Case) -> Evidence | None:
    """Report a loss that multiplies below zero: nothing bounds what it minimizes."""
    x = case.loss.values
    if len(x) < LEAST or case.loss.lowest >= 0:
        return None
    if case.loss_kind is not None or "reward" in case.history.series:
        return None
    reached = levels(x, TENTHS)
    begun = max(abs(float(reached[0])), 1.0)
    # A log-likelihood of many dimensions is far below zero too, but settles.
    multiplies = bool((reached[-QUARTERS:] < TWICE * reached[-QUARTERS - 1 : -1]).all())
    if reached[-1] > -TENFOLD * HUNDREDFOLD * begun or not multiplies:
        return None
    first = int(np.argmax(x < 0))
    return Evidence(
        title="The loss falls without bound",
        because=f"The loss went from {num(float(x[0]))} to {num(float(x[-1]))} and still doubles: "
        "nothing bounds it from below.",
        step=case.at(first),
        measured={"first": float(x[0]), "last": float(x[-1])},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check the sign of each term of the loss. If it is a likelihood, bound the variance "
            "from below; if it compares scores, bound or normalize them.",
        ),
        next_actions=(),
    )


def _saturated(case: Case) -> Evidence | None:
    """Report losses that are the largest cross-entropy for each wrong answer, and 0 for the others.

    Every probability is 0 or 1 then, so no gradient flows. Without accuracies, all answers have to
    be wrong.
    """
    costs = _cost_of_wrong_answers(case) or _largest_cost(case)
    if costs is None:
        return None
    first, cost, evidence = costs
    return Evidence(
        title="The softmax is saturated",
        because=f"{evidence}, the largest cross-entropy of an example.",
        step=first,
        measured={"loss": float(case.loss.values[-1]), "largest_cost": cost},
        first=lower_rate(case),
        next_actions=(
            Action(
                Do.INSPECT_DATA, "Scale the inputs to a mean of 0 and a standard deviation of 1."
            ),
            Action(Do.CHECK_LABELS, "Check that no label is out of range."),
        ),
    )


def _cost_of_wrong_answers(case: Case) -> tuple[int, float, str] | None:
    """Return the first of the last few steps whose loss and accuracy show saturation."""
    for name, role in (("eval_loss", "eval_accuracy"), ("loss", "accuracy")):
        loss, accuracy = case.history.finite(name), case.history.finite(role)
        steps, at_loss, at_accuracy = np.intersect1d(
            loss.steps, accuracy.steps, assume_unique=True, return_indices=True
        )
        if len(steps) < MIN_CONSECUTIVE:
            continue
        losses, right = loss.values[at_loss][-MIN_CONSECUTIVE:], accuracy.values[at_accuracy]
        wrong = 1 - right[-MIN_CONSECUTIVE:] / full_scale(right.max())
        costs = (cost for cost in _LARGEST_COSTS if _is_near(losses, cost * wrong))
        cost = next(costs, None)
        if cost is not None and wrong.min() > TENTH:
            title = "evaluation loss" if name == "eval_loss" else "loss"
            evidence = (
                f"The last {title} is {num(float(losses[-1]))}, with "
                f"{percent(float(wrong[-1]))} wrong answers: each wrong one costs {num(cost)}"
            )
            return int(steps[-MIN_CONSECUTIVE]), cost, evidence
    return None


def _is_near(x: Floats, expected: Floats) -> bool:
    return bool((np.abs(x - expected) <= RELATIVE_TOLERANCE * expected).all())


def _largest_cost(case: Case) -> tuple[int, float, str] | None:
    """Return the first step of the last losses that are all the largest cross-entropy.

    A loss may have a weight, a whole number, and is the same in several records then. Any number is
    a multiple of this cost if it is so large that its own precision exceeds the cost.
    """
    x, cost = case.loss.values, _LARGEST_COSTS[-1]
    evaluated = case.history.finite("eval_loss").values[-1:]
    weights = np.maximum(np.round(x / cost), 1)
    is_precise = weights * _PRINTED_PRECISION < 1
    is_largest = is_precise & (np.abs(x - weights * cost) <= _PRINTED_PRECISION * cost)
    if not len(x) or not is_largest[-1]:
        return None
    start = 0 if is_largest.all() else len(x) - int(np.argmin(is_largest[::-1]))
    count, is_weighted = len(x) - start, bool(weights[-1] > 1)
    is_shared = (np.abs(evaluated - cost) <= _PRINTED_PRECISION * cost).any()
    if count < (MIN_CONSECUTIVE if is_weighted else 1 if is_shared else 2):
        return None
    step = case.at(start)
    weighted = f", {num(float(weights[-1]))} times {num(cost)}" if is_weighted else ""
    return step, cost, f"The loss is {num(float(x[-1]))} from {case.unit} {step} on{weighted}"
