"""Losses and evaluations that are identical to the last digit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.loss_kinds import DISCRIMINATOR, GENERATOR, REGULARIZERS, LossKind
from stabdiag.model.roles.names import is_best_so_far, name_words
from stabdiag.model.text import digits, num
from stabdiag.model.unique import unique_values
from stabdiag.stats.course import level_before, outer_levels
from stabdiag.stats.quantiles import is_constant
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    FEW_EVENTS,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    TENTH,
    TENTHS,
)
from stabdiag.symptoms.learning.causes import (
    MIN_EXACT_DIGITS,
    evaluations_are_constant,
    without_learning,
)
from stabdiag.symptoms.learning.rate_fixes import lower_rate
from stabdiag.symptoms.losses import FALLEN, ONE_BATCH
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import USUAL_CLASSES
from stabdiag.tree.progress import find_progress

_SAME_LOGITS = Action(
    Do.INSPECT_LAYERS,
    "Print the logits of one batch. If they are all the same, find the layer with constant "
    "outputs: units die at too high a learning rate or with a bad initialization. Otherwise check "
    "the gradients.",
    also=(Do.LOWER_LR,),
)
# The loss of a policy does not have to go to zero.
_ADVANTAGES = Action(
    Do.CHECK_LOSS_FUNCTION,
    "Print the advantages of one batch and the entropy of the policy: if the advantages are all "
    "the "
    "same, the gradient is zero.",
)

# Losses that repeat exactly have at least this many values in a period, and these many candidates
# for the period are tried.
_MIN_REPEATED = MIN_CONSECUTIVE
_MAX_TRIED = CONTEXT_POINTS

# A loss that falls to 0 in a single step was above this fraction of its first value just before.
_DROP_FRACTION = TENTH

# A sum of errors that are all 0 may differ from 0 by rounding.
_ROUNDING: Final = 1e-15


def _min_identical(case: Case) -> int:
    """Return the number of identical losses at the end that chance does not explain.

    Epoch means vary over many batches, so fewer are needed. Fewer are also needed if the loss is
    written with many digits and has not fallen; a loss that fell may have reached its minimum. And
    fewer are needed if all records have the same whole number, or the same with many digits.
    """
    x, points = case.loss.values, case.limits.learning.constant_points
    if _period(x) is not None:
        return min(points, MIN_SAMPLE)
    if len(x) and is_constant(x) and (float(x[0]).is_integer() or _is_zero(x[0])):
        # A Dice, hinge or margin loss without a gradient stays at 1. A loss of 0 from the first
        # record on is not rounded: no untrained model is perfect.
        return min(points, MIN_CONSECUTIVE if _is_zero(x[0]) else MIN_SAMPLE)
    is_epochs = case.history.counts_epochs
    if len(x) and not x[-1] and _falls_to_zero_at_once(x):
        return min(points, FEW_EVENTS + 1 if is_epochs else MIN_SAMPLE)
    fell = not len(x) or x[-1] < (1 - NEGLIGIBLE) * x[0]
    if fell or (x[-1] and digits(_written(float(x[-1]))) < MIN_EXACT_DIGITS):
        return min(points, MIN_SAMPLE) if is_epochs else points
    is_only = len(x) > 0 and is_constant(x)
    return min(points, FEW_EVENTS + 1 if is_epochs or is_only else MIN_SAMPLE)


def _is_zero(value: float) -> bool:
    """Return True if a loss is 0 except for rounding."""
    return abs(value) < _ROUNDING


def _falls_to_zero_at_once(x: Floats) -> bool:
    """Return True if a loss was far above 0 just before it became 0 permanently."""
    others = x[x != 0]
    return len(others) > 0 and bool(others[-1] > _DROP_FRACTION * others[0])


@Symptom(
    slug="loss-constant",
    confidence=Confidence.HIGH,
    severity=Severity.ERROR,
    title="The loss does not change at all",
    needs=("loss",),
    explained_by=("nan", "divergence", "loss-scale"),
    preconditions=(lambda case: at_least(_min_identical(case), "loss")(case),),
    next_actions=(
        Action(Do.CHECK_MODEL, "Look for a detach(), no_grad() or .item() between model and loss."),
        Action(Do.CHECK_MODEL, "Check that the optimizer steps, and that model.train() is called."),
        ONE_BATCH,
    ),
)
def loss_constant(case: Case) -> Evidence | None:
    """Is the loss constant to the last digit up to the end of the log, or the same every epoch?"""
    if is_best_so_far(case.loss.column):
        return None
    x, steps = case.loss.values, case.loss.steps
    period, partner = _period(x), _constant_network(case)
    if period is not None:
        return _repeated(case, period)
    if partner is not None:
        return _stuck_network(case, partner)
    changes = np.flatnonzero(x != x[-1])
    start = int(changes[-1]) + 1 if len(changes) else 0
    count, first = len(x) - start, int(steps[start])
    if count < _min_identical(case) or _is_converged(case, first):
        return None
    # A policy's loss may be 0, but not without a gradient.
    is_zero = x[-1] == 0 or (not start and _is_zero(x[-1]))
    if is_zero and not ("reward" in case.history.series and case.history.without_gradient):
        return _zero(case, start)
    if start and digits(_written(float(x[-1]))) < MIN_EXACT_DIGITS:
        return None
    which_points = f"the last {count}" if start else f"all {count}"
    is_exact = digits(_written(float(x[-1]))) >= MIN_EXACT_DIGITS
    is_long = count >= case.limits.learning.constant_points
    # A loss that changed before was trained. If it did not improve, units may have died.
    died = start > 0 and x[-1] > (1 - NEGLIGIBLE) * x[0]
    remark = "; it had changed before" if died else _chance_remark(case, float(x[-1]))
    evidence = without_learning(
        case,
        loss_constant,
        step=first,
        because=f"The loss is exactly {_written(float(x[-1])):.9g} at {which_points} logged "
        f"points, from {case.unit} {first} to {int(steps[-1])}{remark}",
        measured={"loss": float(x[-1]), "points": count},
        is_constant=True,
        first=lower_rate(case)
        if died
        else (_SAME_LOGITS if remark else _check_trained(case, first)),
    )
    if not (is_exact or is_long):
        evidence = replace(
            evidence,
            because=f"{evidence.because} The log may have rounded it.",
            severity=Severity.WARNING,
        )
    if "reward" not in case.history.series:
        return evidence
    next_actions = (
        loss_constant.next_actions if evidence.next_actions is None else evidence.next_actions
    )
    return replace(
        evidence,
        next_actions=tuple(
            _ADVANTAGES if action is ONE_BATCH else action for action in next_actions
        ),
    )


def _is_converged(case: Case, first: int) -> bool:
    """Return True if evaluations change in their last digits only: the model is still trained.

    The training loss is constant because it is rounded, as at the end of boosting.
    """
    evaluations = case.history.finite("eval_loss")
    x = evaluations.values[evaluations.steps >= first]
    if not len(x) or not np.ptp(x):
        return False
    # Next to such evaluations, a loss of 0 is rounded.
    if case.loss.values[-1] == 0 and 0 < x.max() < TENTH**MIN_EXACT_DIGITS:
        return True
    return bool(np.ptp(x) <= TENTH**MIN_EXACT_DIGITS * np.abs(x).max())


def _period(x: Floats) -> int | None:
    """Return the number of losses after which all losses repeat exactly, or None.

    With few digits, losses may repeat by chance.
    """
    if len(x) < MIN_SAMPLE + _MIN_REPEATED or not np.isfinite(x).all():
        return None
    candidates = np.flatnonzero(x[1 : len(x) - CONTEXT_POINTS + 1] == x[0])[:_MAX_TRIED] + 1
    for period in candidates.tolist():
        if not np.array_equal(x[period:], x[:-period]):
            continue
        values = unique_values(x[:period])
        written = [digits(_written(float(value))) for value in values]
        if 2 * period <= len(x) and len(x) - period >= MIN_SAMPLE:
            is_exact = max(written) >= MIN_EXACT_DIGITS
            return period if len(values) >= _MIN_REPEATED and is_exact else None
        # A part of the second time is enough if no other losses are the same.
        exact = sum(count >= MIN_EXACT_DIGITS for count in written)
        return period if len(values) == period and exact >= CONTEXT_POINTS else None
    return None


def _repeated(case: Case, period: int) -> Evidence:
    """Report losses that are the same in every epoch: no update changes them."""
    x, steps = case.loss.values, case.loss.steps
    first, last = int(steps[0]), int(steps[-1])
    evidence = without_learning(
        case,
        loss_constant,
        step=first,
        because=f"From {case.unit} {first} to {last} the same {period} losses repeat to the last "
        f"digit, {num(len(x) / period)} times: no update changes the loss",
        measured={"period": period, "points": len(x)},
        is_constant=True,
        first=_check_trained(case, first),
    )
    return replace(evidence, title="The same losses repeat exactly")


def _constant_network(case: Case) -> Series | None:
    """Return the loss of one of two adversaries if it never changes, while the other does."""
    if case.history.loss_kind is not LossKind.ADVERSARIAL or not np.ptp(case.loss.values):
        return None
    others = (series.finite() for series in case.history.group("other_loss").values())
    constant = [
        series
        for series in others
        if len(series) >= MIN_SAMPLE
        and not np.ptp(series.values)
        and REGULARIZERS.isdisjoint(name_words(series.column))
    ]
    discriminators, generators = (
        [series for series in constant if network & {*name_words(series.column)}]
        for network in (DISCRIMINATOR, GENERATOR)
    )
    # A pair whose losses are both constant does not train yet, next to a pair that does.
    if discriminators and generators:
        return None
    return next(iter(discriminators + generators), None)


def _stuck_network(case: Case, series: Series) -> Evidence:
    """Report an adversary that no longer learns: its loss has no gradient."""
    value, first = float(series.values[0]), int(series.steps[0])
    return Evidence(
        title="The loss of one network does not change",
        because=f"{series.column!r} is exactly {num(value)} at all {len(series)} records, from "
        f"{case.unit} {first} to {int(series.steps[-1])}, while {case.loss.column!r} changes.",
        step=first,
        measured={"loss": value, "points": len(series)},
        severity=Severity.WARNING,
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Print the discriminator's outputs for real and generated samples at {case.unit} "
            f"{first}: if they are saturated, the loss has no gradient, and a loss of logits, a "
            "lower learning rate or a weaker discriminator helps.",
            also=(Do.LOWER_LR,),
            step=first,
        ),
        next_actions=loss_constant.next_actions[:-1],
    )


def _check_trained(case: Case, first: int) -> Action:
    where = f"Check at {case.unit} {first}"
    text = f"{where} which parameters have requires_grad and are in the optimizer."
    return Action(Do.CHECK_MODEL, text, step=first)


def _chance_remark(case: Case, value: float) -> str:
    """Return a clause if a loss is at chance level to its written digits, or ""."""
    if "reward" in case.history.series:
        return ""
    configured, places = (
        case.manifest.vocab_size,
        min(digits(_written(value)), MIN_EXACT_DIGITS + 1),
    )
    for classes in (configured,) if configured else USUAL_CLASSES:
        if f"{value:.{places}g}" == f"{math.log(classes):.{places}g}":
            return f"; that is log {classes}, the loss of random guessing among {classes} classes"
    return ""


def _written(value: float) -> float:
    """Return a value as it was written; a value stored in four bytes has fewer digits.

    A negative zero is 0.
    """
    short = np.float32(value)
    return (float(str(short)) if short == value else value) + 0.0


def _zero(case: Case, start: int) -> Evidence | None:
    """Report a loss of 0, except if it fell gradually or belongs to a policy."""
    x, steps = case.loss.values, case.loss.steps
    # The loss of a policy whose advantages cancel is 0, and its gradients are not.
    has_gradients = bool(case.history.finite("grad_norm").values.any())
    moves = bool(case.history.finite("policy_kl").values.any())
    if "reward" in case.history.series or moves or (start == 0 and has_gradients):
        return None
    fell = {"before": level_before(x, start, CONTEXT_POINTS)} if start else {}
    if fell and fell["before"] <= _DROP_FRACTION * x[0]:
        return None
    first, count = int(steps[start]), len(x) - start
    points = f"the last {count}" if fell else f"all {count}"
    was = f"; just before, it was {num(fell['before'])}" if fell else ""
    exactly = f"0 but for rounding ({num(float(x[-1]))})" if x[-1] else "exactly 0"
    changes = () if fell else find_progress(case).changes
    measure = next((item for item in changes if item.better and item.role != "loss"), None)
    learns = ""
    if measure is not None:
        name = "The evaluation loss" if measure.role == "eval_loss" else repr(measure.name)
        learns = f" {name} went {measure.text} in the meantime, so that the model learns."
    return Evidence(
        because=f"The loss is {exactly} at {points} logged points, from {case.unit} {first} to "
        f"{int(steps[-1])}{was}.{learns}",
        severity=None if measure is None else Severity.WARNING,
        step=first,
        measured={"loss": float(x[-1]) + 0.0, "points": count, **fell},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Run the batch of {case.unit} {first} forward and print the loss: some loggers write "
            "0 for NaN, and a batch whose labels are all masked has no loss.",
        ),
        next_actions=(
            Action(Do.CHECK_LABELS, "Count the labels of a batch that are not masked (-100)."),
            Action(
                Do.CHECK_LOSS_FUNCTION,
                "Look at the gradient norm: NaN if 0 means NaN, 0 if all labels are masked.",
            ),
            Action(Do.LOG_MORE, "Log the loss with more digits if it may be very small."),
        ),
    )


def _clear_fall(x: Floats) -> tuple[float, float] | None:
    """Return the levels of a loss at its start and end, or None if it did not clearly fall.

    A short log counts if each loss is below the one before.
    """
    if len(x) < TENTHS:
        falls = len(x) >= MIN_CONSECUTIVE and x[0] > 0 and bool((np.diff(x) < 0).all())
        return (float(x[0]), float(x[-1])) if falls else None
    first, last = outer_levels(x)
    return (first, last) if first > 0 and last <= FALLEN * first else None


@Symptom(
    slug="eval-constant",
    confidence=Confidence.HIGH,
    title="The evaluation loss does not change",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    preconditions=(at_least(CONTEXT_POINTS, "eval_loss"),),
    next_actions=(
        Action(Do.CHECK_EVALUATION, "Check that an averaged copy of the weights is updated."),
        Action(Do.CHECK_EVALUATION, "Check that no result is cached and no checkpoint loaded."),
        Action(
            Do.INSPECT_LAYERS,
            "If the value is the margin of a triplet or contrastive loss, all embeddings are the "
            "same: print the distances between the embeddings of one batch.",
        ),
    ),
)
def eval_constant(case: Case) -> Evidence | None:
    """Are all evaluations identical to the last digit while the training loss falls?"""
    heldout = case.history.finite("eval_loss")
    if not evaluations_are_constant(case):
        return None
    begin, end = int(heldout.steps[0]), int(heldout.steps[-1])
    during = case.loss.values[(case.loss.steps >= begin) & (case.loss.steps <= end)]
    fall = _clear_fall(during)
    if fall is None:
        return None
    first, last = fall
    value = num(float(heldout.values[0]))
    return Evidence(
        because=f"The evaluation loss is {value} at all {len(heldout)} evaluations, from "
        f"{case.unit} "
        f"{begin} to {end}, while the training loss went from {num(first)} to {num(last)}.",
        step=begin,
        measured={"evaluations": len(heldout), "eval_loss": float(heldout.values[0])},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Check that the evaluated model is the trained one: at {case.unit} {end}, compare a "
            "weight of both.",
            step=end,
        ),
    )
