"""Requirements on the loss that several symptoms share."""

from __future__ import annotations

import math
import re

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.text import num
from stabdiag.stats.course import outer_levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import COMPLETE, MAJORITY, MIN_TREND_POINTS, TENTH
from stabdiag.symptoms.symptom import too_few
from stabdiag.tree.case import Case
from stabdiag.tree.once import once_per_case
from stabdiag.tree.pretraining import starts_pretrained

RANGE_TEST = Action(Do.TEST_LR, "Run a learning-rate range test: too low crawls, too high bounces.")
ONE_BATCH = Action(Do.TRY_SMALL, "Train on a single batch: the loss has to go to zero.")

# In adversarial training or reinforcement learning, the level of a loss does not show progress.
_GAMES = frozenset(
    {
        *("d", "dis", "disc", "discriminator", "g", "gen", "generator", "adv", "adversarial"),
        *("critic", "actor", "policy", "value", "pg", "ppo", "grpo", "dpo", "reward", "entropy"),
    }
)

# A loss that stays above this fraction of its first level has not fallen.
FALLEN = MAJORITY

# A learning rate this far below its peak has decayed.
DECAYED = TENTH

# The intervals of a periodic event differ by less than a tenth.
_REGULAR = TENTH


def is_distance(case: Case, *, to_zero: bool = False) -> bool:
    """Return True if the loss measures how far training still has to go.

    It has to be a training loss that is always positive and not adversarial or from reinforcement
    learning. With ``to_zero`` it may reach 0: many logs have four decimals.
    """
    if not _may_be_distance(case):
        return False
    return case.loss.lowest > 0 or (to_zero and case.loss.lowest == 0)


@once_per_case
def _may_be_distance(case: Case) -> bool:
    """Return True if a training loss was logged, and not one of a game."""
    loss, history = case.loss, case.history
    words = set(re.split(r"[^a-z]+", loss.column.lower()))
    is_game = case.loss_kind is not None or "reward" in history.series or words & _GAMES
    return len(loss) > 0 and not is_game and not is_evaluation(loss.column)


def from_the_start(case: Case) -> bool:
    """Return True if the log contains the beginning of the run and not only a resume."""
    epochs = case.history.finite("epoch").values
    if not len(case.loss) or (len(epochs) and epochs[0] > 1):
        return False
    return int(case.loss.steps[0]) <= max(MIN_TREND_POINTS, 2 * case.stride)


def is_late_part(case: Case) -> bool:
    """Return True if a log begins at half of its last step or later, as the end of a file does."""
    if from_the_start(case) or not len(case.loss):
        return False
    epochs = case.history.finite("epoch").values
    counts = epochs if len(epochs) else case.loss.steps
    return bool(2 * counts[0] >= counts[-1])


def first_position(case: Case) -> str:
    """Return the first epoch or step of a log, in words."""
    epochs = case.history.finite("epoch").values
    if len(epochs) and epochs[0] > 1:
        return f"epoch {num(float(epochs[0]))}"
    return f"{case.unit} {int(case.loss.steps[0])}"


def diagnose_whole(case: Case) -> Action:
    """Ask for the beginning of a log that only has a late part of the run."""
    return Action(
        Do.LOG_MORE,
        f"Diagnose the log from its beginning, if this is only a part of it: a run that has "
        f"learned is often flat from {first_position(case)} on.",
        setting="loss",
    )


def untrained_model(case: Case) -> str:
    """Name the model at the start of a run."""
    return "the one it started from" if starts_pretrained(case) else "an untrained one"


def no_distance(case: Case, *, to_zero: bool = False) -> str:
    """Return the reason that the loss does not measure progress, or ""."""
    is_usable = is_distance(case, to_zero=to_zero)
    return "" if is_usable else "needs a loss that measures progress"


def no_course(case: Case, *, to_zero: bool = False) -> str:
    """Return the reason why the loss does not show the progress since the start, or ""."""
    return no_distance(case, to_zero=to_zero) or (
        "" if from_the_start(case) else "needs the beginning of the run"
    )


