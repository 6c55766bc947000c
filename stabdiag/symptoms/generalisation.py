"""The symptoms of an evaluation loss that is far from the training loss, or as high as it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.losses import (
    FEW_EVALUATIONS,
    LAST_EVALUATIONS,
    chance,
    few_trained,
    from_the_start,
    near,
    trained,
    with_evaluations,
)
from stabdiag.symptoms.overfitting import overfitting
from stabdiag.symptoms.symptom import Evidence, Symptom

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# An evaluation loss that has come down to this share of what it was is learning, however far below
# it the training loss has gone.
_LEARNED = 0.05


def eval_gap_from_start(case: Case) -> Evidence | None:
    """Is the evaluation loss far above the training loss from the first evaluation on?"""
    pair = with_evaluations(case)
    # In an epoch a model can learn much by heart.
    if pair is None or not from_the_start(case) or case.history.counts_epochs:
        return None
    train, held = pair
    limits = case.limits.generalisation
    begin, end = int(train.steps[0]), int(train.steps[-1])
    # A model that knows nothing yet knows as little of either set.
    soon = np.flatnonzero(held.steps <= begin + limits.early * (end - begin))
    if not len(soon):
        return None
    since = held.between(int(held.steps[soon[-1]]), end + round(case.stride))
    if since.values[0] < limits.gap * near(train, int(since.steps[0])):
        return None
    beside = np.array([near(train, step) for step in since.steps.tolist()])
    ratios = since.values / beside
    least, ratio, first = float(ratios.min()), float(ratios[0]), int(since.steps[0])
    if float(held.values[-1]) < _LEARNED * float(held.values[0]):
        return None
    # What was learned by heart soon is a gap that opened, only sooner.
    if least < limits.gap or overfitting(case) is not None:
        return None
    return Evidence(
        because=f"At step {first}, {(first - begin) / max(end - begin, 1):.0%} into the run, the "
        f"evaluation loss is {num(float(since.values[0]))} beside a training loss of "
        f"{num(float(beside[0]))}, and no later one is less than {num(least)} x the training loss.",
        step=first,
        measured={"first_ratio": ratio, "least_ratio": least},
        first=Action(
            ActionKind.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to step {first} on training batches, once in "
            "training and once in evaluation mode: if the two differ, batch-norm statistics or "
            "dropout are at fault, and if not, the data is.",
            step=first,
        ),
        then=(
            Action(
                ActionKind.CHECK_LOSS_FUNCTION,
                "Check that both losses are means over the same unit, with the same mask and the "
                "same smoothing.",
            ),
            Action(
                ActionKind.CHECK_EVALUATION,
                "Check that evaluation data is prepared by the same code: tokenizer, "
                "normalisation.",
            ),
        ),
    )


def underfitting(case: Case) -> Evidence | None:
    """Are both losses still near chance at the end of the run?"""
    pair, after, classes = with_evaluations(case), trained(case), case.manifest.vocab_size or 0
    if pair is None or after is None or classes < 2:
        return None
    last, held = float(levels(after.values, 10)[-1]), median(pair[1].values[-LAST_EVALUATIONS:])
    level = chance(classes)
    learned = last < level * (1 - 5 * case.limits.learning.chance_band)
    if not learned or last < case.limits.generalisation.underfit * level or held < last:
        return None
    return Evidence(
        because=f"After {int(after.steps[-1])} steps the training loss is {num(last)} and the "
        f"evaluation loss {num(held)}; a guess among {classes} classes has {num(level)}.",
        step=None,
        measured={"loss": last, "eval_loss": held, "log_k": level},
        first=Action(
            ActionKind.KEEP_GOING,
            f"Train longer than {int(after.steps[-1])} steps if the loss still falls; if it does "
            "not, raise the learning rate with care.",
            also=(ActionKind.RAISE_LR,),
            step=int(after.steps[-1]),
        ),
        then=(
            Action(ActionKind.CHANGE_MODEL, "Take a larger model."),
            Action(ActionKind.REGULARISE_LESS, "Reduce weight decay, dropout and label smoothing."),
        ),
    )


def eval_nonfinite(case: Case) -> Evidence | None:
    """Is an evaluation loss NaN or infinite, while the training loss goes on?"""
    held = case.history.series["eval_loss"]
    bad = ~np.isfinite(held.values)
    if not bad.any():
        return None
    first, count = int(held.steps[bad][0]), int(bad.sum())
    of = f" ({count} of {len(held)} evaluations)" if len(held) > 1 else ""
    return Evidence(
        because=f"The evaluation loss is not finite at step {first}{of}, while the training loss "
        "is.",
        step=first,
        measured={"steps": count, "of": len(held)},
        first=Action(
            ActionKind.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to step {first} batch by batch, to find the batch "
            "or the example whose loss is not finite.",
            step=first,
        ),
        then=(
            Action(
                ActionKind.INSPECT_DATA,
                "Look for batches that are empty, or whose labels are all masked: a mean over "
                "nothing is 0/0.",
            ),
            Action(
                ActionKind.CHECK_PRECISION,
                "Evaluate in fp32: a loss that was scaled or autocast in training may overflow "
                "here.",
            ),
            Action(
                ActionKind.CHECK_EVALUATION,
                "Leave values that are not finite out of averages, or early stopping and the "
                "choice of the best checkpoint will fail.",
            ),
        ),
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="eval-gap-from-start",
        severity=Severity.WARNING,
        family="generalisation",
        title="The evaluation loss is far above the training loss from the start",
        check=eval_gap_from_start,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.gap",
            "generalisation.early",
            "generalisation.min_evaluations",
        ),
        explained_by=("nan",),
        enough=FEW_EVALUATIONS,
    ),
    Symptom(
        slug="underfitting",
        severity=Severity.NOTE,
        family="generalisation",
        title="Both losses end near chance",
        check=underfitting,
        needs=("loss", "eval_loss", "manifest.vocab_size"),
        limits=("generalisation.underfit", "generalisation.min_evaluations"),
        explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
        enough=(
            few_trained,
            *FEW_EVALUATIONS,
        ),
    ),
    Symptom(
        slug="eval-nonfinite",
        severity=Severity.WARNING,
        family="generalisation",
        title="The evaluation loss is not finite",
        check=eval_nonfinite,
        needs=("loss", "eval_loss"),
        explained_by=("nan",),
    ),
)
