"""The fitness of an evolution, which is minimized as often as maximized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.arrays import Floats
from stabdiag.model.roles.names import is_fitness, name_words
from stabdiag.model.text import word_list

_MEAN_WORDS = frozenset(word_list("mean avg average"))
_BEST_WORDS = frozenset(word_list("best top fittest elite champion winner"))
# The spread of a population, and its worst individual, do not show how far an evolution is.
_OTHER_WORDS = frozenset(word_list("std stdev stddev deviation var variance min worst lowest"))


def with_fitness(named: NamedColumns) -> NamedColumns | None:
    """Take a fitness, the mean one if there is one, as the reward or as the loss.

    Return None if the direction is unknown.
    """
    mean = next(_fitness_columns(named, _MEAN_WORDS), None)
    best = next(_fitness_columns(named, _BEST_WORDS), None)
    compared = _compared(named, mean, best) if mean and best and mean != best else None
    if compared is not None:
        return compared
    others = (name for name in _free(named) if _OTHER_WORDS.isdisjoint(name_words(name)))
    return _followed(named, mean or best or next(others, None))


def _compared(named: NamedColumns, mean: str, best: str) -> NamedColumns | None:
    """Take the mean fitness if the best one shows the direction.

    The best of a generation is never below the mean of what is maximized.
    """
    means, bests = (named.columns.load(name) for name in (mean, best))
    if means.is_text or bests.is_text:
        return None
    rows = means.present & bests.present & np.isfinite(means.values) & np.isfinite(bests.values)
    lead = bests.values[rows] - means.values[rows]
    if len(lead) < MIN_RECORDS or not lead.any() or (lead.min() < 0 < lead.max()):
        return None
    role, side = ("reward", "below") if lead.max() > 0 else ("loss", "above")
    note = f"took {mean!r} as the {role}: {best!r} is never {side} it"
    return named.take({**named.names, role: mean}, note)


def _followed(named: NamedColumns, name: str | None) -> NamedColumns | None:
    """Take a fitness whose course shows the direction: selection does not make it worse.

    Only an evolution that keeps its best individuals never goes back. A fitness that falls, but not
    always, is either minimized or lost.
    """
    column = None if name is None else named.columns.load(name)
    if column is None or column.is_text:
        return None
    x = column.values[column.present]
    if len(x) < MIN_RECORDS or not np.isfinite(x).all():
        return None
    if not _falls(x):
        note = f"took {name!r} as the reward: it does not fall"
        return named.take({**named.names, "reward": str(name)}, note)
    if (np.diff(x) > 0).any():
        return None
    note = f"took {name!r} as the loss: it never rises"
    return named.take({**named.names, "loss": str(name)}, note)


def _falls(x: Floats) -> bool:
    half = max(len(x) // 2, 1)
    return bool(np.median(x[-half:]) < x[:half].min())


def _fitness_columns(named: NamedColumns, words: frozenset[str]) -> Iterator[str]:
    return (name for name in _free(named) if not words.isdisjoint(name_words(name)))


def _free(named: NamedColumns) -> Iterator[str]:
    taken = {*named.names.values()}
    return (name for name in named.columns.names if is_fitness(name) and name not in taken)
