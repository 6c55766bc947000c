"""What symptoms ask of a loss before they judge it."""

from __future__ import annotations

import math
import re

import numpy as np

from stabdiag.model.arrays import Ints
from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import COMPLETE, too_few
from stabdiag.tree.case import Case

RANGE_TEST = Action(Do.TEST_LR, "Run a learning-rate range test: too low crawls, too high bounces.")
ONE_BATCH = Action(Do.TRY_SMALL, "Train on one batch alone: the loss has to go to zero.")

# In a game or under a reward, the level of a loss says nothing about progress.
_GAMES = frozenset(
    {
        *("d", "dis", "disc", "discriminator", "g", "gen", "generator", "adv", "adversarial"),
        *("critic", "actor", "policy", "value", "pg", "ppo", "grpo", "dpo", "reward", "entropy"),
    }
)

# Two is no usual number of classes: the losses of preferences and discriminators rest at log 2.
USUAL_CLASSES = (10, 100, 1000)

# The numbers of stretches that a run is cut into.
TENTHS = 10
TWENTIETHS = 2 * TENTHS

# A loss that keeps this share of its first level has not fallen. One that falls by less than a
# twentieth has hardly begun to learn: a net reaches that by memorising its batches.
FALLEN = 0.8
HARDLY = 0.05

# A change by three deviations is chance once in 700 runs.
BEYOND_CHANCE = 3.0

# A learning rate this far below its peak has decayed.
DECAYED = 0.1

# The distances of a rhythm usually differ by less than a tenth.
_REGULAR = 0.1


def is_distance(case: Case, *, to_zero: bool = False) -> bool:
    """Tell whether the loss measures how far training still has to go.

    It does if it is a training loss, always positive, and not that of a game. With ``to_zero`` it
    may reach 0: many logs have four decimals.
    """
    loss, history = case.loss, case.history
    words = set(re.split(r"[^a-z]+", loss.column.lower()))
    game = case.loss_kind is not None or "reward" in history.series or words & _GAMES
    if is_evaluation(loss.column) or game or not len(loss):
        return False
    lowest = float(loss.values.min())
    return lowest > 0 or (to_zero and lowest == 0)


def from_the_start(case: Case) -> bool:
    """Tell whether the log holds the beginning of the run, not only what follows a resume."""
    return len(case.loss) > 0 and int(case.loss.steps[0]) <= max(10.0, 2 * case.stride)


def no_distance(case: Case) -> str:
    """Return that the loss does not tell how far training still has to go, or ""."""
    return "" if is_distance(case) else "takes a loss that tells how far a run is from its end"


def no_course(case: Case) -> str:
    """Return why the loss does not tell how far training has come, or ""."""
    return no_distance(case) or ("" if from_the_start(case) else "takes the beginning of the run")


def not_comparable(case: Case) -> str:
    """Return why the end of the loss cannot be held against its beginning, or "".

    It cannot where it came to be measured on something else, or weighs its parts otherwise.
    """
    weight = case.history.finite("loss_weight").values
    if case.objective_changes or case.ramp is not None or (len(weight) and np.ptp(weight)):
        return "takes a loss that is measured alike throughout"
    return no_course(case)


def after_warmup(case: Case) -> Series:
    """Return the losses since the learning rate first reached half its peak."""
    lr, loss = case.history.finite("lr"), case.loss
    peak = float(lr.values.max(initial=0.0))
    if peak > 0:
        begin = int(lr.steps[np.argmax(lr.values >= peak / 2)])
    else:
        begin = int(loss.steps[0]) + (case.manifest.warmup_steps or 0)
    return loss.between(begin, int(loss.steps[-1]))


def rate_is_zero(case: Case, since: int) -> bool:
    """Tell whether the learning rate was logged from a step on and is 0 to the end."""
    rates = case.history.finite("lr")
    late = rates.values[np.searchsorted(rates.steps, since) :]
    return len(late) > 0 and not late.any()


def has_ended(case: Case) -> bool:
    """Tell whether the run came to its end, by its schedule or by the manifest's length."""
    rates, total = case.history.finite("lr").values, case.manifest.total_steps
    if len(rates) and rates.max() > 0 and rates[-1] <= DECAYED * rates.max():
        return True
    return total is not None and int(case.loss.steps[-1]) >= COMPLETE * total


def few_trained(case: Case, *, needs_start: bool = True) -> str:
    """Return the reason why the losses are too few to judge learning, or "".

    With ``needs_start``, the log has to contain the beginning of the run.
    """
    limits = case.limits.learning
    if why := no_course(case) if needs_start else no_distance(case):
        return why
    after = after_warmup(case)
    if len(after) < limits.min_points:
        return too_few(limits.min_points, f"{len(after)} losses after the warm-up")
    # A run whose learning rate is 0 learns nothing, however long it goes on.
    if rate_is_zero(case, int(case.loss.steps[0])):
        return ""
    wanted = limits.min_points if case.history.counts_epochs else limits.min_steps
    if has_ended(case) and not case.history.counts_epochs:
        wanted = min(wanted, limits.min_steps_ended)
    span = int(after.steps[-1]) - int(after.steps[0])
    # The first step counts as well.
    if span + case.stride >= wanted:
        return ""
    return f"takes {wanted} {case.unit}s after the warm-up, logged: {span}"


def rhythm(steps: Ints) -> float | None:
    """Return the usual distance between steps, or None if the distances are not alike.

    At least half of the steps that the distance asks for from the first to the last are there.
    """
    gaps = np.diff(steps).astype(np.float64)
    usual = median(gaps)
    alike = median(np.abs(gaps - usual)) <= _REGULAR * usual
    return usual if alike and 2 * len(gaps) * usual >= gaps.sum() else None


def best_evaluation(case: Case) -> float:
    """Return the lowest evaluation loss, infinity if none was logged."""
    return float(case.history.finite("eval_loss").values.min(initial=math.inf))


def small_test(level: float) -> Action:
    """Return a test whose result tells the model and the rate from the labels and the data."""
    return Action(
        Do.TRY_SMALL,
        f"Train on 32 examples alone. If their loss stays near {num(level)}, check the gradients "
        "and the learning rate. If it falls to nearly zero, the model learns: print 20 examples "
        "with their labels.",
        also=(Do.CHECK_MODEL, Do.CHECK_LABELS),
    )
