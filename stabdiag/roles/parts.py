"""Losses of which only the parts were logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.roles.names import normal

if TYPE_CHECKING:
    from collections.abc import Sequence

# What tells two readings of one loss apart, not two parts of one.
_READINGS: Final = frozenset(
    {
        *("avg", "average", "mean", "median", "ema", "smooth", "smoothed", "running", "moving"),
        *("best", "last", "final", "current", "raw", "scaled", "unscaled", "global", "local"),
        *("batch", "epoch", "step", "iter", "total", "sum", "train", "training", "log"),
    }
)


_GENERATOR: Final = frozenset({"g", "gen", "generator"})
_DISCRIMINATOR: Final = frozenset({"d", "dis", "disc", "discriminator", "critic"})
_POLICY: Final = frozenset({"policy", "actor", "pg", "surrogate"})
# Of one column alone, gen and dis may as well mean generation and distillation.
_CONTESTED: Final = (_GENERATOR | _DISCRIMINATOR | _POLICY) - {"gen", "dis"}
_PLAIN: Final = frozenset({"loss", "losses", "train", "training"})


def is_contested(name: str) -> bool:
    """Tell whether a loss is that of a policy, or of one of two that train against each other.

    It goes up and down with what the other has learned, or with the advantage that is left, and a
    run that learns well may end above its best level.
    """
    words = set(_words(name)) - _PLAIN
    # A letter tells a network only where it stands alone: loss_D, train/g_loss.
    return any(len(word) > 1 or len(words) == 1 for word in words & _CONTESTED)


def opponent_of(names: Sequence[str]) -> str | None:
    """Return the discriminator's loss where one and a generator train against each other.

    The generator's loss rises in a healthy run, and the sum of the two says nothing.
    """
    told = {name: set(_words(name)) for name in names}
    if not any(words & _GENERATOR for words in told.values()):
        return None
    return next((name for name, words in told.items() if words & _DISCRIMINATOR), None)


def parts_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names if each is a part of one loss, else nothing.

    They are parts if one word tells each from the others, as in ``train/box_loss``,
    ``train/cls_loss``, and none of these words is a number or says how a loss was averaged.
    """
    told = [_words(name) for name in names]
    shared = set.intersection(*map(set, told)) if told else set()
    own = [[word for word in words if word not in shared] for words in told]
    if len(own) < 2 or any(len(words) != 1 for words in own):
        return ()
    words = [one for (one,) in own]
    if len(set(words)) < len(words) or any(word in _READINGS or word.isdigit() for word in words):
        return ()
    return tuple(names)


def _words(name: str) -> list[str]:
    return [word for word in normal(name).split("_") if word]
