"""Losses of the training that are logged next to the one that is diagnosed.

A component, an auxiliary loss, a KL term, or another column that could be the training loss. None
of them decides the diagnosis, but each may fail by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from stabdiag.model.roles.loss_kinds import REGULARIZERS, is_adversarial_loss
from stabdiag.model.roles.names import (
    is_a_loss,
    is_a_reward,
    is_an_lr,
    is_evaluation,
    is_setting,
    name_words,
)
from stabdiag.model.roles.scores import PROPERTIES, Direction, score_direction
from stabdiag.model.roles.settings import column_setting
from stabdiag.model.text import word_list

# Each column takes time, and a log may have thousands.
MAX_OTHER_LOSSES: Final = 16

# The loss of a rank that is not diagnosed, with the number of the rank.
RANK_LOSS: Final = "other_loss/rank_"

# Measures that are minimized, and terms of a loss, under names without the word loss.
LOSS_TERMS: Final = frozenset(
    word_list(
        "kl kld ce bce nll mse rmse mae ctc xent cross smooth huber "
        "perceptual percep style commit commitment vq distill kd cyc cycle adv aux tv "
        "consistency eikonal sdf router box obj cls dfl giou ciou att recon reconst reconstruction "
        "infonce contrastive triplet focal hinge l1 orth mlm mim nsp itc itm bpp "
        "chamfer emd mel stft photometric interlevel pde bc physics"
    )
)
_NO_LOSS_WORDS: Final = frozenset(
    word_list(
        "coef coeff weight beta target penalty scale time lr grad norm acc accuracy ratio num "
        "count n size perplexity ppl usage psnr ssim temperature temp margin gamma alpha "
        "prob length"
    )
)
# The distortion of a compression, and the evidence lower bound.
_BOUNDS: Final = frozenset({"distortion", "elbo"})
# The penalties of the weights and the outputs.
PENALTIES: Final = REGULARIZERS | {"l2"}

# The sections and words of what a model returns for preferred and rejected answers.
_ANSWER_SECTIONS: Final = frozenset({"rewards", "logits", "logps", "log_probs"})
_ANSWER_WORDS: Final = frozenset({"chosen", "rejected", "margins", "margin"})


def find_other_losses(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return the columns of other training losses by role, such as ``other_loss/aux_loss``."""
    names = [*names]
    losses = (
        name
        for name in names
        if name not in taken
        and (is_part_of_loss(name) or (is_adversarial_loss(name) and not is_evaluation(name)))
    )
    return {
        name if name.startswith("other_loss/") else f"other_loss/{name}": name
        for name in islice(losses, MAX_OTHER_LOSSES)
    }


def is_other_loss(name: str) -> bool:
    """Return True if a column is a loss of the training by its name."""
    if is_evaluation(name) or is_setting(name):
        return False
    words = set(name_words(name))
    return is_a_loss(name) or (bool(words & LOSS_TERMS) and not words & _NO_LOSS_WORDS)


def is_objective(name: str) -> bool:
    """Return True for regularizers and bounds, which may rise, but are never without a value."""
    return is_regularizer(name) or _is_term(name, _BOUNDS)


def is_part_of_loss(name: str) -> bool:
    """Return True for a term of a loss under a name that need not say so: kl, mse, penalty."""
    return is_other_loss(name) or is_objective(name)


def is_regularizer(name: str) -> bool:
    """Return True for a penalty of the weights or the outputs, which grows with them."""
    return _is_term(name, PENALTIES)


def _is_term(name: str, terms: Collection[str]) -> bool:
    """Return True if a column of the training has a word of these terms, and is no setting."""
    words = {*name_words(name)}
    is_term = not words.isdisjoint(terms) and not words & (_NO_LOSS_WORDS - REGULARIZERS)
    return is_term and not is_evaluation(name) and not is_setting(name)


def find_other_values(names: Iterable[str], taken: Collection[str]) -> list[str]:
    """Return the columns of measurements of the training that serve no other role.

    Settings, rewards, evaluations, statistics such as a maximum, and scores are none of them,
    except scores whose lower value is better, which may be a term of the loss, and the losses of
    further evaluations. A wide log has none: each column takes time and memory.
    """
    values = (name for name in names if name not in taken and _is_other_value(name))
    others = [*islice(values, MAX_OTHER_LOSSES + 1)]
    return others if len(others) <= MAX_OTHER_LOSSES else []


def _is_other_value(name: str) -> bool:
    words = {*name_words(name)}
    # A penalty of the gradient is a term of the loss.
    is_property = words & PROPERTIES and not words & REGULARIZERS
    if is_setting(name) or is_property or (is_evaluation(name) and "loss" not in words):
        return False
    if column_setting(name) is not None or is_an_lr(name) or is_a_reward(name, of_episodes=True):
        return False
    return score_direction(name) is not Direction.HIGHER


def is_of_answers(name: str) -> bool:
    """Return True for rewards/chosen, logits/rejected and logps/chosen, as DPO and KTO log them."""
    if _ANSWER_SECTIONS.isdisjoint(name.lower().split("/")[:-1]):
        return False
    return not _ANSWER_WORDS.isdisjoint(name_words(name)) and not is_evaluation(name)
