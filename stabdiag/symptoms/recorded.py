"""Facts from the recorder: how the loss is computed, which parameters are trained, in which mode.

Most of them do not depend on the curves. They come before equally severe findings, because they
name the mistake in the code.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.text import and_more, num, plural, times
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.saved_failure import recorder_header

_PREFIX: Final = "recorder"
_SOFTMAX: Final = f"{_PREFIX}/softmax_twice"
_LOG: Final = f"{_PREFIX}/log_of_softmax"
_RELU: Final = f"{_PREFIX}/relu_logits"
_BROADCAST: Final = f"{_PREFIX}/broadcast_loss"
_STALE: Final = f"{_PREFIX}/stale_gradients"
_MULTIPLE: Final = f"{_PREFIX}/gradient_multiple"
_MISSING: Final = f"{_PREFIX}/not_in_optimizer"
_FROZEN: Final = f"{_PREFIX}/frozen_random"
_UNMOVED: Final = f"{_PREFIX}/unmoved_random"
_NO_GRADIENT: Final = f"{_PREFIX}/no_gradient"
_EVALUATED: Final = f"{_PREFIX}/evaluated_in_training_mode"
_LEFT: Final = f"{_PREFIX}/trained_in_evaluation_mode"
_NORM_VALUES: Final = f"{_PREFIX}/batch_norm_values"
_STEPS: Final = f"{_PREFIX}/optimizer_steps"
_UNCHANGED: Final = f"{_PREFIX}/unchanged"
_ORDER: Final = f"{_PREFIX}/label_correlation"
_NONFINITE: Final = f"{_PREFIX}/input_nonfinite"

# Gradients are stale in all steps or in none.
_MOST: Final = 0.5

# Fewer batches do not show whether the labels are sorted.
_MIN_BATCHES: Final = 10

# If the optimizer is replaced, its step count drops by at least this much.
_MIN_LOST_STEPS: Final = 10

# The step count of a new optimizer at its first record.
_FIRST_COUNT: Final = 1

# Below this fraction of the peak rate, small updates are meant to be small.
_HIGH_RATE: Final = 0.5


def _first_true_step(case: Case, role: str) -> int | None:
    """Return the first step where a fact was true, if it is true in the last record."""
    series = case.history.finite(role)
    if not len(series) or not series.values[-1]:
        return None
    return int(series.steps[np.flatnonzero(series.values)[0]])


def _layers(case: Case, fact: str) -> list[str]:
    """Return the layers listed for a fact in its last record, the largest first."""
    totals = case.history.finite(fact)
    last = int(totals.steps[-1]) if len(totals) else -1
    values = {
        role.removeprefix(f"{fact}/"): float(series.values[-1])
        for role, series in case.history.series.items()
        if role.startswith(f"{fact}/") and len(series) and int(series.steps[-1]) == last
    }
    return sorted(values, key=lambda layer: -values[layer])


def _named(layers: list[str]) -> str:
    return and_more([f"{layer!r}" for layer in layers], 3)


@Symptom(
    slug="loss-of-probabilities",
    severity=Severity.ERROR,
    family="loss",
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
    step = _first_true_step(case, _SOFTMAX)
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
    family="loss",
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
    step = _first_true_step(case, _LOG)
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
    family="loss",
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
    step = _first_true_step(case, _RELU)
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
    family="loss",
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
    step = _first_true_step(case, _BROADCAST)
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
    family="loop",
    title="Gradients are not set to zero",
    needs=(_STALE,),
    preconditions=(at_least(3, _STALE),),
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
    stale = case.history.finite(_STALE)
    fraction = float(stale.values[1:].mean())
    if fraction <= _MOST:
        return None
    return Evidence(
        because=f"In {fraction:.0%} of {len(stale) - 1} steps, gradients were added to those of "
        f"the "
        "previous step.",
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
    family="loop",
    title="The gradient is a multiple of the loss gradient",
    needs=(_MULTIPLE,),
    preconditions=(at_least(3, _MULTIPLE),),
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
    return Evidence(
        because=f"The backward pass starts from {num(multiple)} times the logged loss (median of "
        f"{len(series)} steps): the effective learning rate is higher by that factor.",
        step=int(series.steps[0]),
        measured={"multiple": multiple},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Divide the loss by {num(multiple)} before backward(); it may be the number of "
            "accumulated micro-batches.",
        ),
    )


@Symptom(
    slug="not-in-optimizer",
    severity=Severity.ERROR,
    family="parameters",
    title="Trainable parameters are in no optimizer",
    needs=(_MISSING,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "Set requires_grad to False for parameters that should not be trained.",
        ),
    ),
)
def not_in_optimizer(case: Case) -> Evidence | None:
    """Do parameters that require a gradient belong to no optimizer?"""
    step = _first_true_step(case, _MISSING)
    if step is None:
        return None
    count = int(case.history.finite(_MISSING).values[-1])
    layers = _layers(case, _MISSING)
    return Evidence(
        because=f"No optimizer contains {plural(f'{count:,}', 'trainable weight')} of "
        f"{_named(layers)}: "
        "they keep their initial values.",
        step=step,
        measured={"weights": count, "layers": len(layers)},
        first=Action(
            Do.CHECK_MODEL,
            f"Create the optimizer after the model is complete, so that it contains "
            f"{_named(layers)}.",
        ),
    )


@Symptom(
    slug="frozen-at-init",
    family="parameters",
    title="Layers keep their random initial weights",
    needs=(_FROZEN,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "If the layer is random on purpose, put this finding on the ignore list.",
        ),
    ),
)
def frozen_at_init(case: Case) -> Evidence | None:
    """Do weight matrices keep their random values while others are trained?"""
    for fact, reason, fix in (
        (_FROZEN, "requires_grad is False", "Load the pretrained weights of {}, or unfreeze it."),
        (_UNMOVED, "no step changes them", "Check the learning rate of {}'s parameter group."),
    ):
        step = _first_true_step(case, fact)
        if step is not None:
            count, layers = int(case.history.finite(fact).values[-1]), _layers(case, fact)
            return Evidence(
                because=f"{plural(f'{count:,}', 'weight')} of {_named(layers)} look randomly "
                f"initialized, and are the same to the last bit throughout: {reason}.",
                step=step,
                measured={"weights": count, "layers": len(layers)},
                first=Action(Do.CHECK_MODEL, fix.format(_named(layers))),
            )
    return None


@Symptom(
    slug="no-gradient",
    family="parameters",
    title="No gradient reaches some parameters",
    needs=(_NO_GRADIENT,),
    next_actions=(
        Action(
            Do.CHECK_MODEL,
            "Freeze parameters that the loss does not need, such as an unused pooler.",
        ),
    ),
)
def no_gradient(case: Case) -> Evidence | None:
    """Do some of the optimizer's parameters never get a gradient?"""
    step = _first_true_step(case, _NO_GRADIENT)
    if step is None:
        return None
    count, layers = int(case.history.finite(_NO_GRADIENT).values[-1]), _layers(case, _NO_GRADIENT)
    fraction = _fraction_of_weights(case, count)
    # Models often have a small part that a task does not use.
    is_small = fraction is not None and fraction < case.limits.recorded.idle_fraction
    part = "" if fraction is None else f", {fraction:.2g} of all"
    return Evidence(
        because=f"{plural(f'{count:,}', 'weight')} of {_named(layers)}{part}, received no "
        f"gradient in "
        "any step.",
        step=step,
        measured={"weights": count, "layers": len(layers)},
        severity=Severity.NOTE if is_small else None,
        first=Action(
            Do.CHECK_MODEL,
            f"Look for a detach(), no_grad() or argmax between {_named(layers)} and the loss.",
        ),
    )


