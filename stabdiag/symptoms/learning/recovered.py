"""Rises of the loss, and collapses of a score or reward, that lasted long and recovered."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.scores import Direction
from stabdiag.model.text import num, plural
from stabdiag.stats.course import beginning, measure_course, moving_medians
from stabdiag.stats.drawup import RecoveredRise, recovered_rise
from stabdiag.stats.quantiles import diff_sigma
from stabdiag.stats.standards import (
    CLEAR,
    CONTEXT_POINTS,
    FIFTH,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    NEGLIGIBLE,
    TENFOLD,
    TWICE,
)
from stabdiag.symptoms.losses import not_comparable
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.drivers import climb_rates
from stabdiag.tree.scores import Score, scores

# Levels are medians over these fractions of the window of §4: short for fast rises, long for slow
# ones. In a log with few records, they are medians of five: skewed noise raises two.
_LEVEL_FRACTIONS: Final = (0.04, 0.1)

# A rise is worth a note from this many standard deviations of a level, from this fraction of the
# progress before it, and from this many times any other rise of the run: if the data change in
# blocks, the loss rises with many of them.
_RECOVERED_SIGMAS: Final = TENFOLD
_PROGRESS: Final = FIFTH
_BEYOND_OTHERS: Final = TWICE

# A score or reward had collapsed if it lost this fraction of its value and of its gain for three
# evaluations, or for a fortieth of the rewards.
_LOST: Final = 0.6
_REWARD_LEVELS: Final = 40

# A collapse and its recovery are seen in this many evaluations.
_MIN_DIP_VALUES: Final = 3 * MIN_CONSECUTIVE

# Scores and rewards of some runs fall repeatedly: a collapse is this many times an earlier fall.
_BEYOND_EARLIER: Final = TWICE


@Symptom(
    slug="rise-recovered",
    severity=Severity.NOTE,
    title="The loss rose for a while and recovered",
    needs=("loss",),
    explained_by=("nan", "divergence", "spike", "loss-scale"),
    yields_to=("loss-oscillating", "epoch-boundary-jump", "no-progress", "lr-too-high"),
    preconditions=(at_least(MIN_LONG_LOG, "loss"), not_comparable),
    next_actions=(
        Action(Do.INSPECT_DATA, "Compare the data of these steps with the data before them."),
        Action(Do.LOG_MORE, "Log the gradient norm and the batch id at every step."),
    ),
)
def rise_recovered(case: Case) -> Evidence | None:
    """Did the loss rise far above its noise for a while, and come back?"""
    rise = _highest(case)
    if rise is None:
        return None
    x = case.loss.values
    progress = max(beginning(x) - rise.low, 0.0)
    # The level of a moving average varies as much as the average itself.
    level_sigma = max(rise.noise, 0.0 if case.average is None else case.average.sigma)
    noise = max(_RECOVERED_SIGMAS * level_sigma, CLEAR * case.loss_sigma)
    bar = max(noise, _PROGRESS * progress, _BEYOND_OTHERS * rise.other)
    first, crest, end = (case.at(position) for position in (rise.foot, rise.crest, rise.end))
    if rise.height <= bar or _lr_rises(case, first, crest):
        return None
    return Evidence(
        because=f"The loss rose from {num(rise.low)} at {case.unit} {first} to {num(rise.high)} at "
        f"{case.unit} {crest} and was back by {case.unit} {end}: "
        f"{plural(end - first, case.unit)} were lost.",
        step=first,
        measured={"from": rise.low, "to": rise.high, "crest": crest, "end": end},
        first=Action(
            Do.INSPECT_DATA,
            f"Find out what changed at {case.unit} {first}: the data order, a setting, a restart.",
        ),
    )


def _highest(case: Case) -> RecoveredRise | None:
    """Return the recovered rise that is highest in units of its noise, over two block sizes."""
    window = min(case.rise_window, len(case.loss))
    sizes = {max(round(window * share), CONTEXT_POINTS) for share in _LEVEL_FRACTIONS}
    rises = (recovered_rise(case.loss.values, size) for size in sizes)
    clear = (rise for rise in rises if rise is not None)
    return max(clear, key=lambda rise: rise.height / rise.noise if rise.noise else 0, default=None)


def _lr_rises(case: Case, first: int, last: int) -> bool:
    """Return True if the learning rate was raised during the rise, as in a warm restart."""
    rates = case.history.finite("lr").between(first, last).values
    over = climb_rates(case, first, last)
    raised = len(rates) > 1 and rates.max() > case.limits.divergence.lr_rise * rates[0]
    return bool(raised or (over is not None and over.rises))


@frozen
class _Dip:
    """A collapse that recovered: the levels before, during and after it, and its steps."""

    name: str
    before: float
    lowest: float
    after: float
    step: int
    end: int


def _few_values(case: Case) -> str:
    """Return the reason if all scores and rewards are too short, else ""."""
    longest = max((len(score.series) for score in scores(case)), default=0)
    rewards = len(case.history.finite("reward"))
    if longest >= _MIN_DIP_VALUES or rewards >= MIN_LONG_LOG:
        return ""
    return too_few(_MIN_DIP_VALUES, f"{longest} of a score")


@Symptom(
    slug="collapse-recovered",
    severity=Severity.NOTE,
    title="A score or reward collapsed and recovered",
    needs=("accuracy or eval_accuracy or score or reward",),
    preconditions=(_few_values,),
    explained_by=("nan",),
    yields_to=("score-collapsed", "reward-not-rising"),
    next_actions=(
        Action(Do.LOG_MORE, "Log the gradient norm and the learning rate at every step."),
        Action(Do.LOWER_LR, "If it happens again, lower the learning rate."),
    ),
)
def collapse_recovered(case: Case) -> Evidence | None:
    """Did a score or reward lose most of its value for a while, and come back?"""
    # The accuracy of a few examples may be 0 by chance.
    is_of_batches = not case.history.counts_epochs
    levels = [
        score for score in scores(case) if not (is_of_batches and score.series.role == "accuracy")
    ]
    dips = (_dip_of_score(score) or _zero_evaluation(score) for score in levels)
    dip = next((dip for dip in dips if dip is not None), None) or _dip_of_reward(case)
    if dip is None:
        return None
    return Evidence(
        because=f"{dip.name!r} fell from {num(dip.before)} to {num(dip.lowest)} at {case.unit} "
        f"{dip.step} and was back by {case.unit} {dip.end}; it ends at {num(dip.after)}.",
        step=dip.step,
        measured={"before": dip.before, "lowest": dip.lowest, "last": dip.after, "end": dip.end},
        first=Action(
            Do.INSPECT_DATA,
            f"Find out what changed at {case.unit} {dip.step} and again at {dip.end}: the data, "
            "the learning rate, the evaluation.",
        ),
    )


def _dip_of_score(score: Score) -> _Dip | None:
    good, steps = score.goodness, score.series.steps
    if len(good) < _MIN_DIP_VALUES:
        return None
    level = moving_medians(good)
    # The level of the three values before each window.
    ends = steps[MIN_CONSECUTIVE - 1 :]
    dip = _find_dip(level, float(good[0]), diff_sigma(good))
    if dip is None:
        return None
    before, at, back = dip
    sign = float(score.direction)
    return _Dip(
        name=score.name,
        before=sign * float(level[before]),
        lowest=sign * float(level[at]),
        after=sign * float(level[-1]),
        step=int(ends[at] if at == before else steps[at]),
        end=int(ends[back]),
    )


def _zero_evaluation(score: Score) -> _Dip | None:
    """Return the first evaluation at zero between two that are better than half of the best."""
    series = score.series
    x, steps = series.values, series.steps
    if score.direction is not Direction.HIGHER or x.min() < 0:
        return None
    is_good = x > x.max() / 2
    is_lost = (x[1:-1] <= NEGLIGIBLE * x.max()) & is_good[:-2] & is_good[2:]
    if not is_lost.any():
        return None
    at = 1 + int(is_lost.argmax())
    return _Dip(
        name=score.name,
        before=float(x[at - 1]),
        lowest=float(x[at]),
        after=float(x[-1]),
        step=int(steps[at]),
        end=int(steps[at + 1]),
    )


def _dip_of_reward(case: Case) -> _Dip | None:
    reward = case.history.finite("reward")
    if len(reward) < MIN_LONG_LOG:
        return None
    parts = measure_course(reward.values, _REWARD_LEVELS)
    level = parts.levels
    dip = _find_dip(level, float(level[0]), diff_sigma(level))
    if dip is None:
        return None
    before, at, back = dip
    starts = reward.steps[parts.starts]
    return _Dip(
        name=reward.column,
        before=float(level[before]),
        lowest=float(level[at]),
        after=float(level[-1]),
        step=int(starts[at]),
        end=int(starts[back]),
    )


def _find_dip(level: Floats, begun: float, noise: float) -> tuple[int, int, int] | None:
    """Return the positions of the best level before a dip, of its lowest level, and of the return.

    The dip lost most of the best level and of the gain, beyond the noise and beyond earlier falls,
    and more than half of that was regained.
    """
    best = np.maximum.accumulate(level)
    lost = best - level
    at = int(np.argmax(lost))
    before = int(np.argmax(level[: at + 1]))
    size, top = float(lost[at]), float(best[at])
    earlier = float(lost[:before].max(initial=0.0))
    least = max(_LOST * (top - begun), _LOST * abs(top), CLEAR * noise, _BEYOND_EARLIER * earlier)
    bar = top - size / 2
    back = np.flatnonzero(level[at:] > bar)
    if not before or size <= least or not len(back) or float(level[-1]) <= bar:
        return None
    # Several levels are low: a single one may be chance.
    low = int((level[before : at + int(back[0])] <= bar).sum())
    return (before, at, at + int(back[0])) if low > 1 else None
