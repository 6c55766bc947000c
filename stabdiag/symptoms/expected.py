"""The symptoms of a loss that is not where it should be: at the start, at the end, or too low."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.symptoms.losses import (
    chance,
    few_trained,
    from_the_start,
    is_distance,
    times_the_evaluation,
    trained,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# A run is looked at in so many stretches.
_STRETCHES = 10

# A loss whose second half brings less than this share of its fall has gone flat.
_FLAT = 0.05

# A loss that is a multiple of the evaluation's is a sum where that is a mean.
_SUMMED = Action(
    ActionKind.CHECK_LOSS_FUNCTION,
    "Check what the training loss is a mean over: of a sum over the micro-batches that a step "
    "accumulates, or over the tokens of a batch, gradients may be as many times too large.",
)


def initial_loss_off(case: Case) -> Evidence | None:
    """Is the first loss far above the logarithm of the number of classes?"""
    classes = case.manifest.vocab_size or 0
    if classes < 2 or not is_distance(case) or not from_the_start(case):
        return None
    first, level = float(case.loss.values[0]), chance(classes)
    if first <= case.limits.learning.initial_factor * level or "+" in case.loss.column:
        return None
    if _was_lost(case):
        return None
    found = f"The first loss is {num(first)}, {num(first / level)} x the {num(level)} that a model "
    found += f"without knowledge has with {classes} classes"
    lower = Action(
        ActionKind.CHANGE_MODEL,
        f"Lower the scale of the output layer's initialisation until the first loss is near "
        f"{num(level)}, and check that the loss is a mean over tokens.",
        also=(ActionKind.CHECK_LOSS_FUNCTION,),
    )
    times = times_the_evaluation(case) or 0.0
    summed = times > case.limits.learning.initial_factor
    also = f", and the training loss is about {num(times)} x the evaluation loss" if summed else ""
    return Evidence(
        because=f"{found}{also}.",
        step=int(case.loss.steps[0]),
        measured={"first_loss": first, "log_k": level},
        first=_SUMMED if summed else lower,
        then=(
            *((lower,) if summed else ()),
            Action(
                ActionKind.CHECK_MODEL,
                "Check the normalisation of the inputs and the layer before the logits.",
            ),
            Action(
                ActionKind.CHECK_LABELS,
                "Check that labels and ignored positions are what the loss takes them for.",
            ),
            Action(
                ActionKind.CHECK_MODEL,
                "If the model was trained before, check that its tokenizer, its template and its "
                "weights are the intended ones.",
            ),
        ),
    )


def _was_lost(case: Case) -> bool:
    """Tell whether the steps before the first logged loss may have made it what it is.

    Those of a run whose loss is not finite in the next record have: it is not where the run began.
    """
    losses = case.history.series["loss"].values
    return int(case.loss.steps[0]) > 1 and not np.isfinite(losses[:2]).all()


def plateau_early(case: Case) -> Evidence | None:
    """Did the loss fall and then go flat far above the manifest's target?"""
    after, target = trained(case), case.manifest.target_loss
    if after is None or target is None:
        return None
    level = levels(after.values, 2 * _STRETCHES)
    half, last = level[_STRETCHES:], float(level[-1])
    fallen = float(after.values[0]) - last
    flat = float(half[0]) - last <= _FLAT * fallen
    if not flat or last <= case.limits.learning.above_target * target or fallen <= 0:
        return None
    step = int(after.steps[len(after) // 2])
    return Evidence(
        because=f"The loss is flat at {num(last)} from step {step} on; the manifest's target is "
        f"{num(target)}.",
        step=step,
        measured={"loss": last, "target_loss": target},
        first=Action(
            ActionKind.STOP_EARLY,
            f"Stop the run, and look at the learning rate at step {step}: decayed too early or "
            "set too low, it leaves the loss where it is.",
            also=(ActionKind.FIX_SCHEDULE,),
            step=step,
        ),
        then=(
            Action(
                ActionKind.LOG_MORE,
                "Log the gradient norm by layer: where it vanishes in the first ones, check "
                "residual connections, normalisation and activations.",
            ),
            Action(
                ActionKind.CHANGE_MODEL,
                "Train a larger model on the same data: if it gets lower, the capacity was the "
                "limit.",
            ),
        ),
    )


def too_good(case: Case) -> Evidence | None:
    """Has the loss of a language model gone to nearly zero?"""
    limits, classes = case.limits.learning, case.manifest.vocab_size or 0
    if classes < limits.least_classes or not is_distance(case) or len(case.loss) < _STRETCHES:
        return None
    last, level = float(levels(case.loss.values, _STRETCHES)[-1]), chance(classes)
    # A model that began there was trained before, or is rewarded; one that evaluates badly has
    # learned by heart, which is another symptom.
    if last >= limits.too_good * level or case.loss.values[0] < level / 2:
        return None
    evaluated = case.history.get("eval_loss")
    if evaluated is not None and len(evaluated) and evaluated.values[-1] > 10 * last:
        return None
    low = int(np.argmax(case.loss.values < limits.too_good * level))
    step = int(case.loss.steps[low])
    return Evidence(
        because=f"The loss fell from {num(float(case.loss.values[0]))} to {num(last)}, below "
        f"{limits.too_good:.0%} of the {num(level)} of chance among {classes} classes, first at "
        f"step {step}.",
        step=step,
        measured={"first_loss": float(case.loss.values[0]), "loss": last, "log_k": level},
        first=Action(
            ActionKind.INSPECT_DATA,
            f"Print one batch of step {step} with its labels, and look for the label among the "
            "inputs: targets that are not shifted, a mask that shows the future, a leaking "
            "feature.",
            step=step,
        ),
        then=(
            Action(
                ActionKind.CHECK_EVALUATION,
                "Evaluate on data that no part of the pipeline has touched.",
            ),
            Action(
                ActionKind.INSPECT_DATA,
                "Count how often each example is seen: a small set is memorised.",
            ),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="initial-loss-off",
        severity=Severity.WARNING,
        family="learning",
        title="The first loss is far above chance",
        check=initial_loss_off,
        needs=("loss", "manifest.vocab_size"),
        limits=("learning.initial_factor",),
    ),
    Symptom(
        slug="plateau-early",
        severity=Severity.WARNING,
        family="learning",
        title="The loss went flat above its target",
        check=plateau_early,
        needs=("loss", "manifest.target_loss"),
        limits=("learning.above_target", "learning.least_fall"),
        explained_by=("nan", "divergence"),
        enough=(few_trained,),
    ),
    Symptom(
        slug="too-good",
        severity=Severity.WARNING,
        family="learning",
        title="The loss is too good to be true",
        check=too_good,
        needs=("loss", "manifest.vocab_size"),
        limits=("learning.too_good", "learning.least_classes"),
        explained_by=("nan",),
        enough=(at_least(_STRETCHES, "loss"),),
    ),
)
