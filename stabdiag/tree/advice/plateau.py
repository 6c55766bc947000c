"""Advice on §4: a loss that has stopped falling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, sentence
from stabdiag.tree.advice.shared import Advice
from stabdiag.tree.case import Case
from stabdiag.tree.divergence import climb

# Schedules end at a tenth of the peak, or at nothing.
_DECAYED = 0.2


@frozen
class _Evaluation:
    """What the evaluation loss did over the plateau: ``change`` is 0 where it is not material."""

    told: str
    change: float
    lowest: int


def plateau(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that has stopped falling."""
    held = _evaluation(case)
    return Advice(
        summary=sentence(answers["Q4.1"].because), first=_first(case, held), then=_then(case, held)
    )


def _first(case: Case, held: _Evaluation | None) -> Action:
    lr = case.history.finite("lr")
    if len(lr) and not lr.values[-1]:
        moved = np.flatnonzero(lr.values)
        since = int(lr.steps[moved[-1] + 1 if len(moved) else 0])
        beside = "" if held is None else f"; {held.told}"
        text = f"Stop the run: the learning rate is 0 from {case.unit} {since} on{beside}."
        return Action(ActionKind.STOP_EARLY, text, step=since)
    if held is None:
        return Action(
            ActionKind.CHECK_EVALUATION,
            "Check the evaluation loss, and stop the run if that is flat as well.",
            also=(ActionKind.STOP_EARLY,),
        )
    if held.change < 0:
        return Action(ActionKind.KEEP_GOING, f"Keep the run going: {held.told}.")
    return Action(ActionKind.STOP_EARLY, f"Stop the run: {held.told}.")


def _then(case: Case, held: _Evaluation | None) -> tuple[Action, ...]:
    if held is not None and held.change > 0:
        keep = f"Keep the checkpoint nearest to {case.describe(held.lowest)}, where it was lowest."
        return (Action(ActionKind.KEEP_CHECKPOINT, keep, checkpoint=held.lowest),)
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
    if held is None:
        text, also = f"If it still falls, keep going, and {decay}.", (ActionKind.LOWER_LR,)
        return (Action(ActionKind.KEEP_GOING, text, also=also, setting="lr", from_=last),)
    return (Action(ActionKind.LOWER_LR, sentence(decay), setting="lr", from_=last),)


def _evaluation(case: Case) -> _Evaluation | None:
    """Return what the evaluation loss did from the beginning of the plateau on, if that shows."""
    held = case.history.finite("eval_loss")
    if len(held) < 2:
        return None
    first, _ = climb(case)
    begun = max(int(np.searchsorted(held.steps, first, side="right")) - 1, 0)
    begun = min(begun, len(held) - 2)
    before, last = float(held.values[begun]), float(held.values[-1])
    lowest = int(np.argmin(held.values))
    progress = float(held.values[0] - held.values[lowest])
    change = last - before
    if abs(change) <= case.limits.divergence.material * progress:
        change = 0.0
    did = "still falls" if change < 0 else "rose" if change > 0 else "is flat as well"
    return _Evaluation(
        told=f"the evaluation loss {did} ({num(before)} at {case.unit} {held.steps[begun]}, "
        f"{num(last)} at {case.unit} {held.steps[-1]})",
        change=change,
        lowest=int(held.steps[lowest]),
    )
