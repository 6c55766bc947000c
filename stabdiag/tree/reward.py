"""Runs that are trained for a reward: while the reward holds, their loss says little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.text import num
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.rise import net_rise
from stabdiag.tree.question import Reply, no
from stabdiag.tree.rises import is_clear, mean_of

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.stats.rise import Rise
    from stabdiag.tree.case import Case


# A reward has fallen if this share of it is lost, or of what the run had won: how well a policy
# plays goes up and down by a tenth all the time.
_LOST = 0.25

# A loss that ends so many times as high as it was in the middle is excused by nothing but a reward
# that rose.
_EXPLODED = 10.0

# A reward tells of the whole run if this share of the run is left after its last record.
_SILENT = 0.1


@dataclass(frozen=True, kw_only=True)
class Reward:
    """How a reward ended: its column, its best level, near which step, and its last level.

    A level is a mean of ``points`` rewards.
    """

    column: str
    best: float
    best_at: int
    last: float
    points: int


def held_reward(case: Case) -> Reward | None:
    """Return the reward, if the run is trained for one and it has not fallen.

    What such a run minimises follows what it does: the better it plays, the larger the values that
    it has to predict, and their errors. A fall of the reward is measured as a rise of the loss is,
    but has to be larger.
    """
    reward = case.history.finite("reward")
    fall = None if case.literal else _fall(case, reward)
    if fall is None or not len(case.loss) or not np.ptp(reward.values):
        return None
    if _is_lost(case, fall) or (fall.progress <= fall.bar and _explodes(case)):
        return None
    begun, ended = int(case.loss.steps[0]), int(case.loss.steps[-1])
    if ended - int(reward.steps[-1]) > max(_SILENT * (ended - begun), usual_gap(reward.steps)):
        return None
    return _ending(reward, fall)


def lost_reward(case: Case) -> Reward | None:
    """Return the reward of a run that is trained for one, if it has clearly fallen."""
    reward = case.history.finite("reward")
    fall = _fall(case, reward)
    return _ending(reward, fall) if fall is not None and _is_lost(case, fall) else None


def _fall(case: Case, reward: Series) -> Rise | None:
    """Return the fall of a reward, as the rise of its negative; None where it is too short."""
    limits = case.limits.divergence
    if len(reward) < limits.min_points:
        return None
    wanted = max(round(limits.window / usual_gap(reward.steps)), limits.min_points)
    return net_rise(-reward.values, min(wanted, len(reward)), limits.significance)


def _ending(reward: Series, fall: Rise) -> Reward:
    return Reward(
        column=reward.column,
        best=-fall.best_level,
        best_at=int(reward.steps[fall.best]),
        last=-fall.last_level,
        points=fall.points,
    )


def _is_lost(case: Case, fall: Rise) -> bool:
    return is_clear(case, fall) and fall.amount > _LOST * max(fall.progress, abs(fall.best_level))


def _explodes(case: Case) -> bool:
    x = case.loss.values
    last = median(x[-max(len(x) // 10, 1) :])
    return last > _EXPLODED * median(np.abs(x))


def no_harm(reward: Reward) -> Reply:
    """Answer no to a question about the loss of a run whose reward holds."""
    best = f"not clearly below its best level ({num(reward.best)})"
    if reward.last >= reward.best:
        best = "its best level"
    return no(
        f"the run is trained for a reward, and {reward.column!r} ends at {num(reward.last)} "
        f"({mean_of(reward.points)}), {best}: its loss may jump and rise meanwhile",
        measured={"reward_best": reward.best, "reward_last": reward.last},
    )