def _fraction_of_weights(case: Case, count: int) -> float | None:
    """Return a count as a fraction of all trainable weights, None if unknown."""
    total = recorder_header(case.history).get("trainable_values")
    return count / total if isinstance(total, int | float) and total else None


@Symptom(
    slug="evaluated-in-training-mode",
    family="evaluation",
    title="The model is evaluated in training mode",
    needs=(_EVALUATED,),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_EVALUATION,
            "If dropout in evaluation is intended, as in Monte Carlo dropout, put this finding on "
            "the ignore list.",
        ),
    ),
)
def evaluated_in_training_mode(case: Case) -> Evidence | None:
    """Were dropout or batch norm layers in training mode in most evaluations?"""
    series = case.history.finite(_EVALUATED)
    wrong = np.flatnonzero(series.values)
    if len(wrong) <= _MOST * len(series):
        return None
    count = int(series.values[wrong[0]])
    return Evidence(
        because=f"In {len(wrong)} of {plural(len(series), 'evaluation')}, "
        f"{plural(count, 'dropout or batch norm layer')} ran in training mode: the evaluation loss "
        "is noisy, and the running statistics change.",
        step=int(series.steps[wrong[0]]),
        measured={"evaluations": len(series), "in_training_mode": len(wrong), "layers": count},
        first=Action(Do.CHECK_EVALUATION, "Call model.eval() before each evaluation."),
    )


