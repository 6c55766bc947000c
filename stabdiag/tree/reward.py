"""The reward that a run is trained for: does it hold, or was it lost?

How well a policy plays is told by its reward, and not by its loss. What such a run minimises
follows what it does: the better it plays, the larger the values that it has to predict, and their
errors.
"""

from __future__ import annotations

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.levels import beginning
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.rise import DRAWUP_FACTOR, Rise, net_rise
from stabdiag.stats.shape import BLOWUP_RATIO
from stabdiag.tree.run import Run

# A reward has fallen if this share of it is lost, or of what the run had won: how well a policy
# plays goes up and down by a tenth all the time.
_LOST = 0.25

# A value is the sum of the rewards to come, discounted by 0.99 as a rule: no more than a hundred of
# the largest. No squared error of a value is beyond the square of that.
_REWARDS_TO_COME = 100.0


@frozen
class Reward:
    """How a reward ended: its column, its best level, near which step, and its last level.

    ``first`` is the level at which it began, and a level is a mean of ``points`` rewards.
    """

    column: str
    first: float
    best: float
    best_at: int
    last: float
    points: int


def find_maintained_reward(run: Run) -> Reward | None:
    """Return the reward, if the run is trained for one, it has not fallen, and the loss may rise.

    A fall of the reward is measured as a rise of the loss is, but has to be larger.
    """
    reward = run.history.finite("reward")
    fall = _fall(run, reward)
    if fall is None or not len(run.loss) or not np.ptp(reward.values):
        return None
    silent = int(run.loss.steps[-1] - reward.steps[-1])
    over = silent > max(run.limits.divergence.window, usual_gap(reward.steps))
    if over or _explodes(run, reward, fall) or _is_lost(run, fall):
        return None
    return _ending(reward, fall)


def _explodes(run: Run, reward: Series, fall: Rise) -> bool:
    """Tell whether the loss ends higher than the reward explains.

    A reward that never rose explains no loss that ends so far above its middle, and none explains
    errors that are larger than any values.
    """
    x = run.loss.values
    ends = median(x[-max(len(x) // 10, 1) :])
    if fall.progress <= fall.bar and ends > BLOWUP_RATIO * median(np.abs(x)):
        return True
    most = (_REWARDS_TO_COME * float(np.abs(reward.values).max())) ** 2
    return ends > max(most, BLOWUP_RATIO * beginning(x))


def find_collapsed_reward(run: Run) -> Reward | None:
    """Return the reward of a run that is trained for one, if it has clearly fallen."""
    reward = run.history.finite("reward")
    fall = _fall(run, reward)
    return _ending(reward, fall) if fall is not None and _is_lost(run, fall) else None


def _fall(run: Run, reward: Series) -> Rise | None:
    """Return the fall of a reward, as the rise of its negative; None where it is too short."""
    limits = run.limits.divergence
    if len(reward) < limits.min_points:
        return None
    wanted = max(round(limits.window / usual_gap(reward.steps)), limits.min_points)
    return net_rise(-reward.values, min(wanted, len(reward)), limits.significance)


def _ending(reward: Series, fall: Rise) -> Reward:
    return Reward(
        column=reward.column,
        first=-fall.best_level - fall.progress,
        best=-fall.best_level,
        best_at=int(reward.steps[fall.best]),
        last=-fall.last_level,
        points=fall.points,
    )


def _is_lost(run: Run, fall: Rise) -> bool:
    clear = (
        fall.p_value < run.limits.divergence.significance or fall.amount > DRAWUP_FACTOR * fall.bar
    )
    least = _LOST * max(fall.progress, abs(fall.best_level))
    return clear and fall.amount > max(least, fall.bar)
