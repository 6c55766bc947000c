"""Find the columns whose names suggest a role, such as ``loss_ce`` or ``mean_reward``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stabdiag.model.roles.loss_kinds import is_policy_loss, is_value_loss
from stabdiag.model.roles.names import (
    is_a_loss,
    is_a_reward,
    is_an_lr,
    is_auxiliary,
    is_evaluation,
    last_word,
    name_words,
    normal,
    without_evaluation,
)
from stabdiag.model.roles.scores import accuracy_role
from stabdiag.model.roles.table import ROLES, Role

# The roles that have name patterns.
PATTERN_ROLES: Final = frozenset({"loss", "eval_loss", "lr", "reward", "accuracy", "eval_accuracy"})

# The bounds of a learning rate are used only without another column.
_BOUNDS_OF_LR: Final = frozenset({"max", "base", "peak", "init", "initial"})

_TOTAL_WORDS: Final = frozenset({"total", "tot", "overall", "combined", "joint"})

# The known names of the loss that is minimized.
LOSS_NAMES: Final = frozenset(next(role.names for role in ROLES if role.name == "loss"))


def by_name_pattern(role: Role, names: Iterable[str], *, of_episodes: bool = False) -> list[str]:
    """Return the columns whose names suggest a role, the most likely first."""
    names = [*names]
    if role.name == "loss":
        # If there are several losses, the total most likely has a known name or the shortest name.
        matches = [name for name in names if is_a_loss(name)]
        # Next to the losses of a policy, a loss without that word may be a regularizer.
        of_policy = any(map(is_policy_loss, matches))
        return sorted(
            matches,
            key=lambda name: (
                is_policy_loss(name),
                # A sum depends on the size of the batch.
                "sum" in name_words(name),
                _TOTAL_WORDS.isdisjoint(name_words(name)),
                last_word(name) not in role.names,
                is_auxiliary(name),
                of_policy and not is_value_loss(name),
                len(normal(name)),
            ),
        )
    if role.name == "lr":
        matches = [name for name in names if is_an_lr(name)]
        return sorted(matches, key=lambda name: not _BOUNDS_OF_LR.isdisjoint(name_words(name)))
    if role.name == "reward":
        matches = [name for name in names if is_a_reward(name, of_episodes=of_episodes)]
        return sorted(matches, key=lambda name: len(name_words(name))) or _mean_returns(names)
    if role.name in ("accuracy", "eval_accuracy"):
        matches = [name for name in names if accuracy_role(name) == role.name]
        # As for losses, the values of steps come before averages, and validation before test.
        return sorted(
            matches,
            key=lambda name: (
                not {"test", "testing"}.isdisjoint(name_words(name)),
                "epoch" in name_words(name),
                len(name_words(name)),
            ),
        )
    if role.name == "eval_loss":
        matches = [name for name in names if "loss" in normal(name) and is_evaluation(name)]
        # The best so far is infinite before the first evaluation, and never rises.
        matches = [name for name in matches if "best" not in name_words(name)]
        return sorted(matches, key=lambda name: without_evaluation(name) not in LOSS_NAMES)
    return []


def _mean_returns(names: Iterable[str]) -> list[str]:
    """Return the mean in a table of statistics of returns, as ChainerRL and PFRL write it."""
    columns = {normal(name): name for name in names}
    statistics = ("mean", "median", "stdev", "max", "min")
    return [columns["mean"]] if all(name in columns for name in statistics) else []
