"""What a column without a known name is by the looks of its name."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles.names import is_evaluation, normal, run_of, without_evaluation, words_of
from stabdiag.model.roles.table import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stabdiag.model.roles.table import Role


_NOT_A_LOSS = re.compile(r"loss_?scale|scale$|(^|_)(num|min|max|best|std|n|weight)(_|$)|grad")

# How long a loss took to compute: profiling/Time taken: GRPOTrainer.compute_loss, timing_s/loss.
_TIMED = re.compile(r"(^|_)(profiling|profiler|timings?|timers?|time_taken|latency|duration)(_|$)")

_AN_LR = re.compile(r"(^|_)(lr|learning_rate)(_|$)|_lr\d*$")

# Settings of a schedule are not the learning rate; its bounds are taken only if there is no other.
_NO_LR: Final = frozenset({"min", "floor", "final", "end", "decay", "warmup"})
_BOUNDS_OF_LR: Final = frozenset({"max", "base", "peak", "init", "initial"})

# Words that mean something else after a slash: optimizer/norm, timing_s/step, reward/value.
_VAGUE: Final = frozenset(
    {
        *("norm", "step", "steps", "s", "value", "time", "throughput", "update", "date"),
        *("ep", "epochs", "round", "rounds", "generation", "generations", "total_time"),
    }
)

# What is divided by the weights, as in char-rnn: grad/param norm.
_DIVIDED: Final = frozenset({"grad", "grads", "gradient", "gradients", "update", "updates"})

# Words for losses that are added to that of the task, and say little about it.
_AUXILIARY: Final = frozenset(
    {
        *("aux", "auxiliary", "reg", "regularization", "regularisation", "l1", "l2", "z", "kl"),
        *("commit", "commitment", "balance", "balancing", "router", "penalty", "decay", "tv"),
    }
)
_TOTAL: Final = frozenset({"total", "overall", "combined"})
_PLAIN: Final = frozenset({"loss", "losses", "train", "training", "mean", "avg"})

# What may stand beside a reward in its name: Batch_Reward_Mean, avg_reward_100, "Return (train)".
_REWARDS: Final = frozenset({"reward", "rewards", "return", "returns"})
_OF_REWARDS: Final = frozenset(
    {
        *("mean", "avg", "average", "total", "sum", "cumulative", "running", "rolling", "moving"),
        *("episode", "ep", "epoch", "batch", "game", "train", "training", "rollout", "env", "per"),
        *("last", "raw", "episodic", "smoothed"),
    }
)

# How many other losses are looked into, since each costs time in a log of thousands of columns.
_OTHERS: Final = 8

# After these words a count is another one: max_steps, warmup_steps, total_steps.
_NO_SECTION: Final = frozenset(
    {
        *("max", "min", "total", "num", "n", "warmup", "save", "logging", "log", "best", "last"),
        *("final", "first", "start", "end", "per", "per_device", "time", "train", "training"),
    }
)
_TOTALS: Final = frozenset(next(role.names for role in ROLES if role.name == "loss"))
_COUNTS: Final = tuple(
    name
    for role in ROLES
    if role.name in ("step", "epoch")
    for name in role.names
    if name not in ("s", "ep")
)


def is_a_loss(name: str) -> bool:
    """Tell whether a column looks like a training loss."""
    key = normal(name)
    other = is_evaluation(name) or _NOT_A_LOSS.search(key) or _TIMED.search(key)
    return "loss" in key and not other


def is_auxiliary(name: str) -> bool:
    """Tell whether a loss is added to that of the task, as a penalty or a regulariser is."""
    words = set(words_of(name)) - _PLAIN
    return bool(words) and words <= _AUXILIARY


def is_an_lr(name: str) -> bool:
    """Tell whether a column looks like a learning rate, or like a bound of it."""
    return _AN_LR.search(normal(name)) is not None and not _NO_LR.intersection(words_of(name))


def is_a_reward(name: str) -> bool:
    """Tell whether a column looks like the reward that a run is trained for, and not a part of it.

    One word of its name says so, and the others only how it was averaged.
    """
    others = [word for word in words_of(name) if word not in _REWARDS]
    alone = len(words_of(name)) == len(others) + 1 and not is_evaluation(name)
    return alone and all(word in _OF_REWARDS or word.isdigit() for word in others)


def last_word(name: str) -> str:
    """Return what follows the last slash of a name: ``actor/grad_norm`` is a gradient norm."""
    return normal(name.rpartition("/")[2])


def by_last_word(role: Role, names: Iterable[str]) -> list[str]:
    """Return the column whose name ends with one of the role, whatever stands before the slash.

    There is none if several sections have such a column, which are then parts, or of several
    networks. Words that may mean other things do not count.
    """
    known = set(role.names).difference(_VAGUE)
    found = [
        name
        for name in names
        if "/" in name and last_word(name) in known and not is_evaluation(name)
    ]
    if role.name == "weight_norm":
        found = [name for name in found if normal(name.rpartition("/")[0]) not in _DIVIDED]
    if len({name.rpartition("/")[0] for name in found}) != 1:
        return []
    return sorted(found, key=lambda name: role.names.index(last_word(name)))[:1]


def by_looks(role: Role, names: Iterable[str]) -> list[str]:
    """Return the columns that look as if they served a role, the most likely one first."""
    if role.name == "loss":
        # Of several losses the total is most likely the one with a known name, or the one with the
        # shortest.
        like = [name for name in names if is_a_loss(name)]
        return sorted(
            like,
            key=lambda name: (
                _TOTAL.isdisjoint(words_of(name)),
                last_word(name) not in role.names,
                len(normal(name)),
            ),
        )
    if role.name == "lr":
        like = [name for name in names if is_an_lr(name)]
        return sorted(like, key=lambda name: not _BOUNDS_OF_LR.isdisjoint(words_of(name)))
    if role.name == "reward":
        return sorted(filter(is_a_reward, names), key=lambda name: len(words_of(name)))
    if role.name == "eval_loss":
        like = [name for name in names if "loss" in normal(name) and is_evaluation(name)]
        # The best so far is infinite before the first evaluation, and never rises.
        like = [name for name in like if "best" not in words_of(name)]
        return sorted(like, key=lambda name: without_evaluation(name) not in _TOTALS)
    return []


def section_of(names: Sequence[str]) -> str:
    """Return the word that both the step and the losses begin with: ``stage2_step``.

    It is empty if a step or an epoch is logged without such a word.
    """
    keys = {normal(name) for name in names}
    if not keys.isdisjoint(_COUNTS):
        return ""
    sections = dict.fromkeys(normal(name).partition("_")[0] for name in names if is_a_loss(name))
    for section in sections:
        known = section in _NO_SECTION or is_evaluation(section)
        if section and not known and not keys.isdisjoint(f"{section}_{one}" for one in _COUNTS):
            return section
    return ""


def other_losses(taken: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the first few columns of the same run that look like a training loss as well."""
    like = (name for name in names if is_a_loss(name) and run_of(name) == run_of(taken))
    return tuple(islice(like, _OTHERS))
