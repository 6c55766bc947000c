"""The modes of dropout and batch norm layers, from the recorder."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import plural
from stabdiag.stats.standards import HALF
from stabdiag.symptoms.recorded.facts import PREFIX, first_true_step
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case

_EVALUATED: Final = f"{PREFIX}/evaluated_in_training_mode"
_LEFT: Final = f"{PREFIX}/trained_in_evaluation_mode"
_NORM_VALUES: Final = f"{PREFIX}/batch_norm_values"
_NORM_EXAMPLES: Final = f"{PREFIX}/batch_norm_examples"


@Symptom(
    slug="evaluated-in-training-mode",
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
    if len(wrong) <= HALF * len(series):
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
    step = first_true_step(case, _LEFT)
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


_LARGER_BATCHES: Final = Action(
    Do.CHANGE_BATCH,
    "Train on larger batches, or replace batch norm with group norm or layer norm.",
    also=(Do.CHANGE_MODEL,),
    setting="batch_size",
)


@Symptom(
    slug="batch-norm-of-few",
    title="Batch norm averages over very few values",
    needs=(_NORM_VALUES,),
    is_fact=True,
    next_actions=(Action(Do.CHANGE_MODEL, "Or freeze the statistics of a pretrained model."),),
)
def batch_norm_of_few(case: Case) -> Evidence | None:
    """Does a batch norm in training mode normalize over a handful of values or examples?"""
    series = case.history.finite(_NORM_VALUES)
    count = int(np.median(series.values))
    if count > case.limits.recorded.batch_norm_values:
        return _of_few_examples(case, count)
    error = math.sqrt(2 / (count - 1)) if count > 1 else math.inf
    off = f": its variance is off by {error:.0%}" if count > 1 else ""
    return Evidence(
        because=f"A batch norm layer estimates mean and variance from {plural(count, 'value')} per "
        f"channel{off}.",
        step=int(series.steps[0]),
        measured={"values": count},
        first=_LARGER_BATCHES,
    )


def _of_few_examples(case: Case, values: int) -> Evidence | None:
    """Report a batch norm over many positions of one or two examples, if evaluation differs.

    Positions of an example resemble each other. A model that is evaluated in training mode, as some
    image translators are, never uses the running statistics.
    """
    series, evaluated = case.history.finite(_NORM_EXAMPLES), case.history.finite(_EVALUATED)
    if not len(series) or not len(evaluated) or evaluated.values.any():
        return None
    count = int(np.median(series.values))
    if count > case.limits.recorded.batch_norm_examples:
        return None
    return Evidence(
        because=f"A batch norm layer estimates mean and variance from {plural(count, 'example')}, "
        f"{plural(values, 'position')} in total; evaluation uses the running mean of these "
        "estimates.",
        step=int(series.steps[0]),
        measured={"examples": count, "values": values},
        first=_LARGER_BATCHES,
    )
