"""The reward that a run maximizes: was it maintained, or did it collapse?

The reward measures a policy, and the loss does not. A better policy has larger values to predict,
and therefore larger errors.
"""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.course import beginning, end_level
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.rise import DRAWUP_FACTOR, Rise, net_rise
from stabdiag.stats.shape import BLOWUP_RATIO
from stabdiag.stats.standards import HUNDREDFOLD, QUARTER
from stabdiag.tree.run import Run

# A reward has collapsed if this fraction of it, or of its gain, is lost. Rewards regularly vary by
# a tenth.
_COLLAPSED_REWARD = QUARTER

# A value is the sum of future rewards, usually discounted by 0.99: at most a hundred times the
# largest reward. A squared error is at most the square of that.
_MAX_RETURN = HUNDREDFOLD


@frozen
class Reward:
    """The first, best and last level of a reward, and the first and last step near the best one.

    A level is a mean of ``points`` rewards.
    """

    column: str
    first: float
    best: float
    best_step: int
    fall_step: int
    last: float
    points: int


def find_maintained_reward(run: Run) -> Reward | None:
    """Return the reward if the run maximizes one, it did not fall, and it explains the loss.

    A fall of the reward is measured like a rise of the loss, but has to be larger.
    """
    reward = run.history.finite("reward")
    fall = _fall(run, reward)
    if fall is None or not len(run.loss) or not np.ptp(reward.values):
        return None
    silent = int(run.loss.steps[-1] - reward.steps[-1])
    ended_early = silent > max(run.limits.divergence.window, usual_gap(reward.steps))
    if ended_early or _loss_blew_up(run, reward, fall) or _is_collapsed(run, fall):
        return None
    return _ending(reward, fall)


def _loss_blew_up(run: Run, reward: Series, fall: Rise) -> bool:
    """Return True if the loss ends higher than the reward explains.

    A reward that never rose does not explain a loss far above its median. No reward explains errors
    above the largest possible value.
    """
    x = run.loss.values
    ends = end_level(x)
    if fall.progress <= fall.bar and ends > BLOWUP_RATIO * median(np.abs(x)):
        return True
    largest = (_MAX_RETURN * float(np.abs(reward.values).max())) ** 2
    return ends > max(largest, BLOWUP_RATIO * beginning(x))


def find_collapsed_reward(run: Run) -> Reward | None:
    """Return the reward of a run that maximizes one, if it clearly fell, else None."""
    reward = run.history.finite("reward")
    fall = _fall(run, reward)
    if fall is None or not _is_collapsed(run, fall) or not _is_usual(reward.values, fall):
        return None
    return _ending(reward, fall)


def _fall(run: Run, reward: Series) -> Rise | None:
    """Return the fall of a reward, as the rise of its negative; None if it is too short."""
    limits = run.limits.divergence
    if len(reward) < limits.min_points:
        return None
    window = max(round(limits.window / usual_gap(reward.steps)), limits.min_points)
    return net_rise(-reward.values, min(window, len(reward)), limits.significance)


def _ending(reward: Series, fall: Rise) -> Reward:
    return Reward(
        column=reward.column,
        first=-fall.best_level - fall.progress,
        best=-fall.best_level,
        best_step=int(reward.steps[fall.best]),
        fall_step=int(reward.steps[fall.onset]),
        last=-fall.last_level,
        points=fall.points,
    )


def _is_usual(x: Floats, fall: Rise) -> bool:
    """Return True if a reward near the best level usually exceeds one at the end.

    A few episodes with enormous rewards raise a mean, even if the others did not improve, and so
    does a single better episode among equal ones.
    """
    best = x[max(fall.best + 1 - fall.points, 0) : fall.best + fall.points]
    last = x[-fall.points :]
    pairs = np.sign(best[:, np.newaxis] - last[np.newaxis, :])
    return bool(pairs.sum() > 0 and median(best) > median(last))


def _is_collapsed(run: Run, fall: Rise) -> bool:
    is_significant = fall.p_value < run.limits.divergence.significance
    is_clear = is_significant or fall.amount > DRAWUP_FACTOR * fall.bar
    least = _COLLAPSED_REWARD * max(fall.progress, abs(fall.best_level))
    return is_clear and fall.amount > max(least, fall.bar)
