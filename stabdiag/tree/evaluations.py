"""Evaluations of a stable run that end far from the best one, or from the training loss."""

from __future__ import annotations

from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, times
from stabdiag.stats.course import end_level, evaluation_level, late_level
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import FIFTH, MIN_CONSECUTIVE, NEGLIGIBLE, TWICE
from stabdiag.tree.case import Case
from stabdiag.tree.progress import SHOWN_SCORES
from stabdiag.tree.scores import scores


def describe_evaluations(case: Case) -> tuple[str, ...]:
    """Return sentences about the evaluations of a run; those that do not apply are empty."""
    return _best_evaluation(case), _best_score(case), _gap(case) or _score_gap(case)


def _best_evaluation(case: Case) -> str:
    """Name the best evaluation if the loss ends a twentieth above it or more, else return "".

    Noisy evaluations may not show a rise beyond doubt. Their best checkpoint is useful anyway.
    """
    evaluations = case.history.finite("eval_loss")
    x = evaluations.values
    best = int(x.argmin()) if len(x) else 0
    after = x[best + 1 :]
    if len(after) < 2 or x[best] <= 0:
        return ""
    if evaluation_level(after) <= (1 + NEGLIGIBLE) * x[best]:
        return ""
    step = int(evaluations.steps[best])
    return f"The evaluation loss was lowest, {num(float(x[best]))}, at {case.unit} {step}."


def _best_score(case: Case) -> str:
    """Name the best value of a score that ends at a fraction of it, else return "".

    A score that was never good does not collapse, but the best checkpoint is not the last one.
    """
    least = case.limits.generalization.collapsed_score
    for score in scores(case)[:SHOWN_SCORES]:
        x, best = score.series.values, score.best_position
        after = x[best + 1 :]
        if score.direction < 0 or len(after) < MIN_CONSECUTIVE:
            continue
        if 0 <= median(after[-MIN_CONSECUTIVE:]) < least * x[best]:
            step = int(score.series.steps[best])
            return f"{score.name!r} was highest, {num(float(x[best]))}, at {case.unit} {step}."
    return ""


def _gap(case: Case) -> str:
    """State how far above the training loss the evaluations end if it is a multiple, else "".

    Both of two evaluations have to be that far above the usual loss of the second half.
    """
    x, heldout = case.loss.values, case.history.finite("eval_loss").values
    if len(x) < MIN_CONSECUTIVE or len(heldout) < 2 or case.loss_kind is not None:
        return ""
    train, last = end_level(x), evaluation_level(heldout)
    is_apart = len(heldout) >= MIN_CONSECUTIVE or heldout.min() >= TWICE * late_level(x)
    if not 0 < TWICE * train <= last or not is_apart:
        return ""
    return (
        f"The evaluation loss ends at {times(last / train)} the training loss: both are computed "
        "differently, or the model memorizes."
    )


def _score_gap(case: Case) -> str:
    """State how far the evaluation accuracy ends below the training accuracy, else return ""."""
    train, heldout = (case.history.finite(role) for role in ("accuracy", "eval_accuracy"))
    if min(len(train), len(heldout)) < MIN_CONSECUTIVE:
        return ""
    # One of them may be in percent.
    if full_scale(float(train.values.max())) != full_scale(float(heldout.values.max())):
        return ""
    right, carried = float(train.values[-1]), float(heldout.values[-1])
    usual, usual_heldout = (median(series.values[-MIN_CONSECUTIVE:]) for series in (train, heldout))
    least = FIFTH * full_scale(float(train.values.max()))
    if min(right - carried, usual - usual_heldout) < least:
        return ""
    return (
        f"{heldout.column!r} ends at {num(carried)}, far below {train.column!r} at {num(right)}: "
        "the model memorizes, or the data differ."
    )