def not_comparable(case: Case, *, to_zero: bool = False) -> str:
    """Return the reason why the end of the loss cannot be compared with its beginning, or "".

    The reason is a change in what the loss measures, or in the weights of its terms.
    """
    weight = case.history.finite("loss_weight").values
    if case.objective_changes or case.ramp is not None or (len(weight) and np.ptp(weight)):
        return "needs a loss with the same definition throughout"
    return no_course(case, to_zero=to_zero)


@once_per_case
def losses_after_warmup(case: Case) -> Series:
    """Return the losses since the learning rate first reached half its peak."""
    lr, loss = case.history.finite("lr"), case.loss
    if lr.highest > 0:
        begin = int(lr.steps[np.argmax(lr.values >= lr.highest / 2)])
    else:
        begin = int(loss.steps[0]) + (case.manifest.warmup_steps or 0)
    return loss.between(begin, int(loss.steps[-1]))


def has_fallen(x: Floats) -> bool:
    """Return True if a positive loss ends well below its first level."""
    first, last = outer_levels(x)
    return last <= FALLEN * first


def rate_is_zero(case: Case, since: int) -> bool:
    """Return True if the learning rate is logged and is 0 from a step to the end."""
    rates = case.history.finite("lr")
    late = rates.values[np.searchsorted(rates.steps, since) :]
    # The last rate is usually enough.
    return len(late) > 0 and not late[-1] and not late.any()


def has_ended(case: Case) -> bool:
    """Return True if the run is complete, by its schedule or by the manifest's length."""
    rates, total = case.history.finite("lr"), case.manifest.total_steps
    if rates.highest > 0 and rates.values[-1] <= DECAYED * rates.highest:
        return True
    return total is not None and int(case.loss.steps[-1]) >= COMPLETE * total


def few_trained(case: Case, *, needs_start: bool = True) -> str:
    """Return the reason why the losses are too few to judge learning, or "".

    With ``needs_start``, the log has to contain the beginning of the run.
    """
    limits = case.limits.learning
    if why := no_course(case) if needs_start else no_distance(case):
        return why
    after = losses_after_warmup(case)
    if len(after) < limits.min_points:
        return too_few(limits.min_points, f"{len(after)} losses after the warm-up")
    # A run whose learning rate is 0 learns nothing, however long it is.
    if rate_is_zero(case, int(case.loss.steps[0])):
        return ""
    needed = limits.min_points if case.history.counts_epochs else limits.min_steps
    # A counted record covers all steps since the record before.
    allows_fewer = has_ended(case) or case.history.counts_records
    if allows_fewer and not case.history.counts_epochs:
        needed = min(needed, limits.min_steps_ended)
    span = int(after.steps[-1]) - int(after.steps[0])
    # The first step counts as well.
    if span + case.stride >= needed:
        return ""
    return f"needs {needed} {case.unit}s after the warm-up, logged: {span}"


def rhythm(steps: Ints) -> float | None:
    """Return the usual interval between steps, or None if the intervals differ.

    At least half of the steps that this interval implies must be present.
    """
    gaps = np.diff(steps).astype(np.float64)
    usual = median(gaps)
    is_regular = median(np.abs(gaps - usual)) <= _REGULAR * usual
    return usual if is_regular and 2 * len(gaps) * usual >= gaps.sum() else None


def best_evaluation(case: Case) -> float:
    """Return the lowest evaluation loss, infinity if none was logged."""
    return float(case.history.finite("eval_loss").values.min(initial=math.inf))


def small_test(level: float) -> Action:
    """Return a test that separates faults of model and rate from faults of labels and data."""
    return Action(
        Do.TRY_SMALL,
        f"Train on only 32 examples. If their loss stays near {num(level)}, check the gradients "
        "and the learning rate. If it falls to nearly zero, the model can learn: print 20 "
        "examples with their labels.",
        also=(Do.CHECK_MODEL, Do.CHECK_LABELS),
    )
