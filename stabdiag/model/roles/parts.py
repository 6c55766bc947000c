"""Losses of which only the parts were logged, and losses of adversarial networks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles.names import is_evaluation, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence


# Words that distinguish two readings of one loss, and not two parts of it.
_READINGS: Final = frozenset(
    {
        *("avg", "average", "mean", "median", "ema", "smooth", "smoothed", "running", "moving"),
        *("best", "last", "final", "current", "raw", "scaled", "unscaled", "global", "local"),
        *("batch", "epoch", "step", "iter", "total", "sum", "train", "training", "log"),
    }
)

GENERATOR: Final = frozenset({"g", "gen", "generator"})
DISCRIMINATOR: Final = frozenset({"d", "dis", "disc", "discriminator", "critic"})

# Words beside them, as in G_GAN, G_L1, D_real and D_fake of pix2pix, and in L_G and L_D.
_OF_OPPONENTS: Final = frozenset({"l", "gan", "l1", "real", "fake", "adv", "a", "b", "total"})


def opponent_of(names: Sequence[str]) -> str | None:
    """Return the discriminator's loss if a generator and a discriminator train together.

    The generator's loss rises in a healthy run, and the sum of the two says nothing.
    """
    told = {name: set(words_of(name)) for name in names}
    if not any(words & GENERATOR for words in told.values()):
        return None
    return next((name for name, words in told.items() if words & DISCRIMINATOR), None)


def about_opponents(opponent: str, role: str) -> str:
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


def is_of_opponents(name: str) -> bool:
    """Tell whether a column without the word loss is a generator's or discriminator's loss."""
    words = words_of(name)
    rest = [word for word in words if word not in GENERATOR | DISCRIMINATOR]
    named = len(words) > 1 or (len(words) == 1 and len(words[0]) > 1)
    return named and len(rest) < len(words) and _OF_OPPONENTS.issuperset(rest)
