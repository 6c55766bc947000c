"""Components of a loss, and losses that may rise while the run learns.

The latter are the losses of policies and of adversarial networks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, Self

from stabdiag.model.roles.names import EPISODES_OR_GAMES, is_evaluation, last_word, name_words
from stabdiag.model.text import word_list

# Words that distinguish two readings of the same loss rather than two components.
_READINGS: Final = frozenset(
    word_list(
        "avg average mean median ema smooth smoothed running moving best last final current raw "
        "scaled unscaled global local batch epoch step iter total tot sum train training log rank "
        "slice before after"
    )
)

# Words with a number that distinguish runs of the same training.
_REPETITIONS: Final = frozenset({"seed", "fold", "run", "trial", "repeat", "replicate", "cv"})

GENERATOR: Final = frozenset({"g", "gen", "generator"})
DISCRIMINATOR: Final = frozenset({"d", "dis", "disc", "discrim", "discriminator", "critic"})

# A regularizer of the discriminator is not its loss: Loss/D/reg, r1_penalty, D_gp.
REGULARIZERS: Final = frozenset(
    {"reg", "regularizer", "regularization", "penalty", "gp", "r1", "r2", "pl", "lazy"}
)

# Words next to them, as in G_GAN, G_L1, D_real and D_fake of pix2pix, L_G and L_D, errG and errD.
_ADVERSARIAL_WORDS: Final = frozenset(
    {"l", "err", "gan", "l1", "real", "fake", "adv", "a", "b", "total"}
)


def find_discriminator_loss(names: Sequence[str]) -> str | None:
    """Return the discriminator's loss if a generator and a discriminator train together.

    The generator's loss rises in a healthy run, and the sum of the two is meaningless. A
    regularizer of the discriminator is not its loss.
    """
    words = {name: set(name_words(name)) for name in names}
    losses = {name: own for name, own in words.items() if not own & REGULARIZERS}
    if not any(words & GENERATOR for words in losses.values()):
        return None
    return next((name for name, words in losses.items() if words & DISCRIMINATOR), None)


def describe_discriminator_choice(name: str, role: str) -> str:
    """Return a note on why the discriminator's loss was taken."""
    return f"took {name!r} as the {role}: a generator trains against a discriminator"


