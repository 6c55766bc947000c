"""Advice on §4: a plateau of the loss."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, sentence
from stabdiag.stats.standards import FIFTH
from stabdiag.tree.advice.shared import Advice
from stabdiag.tree.case import Case
from stabdiag.tree.divergence import climb_steps

# Schedules usually end at a tenth of the peak or at 0.
_DECAYED = FIFTH


@frozen
class _Evaluation:
    """The evaluation loss over the plateau; ``change`` is 0 unless it is material."""

    text: str
    change: float
    lowest: int


def plateau(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A plateau of the loss."""
    evaluation = _evaluation(case)
    return Advice(
        summary=sentence(answers["Q4.1"].because),
        first=_first(case, evaluation),
        next_actions=_then(case, evaluation),
    )


def _first(case: Case, evaluation: _Evaluation | None) -> Action:
    lr = case.history.finite("lr")
    if len(lr) and not lr.values[-1]:
        moved = np.flatnonzero(lr.values)
        since = int(lr.steps[moved[-1] + 1 if len(moved) else 0])
        evidence = "" if evaluation is None else f"; {evaluation.text}"
        text = f"Stop the run: the learning rate is 0 from {case.unit} {since} on{evidence}."
        return Action(ActionKind.STOP_EARLY, text, step=since)
    if evaluation is None:
        return Action(
            ActionKind.CHECK_EVALUATION,
            "Check the evaluation loss, and stop the run if that is flat as well.",
            also=(ActionKind.STOP_EARLY,),
        )
    if evaluation.change < 0:
        return Action(ActionKind.KEEP_GOING, f"Keep the run going: {evaluation.text}.")
    return Action(ActionKind.STOP_EARLY, f"Stop the run: {evaluation.text}.")


def _then(case: Case, evaluation: _Evaluation | None) -> tuple[Action, ...]:
    if evaluation is not None and evaluation.change > 0:
        best = case.describe(evaluation.lowest)
        keep = f"Keep the checkpoint nearest to {best}, where it was lowest."
        return (Action(ActionKind.KEEP_CHECKPOINT, keep, checkpoint=evaluation.lowest),)
    rates = case.history.finite("lr").values
    last = float(rates[-1]) if len(rates) else None
    peak = float(rates.max(initial=0.0))
    if last is not None and last <= _DECAYED * peak and peak > 0:
        longer = (
            "For a lower loss, restart with a longer schedule: the learning rate is already down "
            f"from {num(peak)} to {num(last)}."
        )
        return (Action(ActionKind.FIX_SCHEDULE, longer, setting="total_steps"),)
    now = "" if last is None else f" (now {num(last)})"
    decay = f"consider decaying the learning rate{now}"
    if evaluation is None:
        text, other_kinds = f"If it still falls, keep going, and {decay}.", (ActionKind.LOWER_LR,)
        return (Action(ActionKind.KEEP_GOING, text, also=other_kinds, setting="lr", from_=last),)
    return (Action(ActionKind.LOWER_LR, sentence(decay), setting="lr", from_=last),)


def _evaluation(case: Case) -> _Evaluation | None:
    """Return the evaluation loss from the start of the plateau on; None if it is too short."""
    losses = case.history.finite("eval_loss")
    if len(losses) < 2:
        return None
    first, _ = climb_steps(case)
    begun = max(int(np.searchsorted(losses.steps, first, side="right")) - 1, 0)
    begun = min(begun, len(losses) - 2)
    before, last = float(losses.values[begun]), float(losses.values[-1])
    lowest = int(np.argmin(losses.values))
    progress = float(losses.values[0] - losses.values[lowest])
    change = last - before
    if abs(change) <= case.limits.divergence.material * progress:
        change = 0.0
    trend = "still falls" if change < 0 else "rose" if change > 0 else "is flat as well"
    return _Evaluation(
        text=f"the evaluation loss {trend} ({num(before)} at {case.unit} {losses.steps[begun]}, "
        f"{num(last)} at {case.unit} {losses.steps[-1]})",
        change=change,
        lowest=int(losses.steps[lowest]),
    )
