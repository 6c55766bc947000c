"""Findings from a held-out batch: activations, the noise floor, wrong labels.

The recorder evaluates a batch that is never trained on, in evaluation mode. These findings come
after all others of their severity, because they rely on a statistic.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import SHOWN_NAMES, and_more, num
from stabdiag.stats.standards import BEYOND_CHANCE, HALF, MIN_COMPARED, MIN_CONSECUTIVE
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_HELDOUT: Final = "recorder/held_loss"
_GAIN: Final = "recorder/average_gain"
_ERROR: Final = "recorder/average_gain_error"
_EXCESS: Final = "recorder/training_excess"

# The median of the last measurements is used, so that a single one does not decide.
_LAST: Final = MIN_CONSECUTIVE

# A gain counts beyond this many of its standard errors.
_STANDARD_ERRORS: Final = BEYOND_CHANCE

# A rate that ends above this fraction of its peak has not decayed.
_HIGH_RATE: Final = HALF

# Each measurement of the excess has a standard deviation of about 1. Most of them must be above
# this, in addition to a significant sum.
_USUAL_EXCESS: Final = 1.5

# Fewer measurements are not enough for a finding.
_MIN_HELDOUT_MEASUREMENTS: Final = MIN_COMPARED


@Symptom(
    slug="saturated-from-start",
    title="Activations are saturated from the first step on",
    needs=("saturated_fraction", _HELDOUT),
    next_actions=(
        Action(Do.CHANGE_MODEL, "Normalize the inputs, and before the saturated layer."),
    ),
)
def saturated_from_start(case: Case) -> Evidence | None:
    """Are most activations of a layer at their bound when training begins?"""
    return _from_start(
        case,
        "saturated_fraction",
        case.limits.weights.max_saturated_fraction,
        "activations of {} are at their bound",
        Action(
            Do.CHECK_MODEL,
            "Scale down the inputs or the initial weights of {}: saturated units pass no gradient.",
        ),
    )


@Symptom(
    slug="dead-from-start",
    title="Units are dead from the first step on",
    needs=("dead_fraction", _HELDOUT),
    next_actions=(Action(Do.CHANGE_MODEL, "Or replace ReLU with GELU or leaky ReLU."),),
)
def dead_from_start(case: Case) -> Evidence | None:
    """Are most units of a layer zero for every held-out example when training begins?"""
    return _from_start(
        case,
        "dead_fraction",
        case.limits.weights.max_dead_fraction,
        "units of {} are zero for every example of the held-out batch",
        Action(Do.CHECK_MODEL, "Check the initial bias and weights of the layer that precedes {}."),
    )


def _from_start(case: Case, role: str, limit: float, noun: str, first: Action) -> Evidence | None:
    """Report the layer with the highest fraction at first, if it is still above the limit."""
    groups = {name: series.finite() for name, series in case.history.group(role).items()}
    high = {
        name: float(series.values[0])
        for name, series in groups.items()
        if len(series) and min(series.values[0], series.values[-1]) > limit
    }
    if not high:
        return None
    name = max(high, key=lambda layer: high[layer])
    step = int(groups[name].steps[0])
    shown = repr(name)
    return Evidence(
        because=f"At step {step}, {high[name]:.0%} of the {noun.format(shown)} "
        f"({and_more([repr(layer) for layer in sorted(high)], SHOWN_NAMES)} above {limit:.0%}).",
        step=step,
        measured={"layer": name, "fraction": high[name], "layers_affected": len(high)},
        first=Action(first.kind, first.text.format(shown)),
    )


@Symptom(
    slug="ends-at-noise-floor",
    title="The learning rate keeps the loss higher than necessary",
    needs=(_GAIN, _ERROR, "lr"),
    preconditions=(at_least(_LAST, _GAIN),),
    explained_by=("nan", "divergence", "spike"),
    next_actions=(
        Action(Do.LOWER_LR, "Or lower the peak rate, and compare the loss of the held-out batch."),
        Action(Do.RERUN, "Until then, evaluate an average of the last weights."),
    ),
)
def ends_at_noise_floor(case: Case) -> Evidence | None:
    """Is an average of the last weights clearly better, while the rate is still high?"""
    gain, error, lr = (case.history.finite(role) for role in (_GAIN, _ERROR, "lr"))
    median = float(np.median(gain.values[-_LAST:]))
    noise = float(np.median(error.values[-_LAST:])) if len(error) else math.inf
    peak, last = float(lr.values.max()), float(lr.values[-1])
    if median < case.limits.recorded.average_gain or median <= _STANDARD_ERRORS * noise:
        return None
    if last <= _HIGH_RATE * peak:
        return None
    return Evidence(
        because=f"On the held-out batch, the average of the last weights has a loss {median:.0%} "
        f"lower "
        f"than the weights themselves (standard error {noise:.1%}), while the learning rate is "
        f"{num(last)}, and was {num(peak)} at its peak.",
        step=int(gain.steps[-1]),
        measured={"gain": median, "standard_error": noise, "lr": last},
        first=Action(
            Do.FIX_SCHEDULE,
            "Let the learning rate decay to a tenth of its peak or less by the end of the run.",
        ),
    )


@Symptom(
    slug="training-labels-wrong",
    title="Training examples are harder than held-out ones",
    needs=(_EXCESS,),
    preconditions=(at_least(_MIN_HELDOUT_MEASUREMENTS, _EXCESS),),
    explained_by=("nan", "divergence"),
    next_actions=(
        Action(Do.INSPECT_DATA, "Compare the sources of the training and the held-out examples."),
    ),
)
def training_labels_wrong(case: Case) -> Evidence | None:
    """Do trained batches have a higher loss than the held-out batch, in the same mode?"""
    excess = case.history.finite(_EXCESS)
    values = excess.values[1:]
    score = float(values.sum() / math.sqrt(len(values)))
    if score <= case.limits.recorded.training_excess or np.median(values) <= _USUAL_EXCESS:
        return None
    return Evidence(
        because="In evaluation mode, batches that the model has just trained on have a higher loss "
        f"than the held-out batch, by {num(score, 2)} standard errors ({len(values)} "
        "measurements).",
        step=int(excess.steps[0]),
        measured={"standard_errors": score, "measurements": len(values)},
        first=Action(
            Do.CHECK_LABELS,
            "Read the training examples with the highest loss, and check their labels.",
        ),
    )
