"""Losses that are parts of one, and losses that may rise while the run learns.

Those are a policy's, and those of two networks that train against each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, Self

from stabdiag.model.roles.names import is_evaluation, last_word, words_of
from stabdiag.model.text import names_in

# Words that distinguish two readings of one loss, and not two parts of it.
_READINGS: Final = frozenset(
    names_in(
        "avg average mean median ema smooth smoothed running moving best last final current raw "
        "scaled unscaled global local batch epoch step iter total sum train training log rank slice"
    )
)

GENERATOR: Final = frozenset({"g", "gen", "generator"})
DISCRIMINATOR: Final = frozenset({"d", "dis", "disc", "discriminator", "critic"})

# A regularizer of the discriminator is not its loss: Loss/D/reg, r1_penalty, D_gp.
_REGULARIZERS: Final = frozenset(
    {"reg", "regularizer", "regularization", "penalty", "gp", "r1", "r2", "pl", "lazy"}
)

# Words beside them, as in G_GAN, G_L1, D_real and D_fake of pix2pix, and in L_G and L_D.
_BESIDE_OPPONENTS: Final = frozenset({"l", "gan", "l1", "real", "fake", "adv", "a", "b", "total"})


def find_discriminator_loss(names: Sequence[str]) -> str | None:
    """Return the discriminator's loss if a generator and a discriminator train together.

    The generator's loss rises in a healthy run, and the sum of the two says nothing. A regularizer
    of the discriminator is not its loss.
    """
    words = {name: set(words_of(name)) for name in names}
    told = {name: own for name, own in words.items() if not own & _REGULARIZERS}
    if not any(words & GENERATOR for words in told.values()):
        return None
    return next((name for name, words in told.items() if words & DISCRIMINATOR), None)


def describe_discriminator_choice(opponent: str, role: str) -> str:
    """Say why the discriminator's loss was taken."""
    return f"took {opponent!r} as the {role}: a generator trains against a discriminator"


