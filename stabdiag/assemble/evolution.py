"""The fitness of an evolution, which is minimized as often as maximized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import word_list

_MEAN_WORDS = frozenset(word_list("mean avg average"))
_BEST_WORDS = frozenset(word_list("best top fittest elite champion winner"))


def is_fitness(name: str) -> bool:
    """Return True for the fitness of an evolution."""
    return "fitness" in name_words(name)


def with_fitness(named: NamedColumns) -> NamedColumns | None:
    """Take the mean fitness as the reward or as the loss if the best one shows the direction.

    The best of a generation is never below the mean of what is maximized.
    """
    mean = next(_fitness_with(named, _MEAN_WORDS), None)
    best = next(_fitness_with(named, _BEST_WORDS), None)
    if mean is None or best is None or mean == best:
        return None
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


def _fitness_with(named: NamedColumns, words: frozenset[str]) -> Iterator[str]:
    free = (name for name in named.columns.names if name not in named.names.values())
    return (name for name in free if is_fitness(name) and not words.isdisjoint(name_words(name)))
