"""The fitness of an evolution, which is minimized as often as maximized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.arrays import Floats
from stabdiag.model.roles.names import is_fitness, is_objective, name_words, normal
from stabdiag.model.text import word_list
from stabdiag.readers.columns import Column

_MEAN_WORDS = frozenset(word_list("mean avg average"))
_BEST_WORDS = frozenset(word_list("best top fittest elite champion winner"))
# The spread of a population, and its worst individual, do not show how far an evolution is.
_OTHER_WORDS = frozenset(word_list("std stdev stddev deviation var variance min worst lowest"))
_HIGHEST_WORDS = frozenset({"max"})
_LOWEST_WORDS = frozenset({"min"})
# Columns with these words alone are of the fitness in a table with a column of generations.
_STATISTICS = _MEAN_WORDS | _HIGHEST_WORDS | _LOWEST_WORDS
_GENERATIONS = frozenset(word_list("gen gens generation generations"))


def with_fitness(named: NamedColumns) -> NamedColumns | None:
    """Take a fitness, the mean one if there is one, as the reward or as the loss.

    Return None if the direction is unknown.
    """
    named = _with_generations(named)
    mean = next(_fitness_columns(named, _MEAN_WORDS), None)
    best = next(_fitness_columns(named, _BEST_WORDS), None)
    compared = _compared(named, mean, best) if mean and best and mean != best else None
    compared = compared or (_kept_best(named, mean) if mean else None)
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


def _kept_best(named: NamedColumns, mean: str) -> NamedColumns | None:
    """Take the mean fitness if the highest one never falls, or the lowest one never rises.

    Only the best individuals of an evolution are kept, and the other extreme goes back.
    """
    highest = next(_fitness_columns(named, _HIGHEST_WORDS), None)
    lowest = next(_fitness_columns(named, _LOWEST_WORDS), None)
    if highest is None or lowest is None:
        return None
    columns = [named.columns.load(name) for name in (highest, lowest)]
    if any(column.is_text for column in columns):
        return None
    extremes = [_of_last_run(named, column) for column in columns]
    if not all(np.isfinite(x).all() for x in extremes):
        return None
    rises, falls = (np.diff(sign * x) for sign, x in zip((1, -1), extremes, strict=True))
    is_kept = [len(x) >= MIN_RECORDS and x.any() and bool((x >= 0).all()) for x in (rises, falls)]
    if is_kept[0] == is_kept[1]:
        return None
    role, kept, never = ("reward", highest, "falls") if is_kept[0] else ("loss", lowest, "rises")
    note = f"took {mean!r} as the {role}: {kept!r} never {never}"
    return named.take({**named.names, role: mean}, note)


def _followed(named: NamedColumns, name: str | None) -> NamedColumns | None:
    """Take a fitness whose course shows the direction: selection does not make it worse.

    Only an evolution that keeps its best individuals never goes back. A fitness that falls, but not
    always, is either minimized or lost.
    """
    column = None if name is None else named.columns.load(name)
    if column is None or column.is_text:
        return None
    x = _of_last_run(named, column)
    if len(x) and np.isfinite(x[0]) and not np.isfinite(x[-1]):
        x = x[np.isfinite(x)]  # the direction of what is lost
    if len(x) < MIN_RECORDS or not np.isfinite(x).all():
        return None
    rises, falls = (np.diff(x) > 0).any(), (np.diff(x) < 0).any()
    if falls and not rises:
        note = f"took {name!r} as the loss: it never rises"
        return named.take({**named.names, "loss": str(name)}, note)
    # An unknown value that never changes may be a setting.
    if _falls(x) or not (rises or falls or is_fitness(str(name))):
        return None
    note = f"took {name!r} as the reward: it does not fall"
    return named.take({**named.names, "reward": str(name)}, note)


def _of_last_run(named: NamedColumns, column: Column) -> Floats:
    """Return the values of a column since the generations of a log last began again."""
    name = named.names.get("epoch")
    counts = named.columns.load(name).values if name else np.empty(0)
    begins = np.flatnonzero(np.diff(counts) < 0) + 1
    begin = int(begins[-1]) if len(begins) else 0
    values: Floats = column.values[begin:][column.present[begin:]]
    return values


def _falls(x: Floats) -> bool:
    half = max(len(x) // 2, 1)
    return bool(np.median(x[-half:]) < x[:half].min())


def _varies(named: NamedColumns, name: str) -> bool:
    column = named.columns.load(name)
    return not column.is_text and len({*column.logged.tolist()}) > 1


def _fitness_columns(named: NamedColumns, words: frozenset[str]) -> Iterator[str]:
    return (name for name in _free(named) if not words.isdisjoint(name_words(name)))


def _free(named: NamedColumns) -> Iterator[str]:
    taken = {*named.names.values()}
    of_generations = normal(named.names.get("epoch", "")) in _GENERATIONS
    is_counted = not {"step", "epoch"}.isdisjoint(named.names)
    return (
        name
        for name in named.columns.names
        if name not in taken
        and (
            is_fitness(name)
            # Best: [0.5 1.5] is the individual, not its fitness.
            or (is_counted and is_objective(name) and _varies(named, name))
            or (of_generations and _STATISTICS.issuperset(name_words(name)))
        )
    )


def _counts(values: Floats) -> bool:
    """Return True if values rise, or begin again with the first one in another run."""
    moves = np.diff(values)
    return bool(((moves > 0) | ((moves < 0) & (values[1:] == values[0]))).all())


def _with_generations(named: NamedColumns) -> NamedColumns:
    """Take a column of generations that rises as the epoch; in other logs ``gen`` may be a network.

    A table of statistics needs the mean of each generation.
    """
    if not {"step", "epoch"}.isdisjoint(named.names):
        return named
    for name in named.columns.names:
        if normal(name) in _GENERATIONS:
            counts = named.columns.load(name)
            if not counts.is_text and counts.present.all() and _counts(counts.values):
                return named.take({**named.names, "epoch": name})
    return named
