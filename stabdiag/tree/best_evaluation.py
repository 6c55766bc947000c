"""The best evaluation of a run whose evaluation loss ends above it."""

from __future__ import annotations

from stabdiag.model.text import num
from stabdiag.stats.course import evaluation_level
from stabdiag.tree.case import Case


def describe_best_evaluation(case: Case) -> str:
    """Name the best evaluation if the loss ends above it by the limit of a rise, else return "".

    Noisy evaluations may not show a rise beyond doubt. Their best checkpoint is useful anyway.
    """
    evaluations = case.history.finite("eval_loss")
    x = evaluations.values
    best = int(x.argmin()) if len(x) else 0
    after = x[best + 1 :]
    if len(after) < 2 or x[best] <= 0:
        return ""
    if evaluation_level(after) <= (1 + case.limits.generalization.eval_rise) * x[best]:
        return ""
    step = int(evaluations.steps[best])
    return f"The evaluation loss was lowest, {num(float(x[best]))}, at {case.unit} {step}."
