"""Runs whose weights do not change, by the learning rates or the norms of weights that they log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import digits, num
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.symptoms.losses import best_evaluation, from_the_start, is_distance, rate_is_zero

if TYPE_CHECKING:
    from stabdiag.symptoms.symptom import Evidence
    from stabdiag.tree.case import Case

# Fewer losses do not tell whether they fall; fewer norms may be equal by chance, or rounded.
_LEAST_POINTS = 5
_LEAST_DIGITS = 5

# The second half of losses that stand still is below the first by no more errors than this.
_ERRORS = 3.0

# What is advised of a learning rate that is not known, or not 0.
STEPS = Action(
    ActionKind.CHECK_MODEL,
    "Check that the optimizer steps, and with a learning rate that is not 0.",
)
LOWER = Action(
    ActionKind.LOWER_LR, "Divide the learning rate by 10: one far too high also ends at chance."
)
RANGE = Action(
    ActionKind.TEST_LR, "Run a learning-rate range test: too low crawls, too high bounces."
)


def stands_still(case: Case) -> bool:
    """Tell whether the log shows that no step changes the weights, and the loss does not fall.

    A rate of 0 may have been rounded, so that a loss that falls is believed before it.
    """
    loss = case.loss
    if len(loss) < _LEAST_POINTS or not is_distance(case) or not from_the_start(case):
        return False
    if not rate_is_zero(case, int(loss.steps[0])) and unchanged_norm(case) is None:
        return False
    least = case.limits.learning.least_fall
    x = loss.values
    if best_evaluation(case) < float(x[0]) * (1 - 2 * least):
        return False
    early, late = x[: len(x) // 2], x[len(x) // 2 :]
    fall = float(early.mean() - late.mean())
    error = diff_sigma(x) * float(np.sqrt(1 / len(early) + 1 / len(late)))
    return fall <= max(least * float(early.mean()), _ERRORS * error)


def unchanged_norm(case: Case) -> float | None:
    """Return the norm of the weights, if each that was logged is the same in every record."""
    norms = [series.finite().values for series in case.history.group("weight_norm").values()]
    still = [
        len(x) >= _LEAST_POINTS and not np.ptp(x) and digits(float(x[0])) >= _LEAST_DIGITS
        for x in norms
    ]
    return max(float(x[0]) for x in norms) if norms and all(still) else None


def with_cause(case: Case, evidence: Evidence) -> Evidence:
    """Return what speaks for a loss that stands still, and what the log shows of why."""
    if evidence.step is not None and rate_is_zero(case, evidence.step):
        return _without_rate(evidence)
    norm = unchanged_norm(case)
    if norm is None:
        return _without_gradient(case, evidence)
    return replace(
        evidence,
        because=f"{evidence.because[:-1]}; the norm of the weights is {num(norm)} all that time.",
        first=Action(
            ActionKind.CHECK_MODEL,
            "Check that the optimizer holds the parameters that are trained, and steps: none of "
            "the weights that are logged changes.",
        ),
        then=(evidence.first, *evidence.then),
    )


def _without_rate(evidence: Evidence) -> Evidence:
    return replace(
        evidence,
        because=f"{evidence.because[:-1]}; the learning rate is 0 all that time.",
        first=Action(
            ActionKind.FIX_SCHEDULE,
            "Find out what sets the learning rate to 0: no step changes the weights.",
        ),
        then=(
            Action(
                ActionKind.LOG_MORE,
                "Log the learning rate with more digits, if it may be smaller than those written.",
            ),
            evidence.first,
            *(act for act in evidence.then if act not in (STEPS, LOWER, RANGE)),
        ),
    )


def _without_gradient(case: Case, evidence: Evidence) -> Evidence:
    """Add what a gradient norm says that is 0 in every record, where that is true of this run."""
    if not case.history.without_gradient:
        return evidence
    first = Action(
        ActionKind.CHECK_MODEL,
        "Find out why no gradient reaches the weights: print which have one, and its norm.",
    )
    if case.manifest.dtype == "fp16":
        first = Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Scale the loss (torch.amp.GradScaler), or switch from fp16 to bf16: in fp16 small "
            "gradients become 0.",
            also=(ActionKind.CHANGE_DTYPE,),
        )
    return replace(
        evidence,
        because=f"{evidence.because} The gradient norm was logged as 0 all that time.",
        first=first,
        then=(evidence.first, *evidence.then),
    )
