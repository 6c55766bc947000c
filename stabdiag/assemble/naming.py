"""Assign columns to roles by name, by fallback, and by content.

Some tables contain several kinds of records, identified by one of their columns: measurements, or
splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from stabdiag.assemble.evolution import with_fitness
from stabdiag.assemble.loss_replacement import find_sum, with_better_loss, with_means, with_sum
from stabdiag.assemble.measurements import with_measurements
from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MAX_SHOWN_COLUMNS, shown_name
from stabdiag.assemble.renamed import continued_columns
from stabdiag.assemble.result_tables import refuse_results
from stabdiag.assemble.splits import split_columns
from stabdiag.assemble.without_loss import can_judge_scores, score_of_games, stays_finite
from stabdiag.errors import ColumnError
from stabdiag.model.roles.choice import Assignment, assign, can_judge_without_loss
from stabdiag.model.roles.fallbacks import (
    FallbackColumn,
    evaluation_measure,
    fallback_columns,
    names_training,
    training_measure,
)
from stabdiag.model.roles.names import (
    EPISODES_OR_GAMES,
    is_auxiliary,
    is_evaluation,
    is_fitness,
    name_words,
    normal,
    without_evaluation,
)
from stabdiag.model.text import and_more, listed, word_list
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.unnamed import (
    FEWEST,
    is_named_loss,
    may_be_evaluated,
    may_be_scores,
    may_overfit,
)

# Words of the length of an episode.
_WORDS_OF_LENGTHS = frozenset(word_list("steps length lengths len duration timesteps moves"))


def name_columns(columns: Columns, chosen: Mapping[str, str] | None) -> NamedColumns:
    """Find the column of each role.

    Raises:
        NoUsableRecord: if each record is the result of a separate run.
        ColumnError: if the log lacks a loss and other usable series, or a chosen column.
    """
    assignment = assign(columns.names, chosen, source=columns.source, counter=columns.counter)
    named = _with_totals(columns, assignment)
    if "loss" not in (chosen or {}):
        refuse_results(columns, named.names)
        named = with_measurements(_with_a_loss(named))
        named = with_sum(named, assignment.other_losses)
        named = with_means(with_better_loss(named, assignment.other_losses))
    if not chosen:
        made, notes = continued_columns(named.columns, named.names)
        named = named.adding(made).take(named.names, *notes)
    splits = split_columns(named.columns, named.names)
    return named if splits is None else named.adding(splits.made).take(splits.names, *splits.notes)


def _with_totals(columns: Columns, assignment: Assignment) -> NamedColumns:
    """Add the missing totals of losses that are logged in parts.

    Parts that never occur in the same record are losses of different datasets; the first is used.
    """
    _refuse_words(columns, assignment.parts.get("loss", ()))
    roles = dict(assignment.columns)
    totals: dict[str, Column] = {}
    notes = list(assignment.notes)
    for role, names in assignment.parts.items():
        own_total = find_sum({name: columns.load(name) for name in names})
        if own_total is not None:
            roles[role] = own_total
            notes.append(f"took {own_total!r} as the {role}: it is the sum of the others")
            continue
        total = reduce(_sum, map(columns.load, names))
        parts = listed(names)
        if total.present.any():
            roles[role] = " + ".join(names)
            totals[roles[role]] = total
            notes.append(f"no total is logged: the sum of {parts} is used as the {role}")
        else:
            notes.append(f"took {names[0]!r} as the {role}: no record has all of {parts}")
    return NamedColumns(columns=columns, names=roles, notes=tuple(notes)).adding(totals)


def _refuse_words(columns: Columns, parts: Sequence[str]) -> None:
    """Raise an error if some parts of the loss are numbers and others are not."""
    words = [name for name in parts if columns.load(name).is_text]
    if words and len(words) < len(parts):
        shown = [*map(shown_name, parts[:MAX_SHOWN_COLUMNS])]
        raise ColumnError(
            f"{columns.source}: {shown_name(words[0])!r} contains words, not numbers: the sum of"
            f" {listed(shown)} cannot be used as the loss; name one with --column loss=NAME"
        )


def _sum(first: Column, second: Column) -> Column:
    """Return the sum where both columns have values."""
    present = first.present & second.present
    return Column(
        values=first.values + second.values,
        present=present,
        null=(first.null | second.null) & ~present,
        is_text=first.is_text or second.is_text,
        stray_rows=np.union1d(first.stray_rows, second.stray_rows),
    )


def _is_blank(column: Column) -> bool:
    """Return True if a column has no value and no null, which may be a NaN."""
    return not (column.present.any() or column.null.any() or column.is_text)


def _with_a_loss(named: NamedColumns) -> NamedColumns:
    """Find a replacement for a missing loss.

    It is the evaluation loss, or a column whose name describes a loss. Without either, a log with a
    loss scale, norms or activation maxima is still useful.
    """
    names = named.names
    main = names.get("loss")
    if main is not None and "eval_loss" in names and _is_blank(named.columns.load(main)):
        # The HF Trainer evaluates before it logs: a short run has only evaluation losses.
        names = {role: name for role, name in names.items() if role != "loss"}
        named, main = named.take(names), None
    if main is not None and named.columns.unnamed and _may_overfit(named, main):
        return _with_unknown_loss(named)
    if main is not None and not all(map(is_auxiliary, main.split(" + "))):
        return _with_an_evaluation(named)
    if main is None and "eval_loss" in names:
        return _with_evaluation_as_loss(named)
    fallback = _with_fallback(named)
    if fallback is not None:
        return fallback
    return _without_loss(named) if main is None else named


def _may_overfit(named: NamedColumns, loss: str) -> bool:
    """Return True if a column without a name may be an evaluation loss that rises in the end."""
    columns, names = named.columns, {*named.names.values()}
    loaded = [columns.load(name) for name in columns.names if name not in names]
    values = [column.logged.tolist() for column in loaded if not column.is_text]
    losses = columns.load(loss).logged
    # A loss that is lost says enough.
    is_complete = len(losses) >= FEWEST and bool(np.isfinite(losses).all())
    return is_complete and may_overfit(losses.tolist(), [own for own in values if own])


def _with_unknown_loss(named: NamedColumns) -> NamedColumns:
    """Leave the loss out, as another column without a name may show that the run failed."""
    names = {role: name for role, name in named.names.items() if role != "loss"}
    columns = replace(named.columns, is_unknown=True)
    return _without_loss(replace(named, columns=columns).take(names))


def _with_evaluation_as_loss(named: NamedColumns) -> NamedColumns:
    """Take the measure of the training next to an evaluation loss, or the latter, as the loss."""
    names = named.names
    training = training_measure(named.columns.names)
    if training is not None and not named.columns.load(training.loss).is_text:
        return named.take({**names, "loss": training.loss}, training.note)
    others = {role: name for role, name in names.items() if role != "eval_loss"}
    note = f"no training loss was logged: {names['eval_loss']!r} is used instead"
    return named.take({**others, "loss": names["eval_loss"]}, note)


def _with_fallback(named: NamedColumns) -> NamedColumns | None:
    """Take a column whose name describes a loss as the loss, or return None."""
    columns, names = named.columns, named.names
    is_counted = not names.keys().isdisjoint(("step", "epoch"))
    for fallback in fallback_columns(columns.names, counted=is_counted):
        column = columns.load(fallback.loss)
        if not column.is_text and column.present.any() and fallback.loss not in names.values():
            may_be_scored = names_training(fallback.loss) and not is_named_loss(columns.source)
            if may_be_scored and _may_be_accuracies(column):
                return _with_scores_of_splits(named, fallback)
            evaluation = {} if fallback.eval_loss is None else {"eval_loss": fallback.eval_loss}
            return named.take({**names, "loss": fallback.loss, **evaluation}, fallback.note)
    return None


def _may_be_accuracies(column: Column) -> bool:
    """Return True if all values of a column are fractions, which rise from the start."""
    values = column.logged.tolist()
    return min(values) >= 0 and max(values) <= 1 and may_be_scores(values)


def _with_scores_of_splits(named: NamedColumns, splits: FallbackColumn) -> NamedColumns:
    """Name columns that are named after a split only as its scores."""
    names = filter(None, (splits.loss, splits.eval_loss))
    made = {f"{name}_score": named.columns.load(name) for name in names}
    return _without_loss(named.adding(made))


def _without_loss(named: NamedColumns) -> NamedColumns:
    """Name the other columns of a log without a loss, if they can be judged.

    Raises:
        ColumnError: if the loss may be among columns of unknown meaning.
    """
    columns, names = named.columns, named.names
    if can_judge_without_loss(names):
        return named.take(names, "no loss was logged: only checks without a loss can run")
    if can_judge_scores(columns, names):
        return named.take(names, "no loss was logged: only the scores can be judged")
    game = score_of_games(columns, names)
    if game is not None:
        note = f"took {game!r} as the reward, by its name: only checks without a loss can run"
        return named.take({**names, "reward": game}, note)
    evolved = with_fitness(named)
    if evolved is not None and (
        any(map(is_fitness, columns.names)) or _others_stay_finite(evolved)
    ):
        # No other column is the loss.
        return replace(evolved, columns=replace(evolved.columns, is_unknown=False))
    if not columns.is_unknown and any(map(is_fitness, columns.names)):
        columns = replace(columns, is_unknown=True)
        named = replace(named, columns=columns)
    if columns.is_unknown:
        free = [repr(name) for name in columns.names if name not in names.values()]
        note = (
            f"none of {listed(free)} is the known name of a loss" if free else "no loss was logged"
        )
        return named.take(names, f"{note}; --column loss=NAME selects one")
    length = _find_length_of_episodes(columns.names)
    if length is not None:
        raise ColumnError(
            f"{columns.source}: {shown_name(length)!r} seems to be the length of each episode, and"
            f" it has no reward or loss; if longer episodes are better, --column reward=NAME"
            ' makes it the reward, in Python columns={"reward": NAME}'
        )
    shown = and_more([*map(shown_name, columns.names)], MAX_SHOWN_COLUMNS)
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{shown}); name it with --column loss=NAME, in Python with "
        'columns={"loss": NAME}'
    )


def _find_length_of_episodes(names: Sequence[str]) -> str | None:
    """Return the only column next to a count of episodes if it has their lengths, else None."""
    others = [name for name in names if normal(name) not in EPISODES_OR_GAMES]
    if len(names) != 2 or len(others) != 1 or _WORDS_OF_LENGTHS.isdisjoint(name_words(others[0])):
        return None
    return others[0]


def _others_stay_finite(named: NamedColumns) -> bool:
    """Return True if all columns without a role are finite."""
    others = (name for name in named.columns.names if name not in named.names.values())
    return all(map(stays_finite, map(named.columns.load, others)))


def _with_an_evaluation(named: NamedColumns) -> NamedColumns:
    """Find an evaluation loss that is named after its measure, next to a loss."""
    if "eval_loss" in named.names:
        return named
    name = evaluation_measure(named.columns.names) or _evaluated_loss(named)
    if name is None or name in named.names.values() or named.columns.load(name).is_text:
        return named
    return named.take(
        {**named.names, "eval_loss": name}, f"took {name!r} as the eval_loss, by its name"
    )


def _evaluated_loss(named: NamedColumns) -> str | None:
    """Return a column named only after a split, whose values are at the level of the loss.

    They may be scores if the log also has a column for the training, or if they rise.
    """
    columns = named.columns
    if any(map(names_training, columns.names)):
        return None
    loss = columns.load(named.names["loss"])
    splits = (
        name for name in columns.names if is_evaluation(name) and not without_evaluation(name)
    )
    return next((name for name in splits if _may_evaluate(columns.load(name), loss)), None)


def _may_evaluate(column: Column, loss: Column) -> bool:
    """Return True if a column may have the evaluation losses next to a loss."""
    if column.is_text or loss.is_text:
        return False
    values, losses = (
        logged[np.isfinite(logged)].tolist() for logged in (column.logged, loss.logged)
    )
    has_values = min(len(values), len(losses)) >= FEWEST
    return has_values and may_be_evaluated(values, losses)