@Symptom(
    slug="left-in-evaluation-mode",
    family="evaluation",
    title="The model is trained in evaluation mode",
    needs=(_LEFT,),
    is_fact=True,
    next_actions=(
        Action(
            Do.REGULARIZE,
            "If batch norm is frozen on purpose, leave the rest of the model in training mode.",
        ),
    ),
)
def left_in_evaluation_mode(case: Case) -> Evidence | None:
    """Are all dropout and batch norm layers in evaluation mode at the end of training?"""
    step = _first_true_step(case, _LEFT)
    if step is None:
        return None
    return Evidence(
        because=f"From step {step} on the model was trained in evaluation mode: without dropout, "
        "and with fixed batch norm statistics.",
        step=step,
        first=Action(
            Do.CHECK_MODEL,
            f"Call model.train() after each evaluation; check the code that runs before step "
            f"{step}.",
            step=step,
        ),
    )


@Symptom(
    slug="batch-norm-of-few",
    family="model",
    title="Batch norm averages over very few values",
    needs=(_NORM_VALUES,),
    is_fact=True,
    next_actions=(Action(Do.CHANGE_MODEL, "Or freeze the statistics of a pretrained model."),),
)
def batch_norm_of_few(case: Case) -> Evidence | None:
    """Does a batch norm in training mode normalize over a handful of values?"""
    series = case.history.finite(_NORM_VALUES)
    count = int(np.median(series.values))
    if count > case.limits.recorded.batch_norm_values:
        return None
    error = math.sqrt(2 / (count - 1)) if count > 1 else math.inf
    off = f": its variance is off by {error:.0%}" if count > 1 else ""
    return Evidence(
        because=f"A batch norm layer estimates mean and variance from {plural(count, 'value')} per "
        f"channel{off}.",
        step=int(series.steps[0]),
        measured={"values": count},
        first=Action(
            Do.CHANGE_BATCH,
            "Train on larger batches, or replace batch norm with group norm or layer norm.",
            also=(Do.CHANGE_MODEL,),
            setting="batch_size",
        ),
    )


@Symptom(
    slug="optimizer-replaced",
    severity=Severity.ERROR,
    family="resume",
    title="The optimizer lost its state",
    needs=(_STEPS,),
    is_fact=True,
    next_actions=(
        Action(
            Do.RESTORE_STATE,
            "If a new optimizer is intended, as in a new phase, warm up the learning rate again.",
        ),
    ),
)
def optimizer_replaced(case: Case) -> Evidence | None:
    """Does the optimizer's own step count restart while the run continues?"""
    series = case.history.finite(_STEPS)
    steps, counts = series.steps, series.values
    lost = (counts[1:] <= _FIRST_COUNT) & (counts[:-1] >= _MIN_LOST_STEPS) & (np.diff(steps) > 0)
    if not lost.any():
        return None
    at = int(np.flatnonzero(lost)[0]) + 1
    step, before = int(steps[at]), int(counts[at - 1])
    return Evidence(
        because=f"At step {step} the optimizer had counted {int(counts[at])} steps, and "
        f"{before} just before: its moments are lost.",
        step=step,
        measured={"steps_before": before, "steps_after": int(counts[at])},
        first=Action(
            Do.RESTORE_STATE,
            f"At step {step}, load the optimizer's state with the weights: load_state_dict().",
            step=step,
        ),
    )


@Symptom(
    slug="initial-weights-off",
    family="parameters",
    title="Initial weights are far from the usual size",
    needs=(f"{_PREFIX}/initial_std",),
    is_fact=True,
    next_actions=(
        Action(Do.CHECK_MODEL, "Compare with a fresh layer: layer.reset_parameters()."),
        Action(
            Do.LOWER_LR, "If the size is intended, lower the learning rate or lengthen the warm-up."
        ),
    ),
)
def initial_weights_off(case: Case) -> Evidence | None:
    """Is the standard deviation of a matrix far from 1/√fan-in at the start of the run?"""
    limits = case.limits.recorded
    prefix = f"{_PREFIX}/initial_std/"
    ratios = {
        role.removeprefix(prefix): float(series.values[0])
        for role, series in case.history.series.items()
        if role.startswith(prefix) and len(series) and series.values[0] > 0
    }
    large = {layer: ratio for layer, ratio in ratios.items() if ratio > limits.initial_high}
    small = {layer: ratio for layer, ratio in ratios.items() if ratio < limits.initial_low}
    # Last layers and the ends of residual branches often start small on purpose.
    off = large or (small if len(small) > len(ratios) / 2 else {})
    if not off:
        return None
    layer = max(off, key=lambda name: abs(math.log(off[name])))
    ratio = off[layer]
    verb = "Scale down" if ratio > 1 else "Scale up"
    return Evidence(
        because=f"The weights of {layer!r} begin at {times(ratio)} the usual size, 1/√fan-in "
        f"({plural(len(off), 'layer')} of {len(ratios)} off).",
        step=case.history.first_step,
        measured={"layer": layer, "ratio": ratio, "layers_off": len(off), "layers": len(ratios)},
        first=Action(Do.CHECK_MODEL, f"{verb} the initialization of {layer!r}."),
    )


