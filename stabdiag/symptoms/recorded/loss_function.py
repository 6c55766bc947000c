"""How the code computes the loss and its gradient, from the recorder."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num
from stabdiag.stats.standards import HALF, MIN_CONSECUTIVE
from stabdiag.symptoms.recorded.facts import PREFIX, first_true_step
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_SOFTMAX: Final = f"{PREFIX}/softmax_twice"
_LOG: Final = f"{PREFIX}/log_of_softmax"
_RELU: Final = f"{PREFIX}/relu_logits"
_BROADCAST: Final = f"{PREFIX}/broadcast_loss"
_STALE_GRADIENTS: Final = f"{PREFIX}/stale_gradients"
_MULTIPLE: Final = f"{PREFIX}/gradient_multiple"


@Symptom(
    slug="loss-of-probabilities",
    severity=Severity.ERROR,
    title="The loss applies softmax to probabilities",
    needs=(_SOFTMAX,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check that evaluation computes the loss in the same way, and converts logits to "
            "probabilities only where needed.",
        ),
    ),
)
def loss_of_probabilities(case: Case) -> Evidence | None:
    """Does a softmax feed the cross-entropy, or a sigmoid the logistic loss?"""
    step = first_true_step(case, _SOFTMAX)
    if step is None:
        return None
    classes = case.manifest.vocab_size
    floor = math.log(math.e + classes - 1) - 1 if classes else None
    least = "" if floor is None else f"; with {classes} classes it cannot fall below {num(floor)}"
    measured: dict[str, Scalar] = {} if floor is None else {"lowest_loss": floor}
    return Evidence(
        because="The graph of the loss applies softmax or sigmoid to values that are already "
        f"probabilities{least}.",
        step=step,
        measured=measured,
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Pass the logits to the loss: remove the softmax or sigmoid at the end of the model.",
        ),
    )


@Symptom(
    slug="log-of-softmax",
    title="The loss takes the logarithm of a softmax in two steps",
    needs=(_LOG,),
    is_fact=True,
    next_actions=(
        Action(
            Do.SAFE_OPERATIONS,
            "Where a library forbids it, add an epsilon of 1e-8 inside the logarithm.",
        ),
    ),
)
def log_of_softmax(case: Case) -> Evidence | None:
    """Is a logarithm taken of a softmax or sigmoid, which may be exactly 0?"""
    step = first_true_step(case, _LOG)
    if step is None:
        return None
    return Evidence(
        because="The graph of the loss takes the logarithm of a softmax or sigmoid: a probability "
        "that underflows to 0 makes the loss infinite.",
        step=step,
        first=Action(
            Do.SAFE_OPERATIONS,
            "Compute log_softmax or logsigmoid of the logits, or use cross_entropy.",
            also=(Do.CHECK_LOSS_FUNCTION,),
        ),
    )


@Symptom(
    slug="relu-on-logits",
    title="The logits pass through a ReLU",
    needs=(_RELU,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL, "Inspect the logits of a batch: none of them is negative at the moment."
        ),
    ),
)
def relu_on_logits(case: Case) -> Evidence | None:
    """Is the input of the cross-entropy the output of a ReLU?"""
    step = first_true_step(case, _RELU)
    if step is None:
        return None
    return Evidence(
        because="The graph of the loss takes the cross-entropy of a ReLU: no logit is negative, "
        "and a class whose logit is 0 gets no gradient.",
        step=step,
        first=Action(Do.CHECK_MODEL, "Remove the ReLU after the last layer."),
    )


@Symptom(
    slug="loss-broadcast",
    severity=Severity.ERROR,
    title="The loss compares every prediction with every target",
    needs=(_BROADCAST,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Compare the shapes of predictions and targets before each loss in the code.",
        ),
    ),
)
def loss_broadcast(case: Case) -> Evidence | None:
    """Does a pointwise loss broadcast predictions of shape (B, 1) and targets of shape (B,)?"""
    step = first_true_step(case, _BROADCAST)
    if step is None:
        return None
    return Evidence(
        because="Predictions and targets differ in shape, (B, 1) and (B,): the loss broadcasts "
        "them to (B, B), so that the best prediction is the mean of all targets.",
        step=step,
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Give predictions and targets the same shape: squeeze the last dimension.",
        ),
    )


@Symptom(
    slug="gradients-not-zeroed",
    severity=Severity.ERROR,
    title="Gradients are not set to zero",
    needs=(_STALE_GRADIENTS,),
    preconditions=(at_least(MIN_CONSECUTIVE, _STALE_GRADIENTS),),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "With gradient accumulation, call zero_grad() after each step, not in between.",
        ),
    ),
)
def gradients_not_zeroed(case: Case) -> Evidence | None:
    """Do most steps start with stale gradients of the previous step?"""
    stale = case.history.finite(_STALE_GRADIENTS)
    fraction = float(stale.values[1:].mean())
    if fraction <= HALF:
        return None
    return Evidence(
        because=f"In {fraction:.0%} of {len(stale) - 1} steps, gradients were added to the "
        "gradients of the previous step.",
        step=int(stale.steps[np.flatnonzero(stale.values)[0]]),
        measured={"stale_fraction": fraction},
        first=Action(
            Do.CHECK_MODEL,
            "Call optimizer.zero_grad() once per optimizer step, before the backward pass.",
            also=(Do.CHECK_LOSS_FUNCTION,),
        ),
    )


@Symptom(
    slug="gradient-of-a-multiple",
    title="The gradient is a multiple of the loss gradient",
    needs=(_MULTIPLE,),
    preconditions=(at_least(MIN_CONSECUTIVE, _MULTIPLE),),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check the reduction of the loss: a sum over a batch grows with its size.",
        ),
    ),
)
def gradient_of_a_multiple(case: Case) -> Evidence | None:
    """Are the gradients of a step larger than the logged loss implies?"""
    series = case.history.finite(_MULTIPLE)
    multiple = float(np.median(series.values))
    if multiple <= case.limits.recorded.multiple:
        return None
    effect = "the effective learning rate is higher by that factor"
    if "adam" in (case.manifest.optimizer or "").lower():
        effect = "gradient norms and clipping are off by that factor, though Adam's steps are not"
    return Evidence(
        because=f"The backward pass starts from {num(multiple)} times the logged loss (median of "
        f"{len(series)} steps): {effect}.",
        step=int(series.steps[0]),
        measured={"multiple": multiple},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Divide the loss by {num(multiple)} before backward(); it may be the number of "
            "accumulated micro-batches.",
        ),
    )
