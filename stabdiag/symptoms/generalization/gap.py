"""Evaluation against training loss: a rise after the best evaluation, and a gap from the start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num
from stabdiag.stats.course import evaluation_level, late_spread, level_before, second_half
from stabdiag.stats.quantiles import diff_sigma, median, usual_gap
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    CLEAR_RATIO,
    CONTEXT_POINTS,
    FAR_RATIO,
    FIFTH,
    HALF,
    HUNDREDFOLD,
    LEAST,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    TENTH,
    TWICE,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.losses import FALLEN, from_the_start, has_fallen, is_distance
from stabdiag.tree.case import Case

# The training loss has clearly separated from the evaluations, or both fell far, if it has halved.
RUN_AWAY = HALF

# A rise is clear beyond this many standard deviations of single evaluations.
_CLEAR_RISE_SIGMAS = CLEAR

# The difference of two medians of three has 0.95 of the standard deviation of single values, and
# the best was chosen among many.
_RISE_SIGMAS = BEYOND_CHANCE

# Evaluations rise after the best one if their trend has this probability by chance.
_RISES_BY_CHANCE = MAX_CHANCE


@frozen
class TurningPoint:
    """The point where the evaluation loss begins to rise, and the training loss since then."""

    step: int
    best: float
    words: str
    measured: dict[str, float]
    is_clear: bool
    is_small: bool
    is_beyond_noise: bool
    falls: bool
    runs_away: bool
    is_far: bool

    @property
    def is_mild(self) -> bool:
        """Whether only the length of a small rise shows it: both losses are still near."""
        return self.is_small and not (self.is_clear and self.runs_away)


@frozen
class Gap:
    """The ratio of evaluation to training loss from a step on: its smallest and largest value.

    It is a constant factor if it stays the same while both losses fall: then one of them is
    normalized differently.
    """

    step: int
    fraction_of_run: float
    trained: float
    evaluated: float
    least: float
    highest: float
    is_factor: bool
    is_of_first_epoch: bool


def with_evaluations(case: Case, *, to_zero: bool = False) -> tuple[Series, Series] | None:
    """Return training and evaluation losses if both are positive and long enough."""
    if not is_distance(case, to_zero=to_zero):
        return None
    heldout = case.history.finite("eval_loss")
    heldout = heldout.between(
        int(case.loss.steps[0]), int(case.loss.steps[-1]) + round(case.stride)
    )
    least = case.limits.generalization.min_evaluations
    if len(heldout) < least or len(case.loss) < least or heldout.values.min() <= 0:
        return None
    return case.loss, heldout


def find_gap(case: Case) -> Gap | None:
    """Return the gap between the losses if it existed before the model could memorize much."""
    pair = with_evaluations(case)
    if pair is None or may_be_pretrained(case):
        return None
    # Logs with one record per epoch do not show the time before that.
    if case.history.counts_epochs and not _is_worse_in_first_epoch(case):
        return None
    (train, heldout), limits = pair, case.limits.generalization
    begin, end = int(train.steps[0]), int(train.steps[-1])
    # An untrained model has seen neither set, and in the first epoch nothing is memorized.
    soon = np.flatnonzero(
        heldout.steps <= max(begin + limits.early * (end - begin), _end_of_first_epoch(case))
    )
    if not len(soon):
        return None
    since = heldout.between(int(heldout.steps[soon[-1]]), end + round(case.stride))
    at = np.searchsorted(train.steps, since.steps)
    nearby = np.array([level_before(train.values, i + 1, LEAST) for i in at.tolist()])
    ratios, first = since.values / nearby, int(since.steps[0])
    least, highest = float(ratios.min()), float(ratios.max())
    if least < limits.gap:
        return None
    return Gap(
        step=first,
        fraction_of_run=(first - begin) / max(end - begin, 1),
        trained=float(nearby[0]),
        evaluated=float(since.values[0]),
        least=least,
        highest=highest,
        is_factor=_is_factor(least, highest, limits.gap)
        and (least >= HUNDREDFOLD or _fall_together(nearby, since.values)),
        is_of_first_epoch=first <= _end_of_first_epoch(case),
    )


def _is_factor(least: float, highest: float, gap: float) -> bool:
    """Return True if ratios between these values are a factor: a sum has at least two terms.

    No model is a hundred times worse on other data throughout, so that the losses need not fall.
    """
    return 2 <= least <= highest < (CLEAR_RATIO if least >= HUNDREDFOLD else gap) * least


def _is_worse_in_first_epoch(case: Case) -> bool:
    """Return True if fewer examples are right after the first epoch than in training during it.

    The mean over the first epoch includes the untrained model, so evaluations are better if the
    two are measured in the same way.
    """
    right, heldout_right = (case.history.finite(role) for role in ("accuracy", "eval_accuracy"))
    if not len(right) or not len(heldout_right):
        return False
    full = full_scale(max(right.values.max(), heldout_right.values.max()))
    is_first = right.steps[0] == heldout_right.steps[0] <= case.loss.steps[0] + 1
    return bool(is_first and right.values[0] - heldout_right.values[0] >= TENTH * full)


def _fall_together(train: Floats, heldout: Floats) -> bool:
    """Return True if both losses fall, in proportion: memorization lowers only the first."""
    fall, heldout_fall = (math.log(x[0] / x[-1]) for x in (train, heldout))
    return fall >= -math.log(FALLEN) and heldout_fall >= fall / 2


def may_be_pretrained(case: Case) -> bool:
    """Return True if the model may have memorized the training data before the log begins.

    That is possible if the loss does not fall, or if most examples are right from the start and the
    accuracy does not improve.
    """
    if not from_the_start(case) or not has_fallen(case.loss.values):
        return True
    right = case.history.finite("accuracy").values
    if len(right) < CONTEXT_POINTS:
        return False
    least = float(right[:CONTEXT_POINTS].min())
    return least >= max(HALF * full_scale(right.max()), evaluation_level(right))


def _end_of_first_epoch(case: Case) -> int:
    """Return the last step of the first epoch, -1 if unknown."""
    epoch = case.history.finite("epoch")
    # Whole numbers of epochs may count from 0 or from 1.
    if not np.any(epoch.values % 1):
        return -1
    first = epoch.steps[epoch.values <= 1]
    return int(first[-1]) if len(first) else -1


def training_levels(train: Series, heldout: Series, positions: Sequence[int]) -> list[float | None]:
    """Return the median training loss between each of these evaluations and the one before it."""
    values = training_values(train, heldout, positions)
    return [median(since) if len(since) else None for since in values]


def training_values(train: Series, heldout: Series, positions: Sequence[int]) -> list[Floats]:
    """Return the training values between each of these evaluations and the one before it.

    If there are none, return the first near the evaluation.
    """
    gap = int(usual_gap(heldout.steps))
    steps = heldout.steps[positions]
    begins = np.searchsorted(train.steps, steps - gap + 1).tolist()
    ends = np.searchsorted(train.steps, steps, "right").tolist()
    return [
        train.values[begin:end] if begin < end else train.between(step - gap, step + gap).values[:1]
        for step, begin, end in zip(steps.tolist(), begins, ends, strict=True)
    ]


def _restarted(case: Case, step: int) -> bool:
    """Return True if a learning rate restarted after a step and is still high.

    With a cyclic rate, evaluations rise when a cycle begins, and fall with the rate.
    """
    lr, evaluated = case.history.finite("lr"), case.history.finite("eval_loss").steps
    following = int(evaluated[np.searchsorted(evaluated, step, "right")])
    until, after = lr.until(step).values, lr.between(step + 1, following).values
    if not len(until) or not len(after):
        return False
    up = min(float(after.max()), float(lr.values[-1]), float(until.max()))
    return 0 < case.limits.schedule.jump * float(until[-1]) <= up


def _stays_above_best(x: Floats, at: int) -> bool:
    """Return True if evaluations stay above the level of the best one.

    The lowest of many noisy evaluations is below its own level, so the level around it is used. If
    enough evaluations follow, they also have to rise, or to settle far above that level.
    """
    level, after = level_before(x, at + 2, MIN_CONSECUTIVE), x[at + 1 :]
    # No noise of usual size hides evaluations that all end at a multiple of the best.
    if len(after) >= MIN_CONSECUTIVE and after[-MIN_CONSECUTIVE:].min() > TWICE * level > 0:
        return True
    rise = evaluation_level(after) - level
    noise = diff_sigma(x[at:]) if len(after) >= CONTEXT_POINTS else 0.0
    if rise <= _RISE_SIGMAS * noise:
        # Single evaluations differ by more than a rise that many of them show together.
        is_material = len(after) >= MIN_TREND_POINTS and rise > TENTH * level
        return is_material and mann_kendall(x[at:]) < MAX_CHANCE * FIFTH
    if len(after) < MIN_SAMPLE or mann_kendall(x[at:]) < _RISES_BY_CHANCE:
        return True
    # The level that memorization ends at may last longer than the rise to it.
    late = second_half(after)
    spread = late_spread(after, diff_sigma(after))
    return float(late.min()) - level > _CLEAR_RISE_SIGMAS * max(noise, spread)


def _rises_steadily(x: Floats, at: int, *, is_clear: bool) -> bool:
    """Return True if many evaluations after the best one rise, by a twentieth.

    A hundredth is enough if it is clearly beyond their noise.
    """
    after = x[at + 1 :]
    least = RELATIVE_TOLERANCE if is_clear else NEGLIGIBLE
    is_material = evaluation_level(after) > (1 + least) * x[at]
    return len(after) >= MIN_SAMPLE and is_material and mann_kendall(x[at:]) < _RISES_BY_CHANCE


def find_turn(case: Case) -> TurningPoint | None:
    """Return the point where the evaluation loss began to rise, if it did."""
    pair = with_evaluations(case, to_zero=True)
    if pair is None:
        return None
    (train, heldout), limits = pair, case.limits.generalization
    x = heldout.values
    at = int(np.argmin(x))
    after = x[at + 1 :]
    if len(after) < 2:  # a single one may be noise
        return None
    best, last = float(x[at]), evaluation_level(after)
    # The first of two may be noise, too, if the second is near the best again.
    if len(after) == 2 and after[1] - best < HALF * (after[0] - best):
        return None
    train_at_best, train_now = training_levels(train, heldout, [at, len(x) - 1])
    step, is_clear = int(heldout.steps[at]), last - best > _CLEAR_RISE_SIGMAS * diff_sigma(x)
    if train_at_best is None or train_now is None or _restarted(case, step):
        return None
    # If the best evaluation was poor, a small relative rise still counts once the training loss has
    # halved, or is far below the evaluations.
    is_apart = train_now <= RUN_AWAY * train_at_best or last >= FAR_RATIO * train_now
    runs_away, is_small = is_apart, last - best <= limits.eval_rise * best
    if is_small and not (is_clear and runs_away) and not _rises_steadily(x, at, is_clear=is_clear):
        return None
    return TurningPoint(
        step=step,
        best=best,
        words=f"The evaluation loss was lowest, {num(best)}, at {case.unit} {step}, and is now "
        f"{num(float(x[-1]))}; the training loss went from "
        f"{num(train_at_best)} to {num(train_now)}.",
        measured={
            "best_eval_loss": best,
            "eval_loss": float(x[-1]),
            "train_loss_at_turn": train_at_best,
            "train_loss": train_now,
        },
        is_clear=is_clear,
        is_small=is_small,
        is_beyond_noise=_stays_above_best(x, at),
        falls=train_now < train_at_best * (1 - limits.train_fall),
        runs_away=runs_away,
        is_far=last >= FAR_RATIO * best,
    )