@Symptom(
    slug="labels-in-order",
    family="data",
    title="The labels are sorted",
    needs=(_ORDER,),
    preconditions=(at_least(_MIN_BATCHES, _ORDER),),
    is_fact=True,
    next_actions=(
        Action(
            Do.FIX_LOADER, "Check that each epoch and each process shuffles with a different seed."
        ),
    ),
)
def labels_in_order(case: Case) -> Evidence | None:
    """Do the classes of a batch resemble the classes of the previous batch?"""
    series = case.history.finite(_ORDER)
    mean = float(series.values.mean())
    if mean <= case.limits.recorded.label_order:
        return None
    return Evidence(
        because=f"The classes of a batch have a correlation of {mean:.2f} with the previous batch "
        f"({len(series)} batches); in shuffled data it is about 0.",
        step=int(series.steps[0]),
        measured={"correlation": mean, "batches": len(series)},
        first=Action(Do.SHUFFLE_DATA, "Shuffle the training data: DataLoader(…, shuffle=True)."),
    )


@Symptom(
    slug="inputs-nonfinite",
    severity=Severity.ERROR,
    family="data",
    title="Batches contain NaN or infinite inputs",
    needs=(_NONFINITE,),
    is_fact=True,
    next_actions=(
        Action(Do.SKIP_BATCHES, "Skip and count these batches until the data is clean."),
    ),
)
def inputs_nonfinite(case: Case) -> Evidence | None:
    """Does a batch contain inputs that are not finite?"""
    series = case.history.finite(_NONFINITE)
    bad = np.flatnonzero(series.values)
    if not len(bad):
        return None
    step, count = int(series.steps[bad[0]]), int(series.values[bad[0]])
    return Evidence(
        because=f"{plural(len(bad), 'batch', 'batches')} of {len(series)} had NaN or infinite "
        f"inputs, the first at step {step} ({plural(count, 'value')}).",
        step=step,
        measured={"batches": len(bad), "values": count},
        first=Action(
            Do.INSPECT_DATA, f"Find the NaN in the inputs of the batch of step {step}.", step=step
        ),
    )


@Symptom(
    slug="updates-lost",
    family="precision",
    title="16-bit weights lose most updates to rounding",
    needs=(_UNCHANGED, "lr"),
    preconditions=(at_least(3, _UNCHANGED),),
    explained_by=("nan",),
    is_fact=True,
    next_actions=(
        Action(
            Do.CHECK_PRECISION,
            "Or use stochastic rounding, or raise the learning rate so that updates exceed 1/512 "
            "of the weights.",
        ),
    ),
)
def updates_lost(case: Case) -> Evidence | None:
    """Do most weights with a gradient stay unchanged while the rate is high?"""
    unchanged = case.history.finite(_UNCHANGED)
    values = unchanged.values[_at_high_rate(case, unchanged)]
    if len(values) < 3 or _stored_as(case) not in ("bfloat16", "float16"):
        return None
    fraction = float(np.median(values))
    if fraction <= case.limits.recorded.lost_updates:
        return None
    stored = _stored_as(case)
    return Evidence(
        because=f"{fraction:.0%} of the weights with a gradient are unchanged after a step "
        f"(median of "
        f"{len(values)} at half the peak rate or more): {stored} rounds their updates away.",
        step=int(unchanged.steps[0]),
        measured={"unchanged": fraction, "stored_as": stored},
        first=Action(
            Do.CHANGE_DTYPE,
            f"Keep the weights in fp32 and compute in {stored} with autocast.",
            also=(Do.CHECK_PRECISION,),
        ),
    )


def _stored_as(case: Case) -> str | None:
    """Return the storage dtype of the weights, from the recorder's header."""
    stored = recorder_header(case.history).get("stored_as")
    return stored if isinstance(stored, str) else None


def _at_high_rate(case: Case, series: Series) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return a mask of the points where the learning rate was at least half its peak."""
    lr = case.history.finite("lr")
    if not len(lr) or not len(series):
        return np.zeros(len(series), dtype=bool)
    at = np.clip(np.searchsorted(lr.steps, series.steps), 0, len(lr) - 1)
    return np.asarray(lr.values[at] >= _HIGH_RATE * lr.values.max())
