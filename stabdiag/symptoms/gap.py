"""An evaluation loss beside the training loss: it may turn, or lie far above from the start."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import num
from stabdiag.stats.levels import CONTEXT_POINTS, MIN_CONSECUTIVE, levels
from stabdiag.stats.quantiles import MIN_SAMPLE, diff_sigma, median, usual_gap
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.losses import FALLEN, TENTHS, from_the_start, is_distance
from stabdiag.symptoms.symptom import LEAST
from stabdiag.tree.case import Case

# The training loss has run away from the evaluations, or both fell far, if it has halved since.
RUN_AWAY = 0.5

# A turn is clear beyond four deviations of one evaluation from the next.
_SIGMAS = 4.0

# Medians of three differ by 0.95 deviations of single values; the best was chosen among many.
_RISE_SIGMAS = 2.5

# Evaluations rise after the best one if chance gives their trend once in twenty runs.
_RISES_BY_CHANCE = 0.05


@frozen
class Turn:
    """The best evaluation and the last, and what the training loss did between them."""

    step: int
    best: float
    words: str
    measured: dict[str, float]
    is_clear: bool
    is_small: bool
    is_beyond_noise: bool
    falls: bool
    runs_away: bool


@frozen
class Gap:
    """How many times the training loss the evaluation loss is from a step on, at least and most.

    It is a factor if it stays the same while both fall: one of the losses is counted otherwise.
    """

    step: int
    share: float
    trained: float
    evaluated: float
    least: float
    most: float
    is_factor: bool
    is_of_first_epoch: bool


def with_evaluations(case: Case, *, to_zero: bool = False) -> tuple[Series, Series] | None:
    """Return training and evaluation losses if both are positive and enough."""
    if not is_distance(case, to_zero=to_zero):
        return None
    held = case.history.finite("eval_loss")
    held = held.between(int(case.loss.steps[0]), int(case.loss.steps[-1]) + round(case.stride))
    least = case.limits.generalisation.min_evaluations
    if len(held) < least or len(case.loss) < least or held.values.min() <= 0:
        return None
    return case.loss, held


def find_gap(case: Case) -> Gap | None:
    """Return the gap between the losses if it was there before the model could memorise much."""
    pair = with_evaluations(case)
    # Within an epoch a model can memorise much.
    if pair is None or knew_before(case) or case.history.counts_epochs:
        return None
    (train, held), limits = pair, case.limits.generalisation
    begin, end = int(train.steps[0]), int(train.steps[-1])
    # An untrained model knows as little of either set, and in the first epoch none is memorised.
    soon = np.flatnonzero(
        held.steps <= max(begin + limits.early * (end - begin), _end_of_first_epoch(case))
    )
    if not len(soon):
        return None
    since = held.between(int(held.steps[soon[-1]]), end + round(case.stride))
    at = np.searchsorted(train.steps, since.steps)
    beside = np.array([median(train.values[max(i - LEAST, 0) : i + 1]) for i in at.tolist()])
    ratios, first = since.values / beside, int(since.steps[0])
    least, most = float(ratios.min()), float(ratios.max())
    if least < limits.gap:
        return None
    return Gap(
        step=first,
        share=(first - begin) / max(end - begin, 1),
        trained=float(beside[0]),
        evaluated=float(since.values[0]),
        least=least,
        most=most,
        # A sum is of two at least.
        is_factor=2 <= least <= most < limits.gap * least and beside[-1] <= RUN_AWAY * beside[0],
        is_of_first_epoch=first <= _end_of_first_epoch(case),
    )


def knew_before(case: Case) -> bool:
    """Tell whether the model may have memorised the training data before the log begins.

    It may if the loss does not fall from there, or the accuracy is no higher at the end.
    """
    early, *_, late = levels(case.loss.values, TENTHS)
    if not from_the_start(case) or late > FALLEN * early:
        return True
    right = case.history.finite("accuracy").values
    return len(right) >= CONTEXT_POINTS and float(right[:CONTEXT_POINTS].min()) >= median(
        right[-CONTEXT_POINTS:]
    )


def _end_of_first_epoch(case: Case) -> int:
    """Return the last step at which no example had been seen twice, -1 if that is not known."""
    epoch = case.history.finite("epoch")
    # Whole epochs are counted from 0 or from 1.
    if not np.any(epoch.values % 1):
        return -1
    first = epoch.steps[epoch.values <= 1]
    return int(first[-1]) if len(first) else -1


def train_beside(train: Series, held: Series, at: int) -> float | None:
    """Return the median training loss since the evaluation before the one at a position."""
    step, gap = int(held.steps[at]), int(usual_gap(held.steps))
    since = train.between(step - gap + 1, step).values
    if not len(since):
        since = train.between(step - gap, step + gap).values[:1]
    return median(since) if len(since) else None


def _restarted(case: Case, step: int) -> bool:
    """Tell whether a learning rate restarted after a step and is still up.

    Under a cyclic rate evaluations rise where a cycle begins, and come down with the rate.
    """
    lr, held = case.history.finite("lr"), case.history.finite("eval_loss").steps
    following = int(held[np.searchsorted(held, step, "right")])
    until, after = lr.until(step).values, lr.between(step + 1, following).values
    if not len(until) or not len(after):
        return False
    up = min(float(after.max()), float(lr.values[-1]), float(until.max()))
    return 0 < case.limits.schedule.jump * float(until[-1]) <= up


def _keeps_above(x: Floats, at: int) -> bool:
    """Return True if evaluations stay above the best one by more than the best one's luck.

    The lowest of many noisy evaluations lies below its own level. So the level around it counts,
    and if enough evaluations follow, they have to rise.
    """
    level, after = median(x[max(at - 1, 0) : at + 2]), x[at + 1 :]
    rise = median(after[-MIN_CONSECUTIVE:]) - level
    noise = diff_sigma(x[at:]) if len(after) >= CONTEXT_POINTS else 0.0
    if rise <= _RISE_SIGMAS * noise:
        return False
    return len(after) < MIN_SAMPLE or mann_kendall(x[at:]) < _RISES_BY_CHANCE


def find_turn(case: Case) -> Turn | None:
    """Return where the evaluation loss turned, if it did."""
    pair = with_evaluations(case, to_zero=True)
    if pair is None:
        return None
    (train, held), limits = pair, case.limits.generalisation
    x = held.values
    at = int(np.argmin(x))
    after = x[at + 1 :][-MIN_CONSECUTIVE:]
    if len(after) < 2:  # one may be noise
        return None
    best, last = float(x[at]), median(after)
    then, now = train_beside(train, held, at), train_beside(train, held, len(x) - 1)
    step, is_clear = int(held.steps[at]), last - best > _SIGMAS * diff_sigma(x)
    if then is None or now is None or _restarted(case, step):
        return None
    # How far a loss rises that was never good says little, where the training left it behind.
    runs_away, is_small = now <= RUN_AWAY * then, last - best <= limits.eval_rise * best
    if is_small and not (is_clear and runs_away):
        return None
    return Turn(
        step=step,
        best=best,
        words=f"The evaluation loss was lowest, {num(best)}, at {case.unit} {step}, and is now "
        f"{num(float(x[-1]))}; the training loss went from {num(then)} to {num(now)}.",
        measured={
            "best_eval_loss": best,
            "eval_loss": float(x[-1]),
            "train_loss_then": then,
            "train_loss": now,
        },
        is_clear=is_clear,
        is_small=is_small,
        is_beyond_noise=_keeps_above(x, at),
        falls=now < then * (1 - limits.train_fall),
        runs_away=runs_away,
    )
