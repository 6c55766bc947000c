"""Advice on §4: a loss that has stopped falling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num, sentence
from stabdiag.tree.advice.words import Advice
from stabdiag.tree.divergence import climb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case
    from stabdiag.tree.checkpoint import Facts

# Schedules end at a tenth of the peak, or at nothing.
_DECAYED = 0.2


@dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """What the evaluation loss did over the plateau: ``change`` is 0 where it is not material."""

    told: str
    change: float
    lowest: int


@dataclass(frozen=True, kw_only=True)
class _Rate:
    """The learning rate at the end, its peak, and the step from which on it was 0, if it is."""

    last: float
    peak: float
    zero_from: int | None


def plateau(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A loss that has stopped falling."""
    held, rate = _evaluation(case), _rate(case)
    return Advice(
        summary=sentence(answers["Q4.1"].because), first=_first(held, rate), then=_then(held, rate)
    )


def _first(held: _Evaluation | None, rate: _Rate | None) -> Action:
    if rate is not None and rate.zero_from is not None:
        beside = "" if held is None else f"; {held.told}"
        return Action(
            ActionKind.STOP_EARLY,
            f"Stop the run here: the learning rate is 0 from step {rate.zero_from} on, and no step "
            f"changes the weights any more{beside}.",
            step=rate.zero_from,
        )
    if held is None:
        return Action(
            ActionKind.CHECK_EVALUATION,
            "Look at the evaluation loss: if it is flat as well, stop the run here.",
            also=(ActionKind.STOP_EARLY,),
        )
    if held.change < 0:
        return Action(ActionKind.KEEP_GOING, f"Let the run go on: {held.told}.")
    return Action(ActionKind.STOP_EARLY, f"Stop the run here: {held.told}.")


def _then(held: _Evaluation | None, rate: _Rate | None) -> tuple[Action, ...]:
    if held is not None and held.change > 0:
        keep = f"Keep the checkpoint nearest to step {held.lowest}, where it was lowest."
        return (Action(ActionKind.KEEP_CHECKPOINT, keep, checkpoint=held.lowest),)
    if rate is not None and rate.last <= _DECAYED * rate.peak and rate.peak > 0:
        longer = (
            "For a lower loss, restart with a longer schedule: the learning rate has come down "
            f"from {num(rate.peak)} to {num(rate.last)} already."
        )
        return (Action(ActionKind.FIX_SCHEDULE, longer, setting="total_steps"),)
    now = "" if rate is None else f" (now {num(rate.last)})"
    due = f"the learning rate may be due for a decay{now}"
    change: Facts = {"setting": "lr", "from_": None if rate is None else rate.last}
    if held is None:
        told = f"If it still falls, let the run go on; {due}."
        change["also"] = (ActionKind.LOWER_LR,)
        return (Action(ActionKind.KEEP_GOING, told, **change),)
    return (Action(ActionKind.LOWER_LR, sentence(due), **change),)


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
        told=f"the evaluation loss {did}, {num(before)} at step {held.steps[begun]} and "
        f"{num(last)} at step {held.steps[-1]}",
        change=change,
        lowest=int(held.steps[lowest]),
    )


def _rate(case: Case) -> _Rate | None:
    lr = case.history.finite("lr")
    if not len(lr):
        return None
    last, not_zero = float(lr.values[-1]), np.flatnonzero(lr.values)
    zero_from = None
    if last == 0:
        zero_from = int(lr.steps[not_zero[-1] + 1 if len(not_zero) else 0])
    return _Rate(last=last, peak=float(lr.values.max()), zero_from=zero_from)