def loss_parts(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names if they are components of one loss, else nothing.

    Each component differs from the others in one word, as in ``train/box_loss`` and
    ``train/cls_loss``, which is not a number or a way of averaging. Evaluation losses whose words
    end with a number, or differ only in it, belong to several data sets: ``set5`` and ``urban100``.
    ``seed1`` and ``fold2`` belong to several runs.
    """
    splits = [re.findall(r"[a-z0-9]+", name.lower()) for name in names]
    shared = set.intersection(*map(set, splits)) if splits else set()
    own_words = [[word for word in words if word not in shared] for words in splits]
    if len(own_words) < 2 or any(len(words) != 1 for words in own_words):
        return ()
    words = [word for (word,) in own_words]
    if len(set(words)) < len(words) or any(map(_is_reading, words)) or "joint" in words:
        return ()
    # Next to the loss of the training, the others belong to other sets of examples.
    if not _TRAINING_SPLITS.isdisjoint(words):
        return ()
    bare = [word.rstrip("0123456789") for word in words]
    is_numbered = all(len(own) < len(word) for own, word in zip(bare, words, strict=True))
    if is_evaluation(names[0]) and (is_numbered or len(set(bare)) == 1):
        return ()
    if is_numbered and set(bare) <= _REPETITIONS:
        return ()
    # Next to qf1_loss and qf2_loss, qf_loss is their sum.
    if any(own != word and own in words for own, word in zip(bare, words, strict=True)):
        return ()
    return tuple(names)


_TRAINING_SPLITS: Final = frozenset({"train", "training", "trained", "tr", "trn"})

# The loss of a variational autoencoder, and its parts.
_VARIATIONAL: Final = frozenset({"vae", "elbo"})
_VARIATIONAL_PARTS: Final = frozenset({"recon", "rec", "reconstruction", "kl", "kld"})


def find_variational_loss(names: Sequence[str]) -> str | None:
    """Return the loss of a variational autoencoder if parts of it are logged as well, or None."""
    words = {name: set(name_words(name)) for name in names}
    if not any(_VARIATIONAL_PARTS & own for own in words.values()):
        return None
    return next((name for name, own in words.items() if _VARIATIONAL & own), None)


def _is_reading(word: str) -> bool:
    """Return True if a word is a number or a reading, alone or joined to the loss: avgloss."""
    bare = word.removeprefix("loss").removesuffix("losses").removesuffix("loss")
    return word.isdigit() or word in _READINGS or bare in _READINGS


def is_adversarial_loss(name: str) -> bool:
    """Return True if a column without the word loss is a generator's or discriminator's loss."""
    words = name_words(name)
    others = [word for word in words if word not in GENERATOR | DISCRIMINATOR]
    named = len(words) > 1 or (len(words) == 1 and len(words[0]) > 1)
    return named and len(others) < len(words) and _ADVERSARIAL_WORDS.issuperset(others)


class LossKind(StrEnum):
    """A kind of loss that may rise while the run learns, with a description."""

    about: str

    def __new__(cls, value: str, about: str) -> Self:
        """Create a kind from its value and its description."""
        kind = str.__new__(cls, value)
        kind._value_, kind.about = value, about
        return kind

    ADVERSARIAL = "adversarial", "the loss of one of two networks that train against each other"
    POLICY = "policy", "the loss of a policy"
    POLICY_SUM = "policy-sum", "a sum that includes the loss of a policy"
    VALUE = "value", "the loss of a value function"
    RUNNING_SUM = "running-sum", "a running sum of losses"


# DeepSpeed-Chat has an act_loss and a cri_loss.
_POLICY: Final = frozenset({"policy", "actor", "act", "pg", "surrogate"})
_VALUE_WORDS: Final = frozenset({"value", "vf", "v", "critic", "cri", "baseline"})
_LOSS_WORDS: Final = frozenset({"loss", "losses"})
_TRAINING_LOSS_WORDS: Final = _LOSS_WORDS | {"train", "training"}
_TOTAL_LOSS_WORDS: Final = _TRAINING_LOSS_WORDS | {
    "total",
    "sum",
    "overall",
    "combined",
    "mean",
    "avg",
    "average",
}

# The error of estimated returns, whose names say so.
_TEMPORAL_DIFFERENCES: Final = frozenset({"td", "bellman", "dqn", "q", "qf"})

# A game prints how often it explores.
_EXPLORATIONS: Final = frozenset({"exploration", "explore"})
_OF_CLASSIFIERS: Final = frozenset({"acc", "accuracy"})

# Terms of a policy's loss without its advantage.
_POLICY_TERMS: Final = frozenset({"entropy", "kl", "kld", "ent", "reg", "regularizer"})

# The value function of a policy, or the discriminator of a generator.
_CRITIC: Final = "critic"

# If a column with one of these words exists, a column named just "loss" is the generator's.
_CRITICS: Final = DISCRIMINATOR - {"dis", _CRITIC}

# In the name of a single column, gen and dis may also mean generation and distillation.
_ADVERSARIES: Final = (GENERATOR | DISCRIMINATOR) - {"gen", "dis"}


def is_policy_loss(name: str) -> bool:
    """Return True if a loss belongs to a policy or is its entropy, which have no level."""
    words = {*name_words(name)}
    return bool(_POLICY & words) or ("entropy" in words and "cross" not in words)


def surrogate_losses(names: Sequence[str]) -> list[str]:
    """Return the losses of a policy that hold its advantage: not its entropy or its distance."""
    return [name for name in names if not _POLICY_TERMS.intersection(name_words(name))]


def is_value_loss(name: str) -> bool:
    """Return True if a loss belongs to a value function."""
    return not _VALUE_WORDS.isdisjoint(name_words(name))


def estimates_returns(name: str) -> bool:
    """Return True for the loss of a value function or of Q-values: value_loss, qf1_loss."""
    words = {word.rstrip("12") for word in name_words(name)}
    return not words.isdisjoint(_VALUE_WORDS | _TEMPORAL_DIFFERENCES)


def loss_kind(loss: str, names: Sequence[str], *, has_reward: bool) -> LossKind | None:
    """Return the kind of the chosen loss if it may rise while the run learns, or None.

    An adversarial loss depends on the other network, and a policy loss on the remaining advantage,
    so a healthy run may end above its best level. The same holds for a total that includes a policy
    loss, and a value loss grows with the returns. A logged reward is a better measure for these
    runs.

    Args:
        loss: the name of the column that serves as the loss.
        names: all columns of the log.
        has_reward: whether one of them serves as the reward.
    """
    # In learner/default_policy/total_loss, the policy does not make the total a policy loss.
    last_words = name_words(last_word(loss))
    words = last_words if "total" in last_words else name_words(loss)
    if not words:
        return None
    if _POLICY & set(words):
        return LossKind.POLICY
    others = [set(name_words(name)) for name in names if name != loss and not is_evaluation(name)]
    # A critic estimates the returns of a policy, or is the adversary of a generator.
    of_policy = has_reward or any(_POLICY & own and _LOSS_WORDS & own for own in others)
    if _CRITIC in words and of_policy:
        return None if has_reward else LossKind.VALUE
    pair = (
        is_adversarial_loss(loss)
        and find_discriminator_loss([*filter(is_adversarial_loss, names)]) is not None
    )
    if _is_adversary(words) or pair or _has_adversary(set(words), others):
        return LossKind.ADVERSARIAL
    if set(words) <= _TRAINING_LOSS_WORDS and any(map(_is_discriminator_loss, others)):
        return LossKind.ADVERSARIAL
    parts = set().union(*(words for words in others if words & _LOSS_WORDS))
    if has_reward:
        return None
    if _TEMPORAL_DIFFERENCES & set(words) or (
        set(words) <= _TOTAL_LOSS_WORDS and _belongs_to_game(names)
    ):
        return LossKind.VALUE
    if not parts & _POLICY:
        return None
    if _VALUE_WORDS & set(words):
        return LossKind.VALUE
    summed = set(words) <= _TOTAL_LOSS_WORDS and parts & _VALUE_WORDS
    return LossKind.POLICY_SUM if summed else None


def _belongs_to_game(names: Sequence[str]) -> bool:
    """Return True if the columns of a log belong to a game: its episodes, its exploration.

    A few-shot learner also counts episodes, and logs its accuracy.
    """
    words = [set(name_words(name)) for name in names]
    if any(own & _OF_CLASSIFIERS for own in words):
        return False
    return any(own <= EPISODES_OR_GAMES or own & _EXPLORATIONS for own in words if own)


def _is_adversary(words: Sequence[str]) -> bool:
    """Return True if the name alone shows that a loss belongs to one of two adversaries.

    A single letter means a network only if it is the only other word, as in ``train/G`` and
    ``loss_D``, or precedes the loss, as in ``g_losses_chunk``.
    """
    adversaries = _ADVERSARIES & set(words)
    alone = len(set(words) - _TRAINING_LOSS_WORDS) == 1
    before = any(word in adversaries and after in _LOSS_WORDS for word, after in pairwise(words))
    return before or any(len(word) > 1 or alone for word in adversaries)


def _is_discriminator_loss(words: set[str]) -> bool:
    """Return True if a name contains only the words of a discriminator loss."""
    return (
        bool(_CRITICS & words and _LOSS_WORDS & words) and words <= _CRITICS | _TRAINING_LOSS_WORDS
    )


def _has_adversary(words: set[str], others: Sequence[set[str]]) -> bool:
    """Return True if a loss and another column belong to a generator and a discriminator.

    The other column counts if its name has the word loss, or differs only in the network.
    """
    return any(
        words & own and other & rival and (other & _LOSS_WORDS or other - rival == words - own)
        for own, rival in ((GENERATOR, DISCRIMINATOR), (DISCRIMINATOR, GENERATOR))
        for other in others
    )
