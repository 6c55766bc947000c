"""What the symptoms of learning and generalisation ask of a loss before they judge it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import is_evaluation
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import at_least, too_few
from stabdiag.tree.drivers import half_peak_at

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# The losses of a game against an opponent or for a reward: where they stand says nothing.
_GAMES = frozenset(
    {
        *("d", "dis", "disc", "discriminator", "g", "gen", "generator", "adv", "adversarial"),
        *("critic", "actor", "policy", "value", "pg", "ppo", "grpo", "dpo", "reward", "entropy"),
    }
)

# A training loss at a step is the median of so many on either side of it.
_AROUND = 5

# One loss is a multiple of another if their ratio changes by no more than this.
_HARDLY = 1.5

FEW_EVALUATIONS = (
    at_least("generalisation.min_evaluations", "loss"),
    at_least("generalisation.min_evaluations", "eval_loss"),
)

# The last level of an evaluation is the median of so many.
LAST_EVALUATIONS = 3


def is_distance(case: Case, *, to_zero: bool = False) -> bool:
    """Tell whether the loss says how far training is from its end.

    It does if it is a training loss, always above zero, and not that of a game. One that comes
    ``to_zero`` does so, too, where nothing is to be divided by it: many logs have four decimals.
    """
    loss, history = case.loss, case.history
    words = set(re.split(r"[^a-z]+", loss.column.lower()))
    game = history.contested is not None or "reward" in history.series or words & _GAMES
    if is_evaluation(loss.column) or game or not len(loss):
        return False
    lowest = float(loss.values.min())
    return lowest > 0 or (to_zero and lowest == 0)


def from_the_start(case: Case) -> bool:
    """Tell whether the log has the beginning of the run, and not what followed a resume."""
    return len(case.loss) > 0 and int(case.loss.steps[0]) <= max(10.0, 2 * case.stride)


def warmed_up(case: Case) -> int:
    """Return the first step at which the learning rate is at half its peak."""
    half = half_peak_at(case.history.finite("lr"))
    return int(case.loss.steps[0]) + (case.manifest.warmup_steps or 0) if half is None else half


def rate_is_zero(case: Case, since: int) -> bool:
    """Tell whether the learning rate was logged from a step on, and is 0 to the end."""
    rates = case.history.finite("lr")
    late = rates.values[rates.steps >= since]
    return len(late) > 0 and not late.any()


def trained(case: Case) -> Series | None:
    """Return the losses after the warm-up, or None where they are too few to judge learning by.

    A run whose learning rate is 0 learns nothing, however long it goes on.
    """
    limits, loss = case.limits.learning, case.loss
    if not is_distance(case) or not from_the_start(case):
        return None
    after = loss.between(warmed_up(case), int(loss.steps[-1]))
    if len(after) < limits.min_points:
        return None
    span = int(after.steps[-1]) - int(after.steps[0])
    if rate_is_zero(case, int(loss.steps[0])):
        return after
    # The first step counts as well.
    wanted = limits.min_points if case.history.counts_epochs else limits.min_steps
    return after if span + case.stride >= wanted else None


def few_trained(case: Case) -> str:
    """Return in words what is too little to judge learning by, empty where it is enough."""
    limits, loss = case.limits.learning, case.loss
    if trained(case) is not None:
        return ""
    if not is_distance(case):
        return "takes a loss that tells how far a run is from its end"
    if not from_the_start(case):
        return "takes the beginning of the run"
    after = loss.between(warmed_up(case), int(loss.steps[-1]))
    if len(after) < limits.min_points:
        return too_few(limits.min_points, f"{len(after)} losses after the warm-up")
    return (
        f"takes {limits.min_steps} steps after the warm-up, logged: "
        f"{int(after.steps[-1]) - int(after.steps[0])}"
    )


def chance(classes: int) -> float:
    """Return the cross-entropy of a guess among so many classes."""
    return math.log(classes)


def best_evaluation(case: Case) -> float:
    """Return the lowest evaluation loss, infinite where none was logged."""
    return float(case.history.finite("eval_loss").values.min(initial=math.inf))


def with_evaluations(case: Case, *, to_zero: bool = False) -> tuple[Series, Series] | None:
    """Return training and evaluation losses where both are there, positive, and enough.

    Training losses may come ``to_zero`` where that is asked for.
    """
    if not is_distance(case, to_zero=to_zero):
        return None
    held = case.history.finite("eval_loss")
    held = held.between(int(case.loss.steps[0]), int(case.loss.steps[-1]) + round(case.stride))
    least = case.limits.generalisation.min_evaluations
    if len(held) < least or len(case.loss) < least or held.values.min() <= 0:
        return None
    return case.loss, held


def near(train: Series, step: int) -> float:
    """Return the training loss around a step, from some of the points nearest to it."""
    at = int(np.searchsorted(train.steps, step))
    return median(train.values[max(at - _AROUND, 0) : at + _AROUND + 1])


def times_the_evaluation(case: Case) -> float | None:
    """Return how many times the evaluation loss the training loss is, if that hardly changes."""
    pair = with_evaluations(case)
    if pair is None:
        return None
    train, held = pair
    ratios = np.array([near(train, step) for step in held.steps.tolist()]) / held.values
    return median(ratios) if ratios.max() <= _HARDLY * ratios.min() else None