def parts_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names if each is that of a part of one loss, else nothing.

    They are if each differs from the others in one word, as ``train/box_loss`` and
    ``train/cls_loss`` do, and none of these words is a number or says how a loss was averaged.
    Losses of an evaluation that differ in a number are of several sets of data.
    """
    told = [re.findall(r"[a-z0-9]+", name.lower()) for name in names]
    shared = set.intersection(*map(set, told)) if told else set()
    own = [[word for word in words if word not in shared] for words in told]
    if len(own) < 2 or any(len(words) != 1 for words in own):
        return ()
    words = [one for (one,) in own]
    if len(set(words)) < len(words) or any(map(_is_no_part, words)):
        return ()
    if is_evaluation(names[0]) and len({word.strip("0123456789") for word in words}) == 1:
        return ()
    return tuple(names)


def _is_no_part(word: str) -> bool:
    """Tell whether a word is a number or a reading, alone or joined to the loss: avgloss."""
    bare = word.removeprefix("loss").removesuffix("losses").removesuffix("loss")
    return word.isdigit() or word in _READINGS or bare in _READINGS


def is_adversarial_loss(name: str) -> bool:
    """Tell whether a column without the word loss is a generator's or discriminator's loss."""
    words = words_of(name)
    rest = [word for word in words if word not in GENERATOR | DISCRIMINATOR]
    named = len(words) > 1 or (len(words) == 1 and len(words[0]) > 1)
    return named and len(rest) < len(words) and _BESIDE_OPPONENTS.issuperset(rest)


class LossKind(StrEnum):
    """What a loss is that may rise while the run learns: a value for the program, with a text."""

    about: str

    def __new__(cls, value: str, about: str) -> Self:
        """Make a kind of its value and of what it says of a loss."""
        kind = str.__new__(cls, value)
        kind._value_, kind.about = value, about
        return kind

    ADVERSARIAL = "adversarial", "the loss of one of two networks that train against each other"
    POLICY = "policy", "the loss of a policy"
    POLICY_SUM = "policy-sum", "a sum that holds the loss of a policy"
    VALUE = "value", "the loss of a value function"
    RUNNING_SUM = "running-sum", "a running sum of losses"


_POLICY: Final = frozenset({"policy", "actor", "pg", "surrogate"})
_VALUE: Final = frozenset({"value", "vf", "v", "critic", "baseline"})
_LOSS: Final = frozenset({"loss", "losses"})
_PLAIN: Final = _LOSS | {"train", "training"}
_TOTAL: Final = _PLAIN | {"total", "sum", "overall", "combined", "mean", "avg", "average"}

# Beside the loss of one of these, what is merely called the loss is that of a generator.
_CRITICS: Final = DISCRIMINATOR - {"dis", "critic"}

# In the name of a single column, gen and dis may as well mean generation and distillation.
_OPPONENTS: Final = (GENERATOR | DISCRIMINATOR) - {"gen", "dis"}


def is_policy_loss(name: str) -> bool:
    """Tell whether a loss is that of a policy or its entropy, which hover around no level."""
    words = {*words_of(name)}
    return bool(_POLICY & words) or ("entropy" in words and "cross" not in words)


def loss_kind(loss: str, names: Sequence[str], *, has_reward: bool) -> LossKind | None:
    """Return what the chosen loss is, if it may rise while the run learns.

    It goes up and down with what an opponent has learned, or with the advantage that is left, and a
    run that learns well may end above its best level. A total that holds a policy's loss does as
    well, and a value function's loss grows with the returns; where a reward is logged, that tells
    more of such a run.

    Args:
        loss: the name of the column that serves as the loss.
        names: all columns of the log.
        has_reward: whether one of them serves as the reward.
    """
    # A total is one whatever policy it is of: learner/default_policy/total_loss.
    told = words_of(last_word(loss))
    words = told if "total" in told else words_of(loss)
    if not words:
        return None
    if _POLICY & set(words):
        return LossKind.POLICY
    others = [set(words_of(name)) for name in names if name != loss and not is_evaluation(name)]
    pair = (
        is_adversarial_loss(loss)
        and find_discriminator_loss([*filter(is_adversarial_loss, names)]) is not None
    )
    if _is_opponent(words) or pair or _is_one_of_two(set(words), others):
        return LossKind.ADVERSARIAL
    if set(words) <= _PLAIN and any(map(_is_critics, others)):
        return LossKind.ADVERSARIAL
    parts = set().union(*(one for one in others if one & _LOSS))
    if has_reward or not parts & _POLICY:
        return None
    if _VALUE & set(words):
        return LossKind.VALUE
    summed = set(words) <= _TOTAL and parts & _VALUE
    return LossKind.POLICY_SUM if summed else None


def _is_opponent(words: list[str]) -> bool:
    """Tell whether a loss is an opponent's by its own name.

    A letter tells a network only where it stands alone, as in ``train/G`` and ``loss_D``, or
    before the loss, as in ``g_losses_chunk``.
    """
    found = _OPPONENTS & set(words)
    alone = len(set(words) - _PLAIN) == 1
    before = any(one in found and other in _LOSS for one, other in pairwise(words))
    return before or any(len(word) > 1 or alone for word in found)


def _is_critics(words: set[str]) -> bool:
    """Tell whether a column is a discriminator's loss, and says nothing else."""
    return bool(_CRITICS & words and _LOSS & words) and words <= _CRITICS | _PLAIN


def _is_one_of_two(words: set[str], others: Sequence[set[str]]) -> bool:
    """Tell whether a loss and another of the log are a generator's and a discriminator's.

    The other is a loss if it says so, or if only that word tells it from the first.
    """
    return any(
        words & mine and other & theirs and (other & _LOSS or other - theirs == words - mine)
        for mine, theirs in ((GENERATOR, DISCRIMINATOR), (DISCRIMINATOR, GENERATOR))
        for other in others
    )
