"""Assign columns to roles by name, by fallback, and by content.

Some tables contain several kinds of records, identified by one of their columns: measurements, or
splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from stabdiag.assemble.measurements import with_measurements
from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MAX_SHOWN_COLUMNS, MIN_RECORDS, shown_name
from stabdiag.assemble.renamed import continued_columns
from stabdiag.assemble.result_tables import refuse_results
from stabdiag.assemble.splits import split_columns
from stabdiag.errors import ColumnError
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import (
    LOSS_NAMES,
    Assignment,
    assign,
    can_judge_without_loss,
    may_serve,
)
from stabdiag.model.roles.fallbacks import (
    evaluation_measure,
    fallback_columns,
    training_measure,
)
from stabdiag.model.roles.loss_kinds import is_policy_loss
from stabdiag.model.roles.names import (
    is_auxiliary,
    last_word,
    name_words,
    normal,
)
from stabdiag.model.roles.scores import score_columns, score_direction
from stabdiag.model.text import and_more, listed, word_list
from stabdiag.readers.columns import Column, Columns

# Words in the names of measurements of the machine, and of parts of a log.
_MACHINE_WORDS = frozenset(
    word_list(
        "time speed elapsed eta sec ips throughput memory mem remaining samples pkl path file line"
        " run fold seed"
    )
)

# XGBoost and LightGBM name the set of a metric: train-auc, valid_0's auc.
_METRIC_OF_SET = lazy_pattern(
    r"((?:train(?:ing)?|eval|val(?:id(?:ation)?)?|test)(?:_\d)?)(?:-|'s )"
)

# The words of the best score of a split so far.
_SPLITS_OF_BESTS = frozenset(word_list("train val valid validation test dev"))
_OF_BESTS = _SPLITS_OF_BESTS | {"best", "max"}

# The words that a mean has and its sum lacks.
_MEANS = ({"avg"}, {"mean"}, {"average"})


def name_columns(columns: Columns, chosen: Mapping[str, str] | None) -> NamedColumns:
    """Find the column of each role.

    Raises:
        NoUsableRecord: if each record is the result of a separate run.
        ColumnError: if the log lacks a loss and other usable series, or a chosen column.
    """
    assignment = assign(columns.names, chosen, source=columns.source)
    named = _with_totals(columns, assignment)
    if "loss" not in (chosen or {}):
        refuse_results(columns, named.names)
        named = with_measurements(_with_a_loss(named))
        named = _with_sum(named, assignment.other_losses)
        named = _with_means(_with_better_loss(named, assignment.other_losses))
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
        own_total = _find_sum({name: columns.load(name) for name in names})
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
    columns, names = named.columns, named.names
    main = names.get("loss")
    if main is not None and "eval_loss" in names and _is_blank(columns.load(main)):
        # The HF Trainer evaluates before it logs: a short run has only evaluation losses.
        names = {role: name for role, name in names.items() if role != "loss"}
        main = None
    if main is not None and not all(map(is_auxiliary, main.split(" + "))):
        return _with_an_evaluation(named)
    if main is None and "eval_loss" in names:
        training = training_measure(columns.names)
        if training is not None and not columns.load(training.loss).is_text:
            return named.take({**names, "loss": training.loss}, training.note)
        others = {role: name for role, name in names.items() if role != "eval_loss"}
        note = f"no training loss was logged: {names['eval_loss']!r} is used instead"
        return named.take({**others, "loss": names["eval_loss"]}, note)
    for fallback in fallback_columns(
        columns.names, counted=not names.keys().isdisjoint(("step", "epoch"))
    ):
        column = columns.load(fallback.loss)
        if not column.is_text and column.present.any() and fallback.loss not in names.values():
            evaluation = {} if fallback.eval_loss is None else {"eval_loss": fallback.eval_loss}
            return named.take({**names, "loss": fallback.loss, **evaluation}, fallback.note)
    if main is not None:
        return named
    if can_judge_without_loss(names):
        return named.take(names, "no loss was logged: only checks without a loss can run")
    # A column whose meaning is unknown may be the loss. The log of episodes needs no loss, but a
    # column of it that fails is not ignored.
    unknown = [
        name
        for name in columns.names
        if not (
            may_serve(name)
            or _is_no_loss(name)
            or _is_margin(name, columns)
            or _is_hit_ratio(name, columns.names)
        )
    ]
    counters = [*columns.names, names.get("epoch", "")]
    of_episodes = any(last_word(name) in ("episode", "episodes") for name in counters)
    may_ignore = of_episodes or _are_of_sets(unknown, columns.names)
    if _has_scores(columns.names, names) and (
        not unknown or (may_ignore and all(_stays_finite(columns.load(name)) for name in unknown))
    ):
        return named.take(names, "no loss was logged: only the scores can be judged")
    if not columns.is_unknown and any(map(_is_fitness, columns.names)):
        columns = replace(columns, is_unknown=True)
        named = replace(named, columns=columns)
    if columns.is_unknown:
        free = [repr(name) for name in columns.names if name not in names.values()]
        note = (
            f"none of {listed(free)} is the known name of a loss" if free else "no loss was logged"
        )
        return named.take(names, f"{note}; --column loss=NAME selects one")
    shown = and_more([*map(shown_name, columns.names)], MAX_SHOWN_COLUMNS)
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{shown}); name it with --column loss=NAME, in Python with "
        'columns={"loss": NAME}'
    )


def _with_an_evaluation(named: NamedColumns) -> NamedColumns:
    """Find an evaluation loss that is named after its measure, next to a loss."""
    if "eval_loss" in named.names:
        return named
    name = evaluation_measure(named.columns.names)
    if name is None or name in named.names.values() or named.columns.load(name).is_text:
        return named
    return named.take(
        {**named.names, "eval_loss": name}, f"took {name!r} as the eval_loss, by its name"
    )


def _is_fitness(name: str) -> bool:
    """Return True for the fitness of an evolution, which is minimized as often as maximized."""
    return "fitness" in name_words(name)


def _is_no_loss(name: str) -> bool:
    """Return True if a column has times, memory, speeds or files, or the best score so far."""
    words = {*name_words(name)}
    # Paddle calls the times of a batch and of its data a cost.
    is_time = "cost" in words and not words.isdisjoint(("batch", "reader", "data"))
    # max_val and best_test, of the splits val and test
    is_best = (
        len(words & {"best", "max"}) == 1 and bool(words & _SPLITS_OF_BESTS) and words <= _OF_BESTS
    )
    return is_time or not _MACHINE_WORDS.isdisjoint(words) or name.lower() == "best" or is_best


def _are_of_sets(unknown: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if boosting prints unknown metrics of the same sets as a known score.

    These are ``train-auc`` and ``train-ams@0.15``, or ``valid_0's auc`` and ``valid_0's gain``.
    """
    sets = {match[1] for match in map(_METRIC_OF_SET.match, unknown) if match is not None}
    scores = (name for name in names if score_direction(name) is not None)
    known = {match[1] for match in map(_METRIC_OF_SET.match, scores) if match is not None}
    is_each = all(map(_METRIC_OF_SET.match, unknown))
    return is_each and sets <= known


def _stays_finite(column: Column) -> bool:
    """Return True if all values of a column are finite, or words."""
    return column.is_text or bool(np.isfinite(column.logged).all())


def _is_margin(name: str, columns: Columns) -> bool:
    """Return True if a column has no name and no values, as next to a table of Markdown."""
    return name.startswith("column_") and not columns.load(name).present.any()


def _is_hit_ratio(name: str, others: Sequence[str]) -> bool:
    """Return True for HR next to another score of rankings; alone, it may be an hour or a rate."""
    return normal(name) == "hr" and any(
        score in normal(other) for other in others for score in ("ndcg", "mrr")
    )


def _has_scores(columns: Sequence[str], names: Mapping[str, str]) -> bool:
    """Return True if a log has a counter or a clock, and a score whose better direction is known.

    A file with one score a record needs no counter, as the logger of Torch7 writes it. Several
    scores may be those of different models.
    """
    counters = {"step", "epoch", "clock"} & names.keys()
    accuracies = [names[role] for role in ("accuracy", "eval_accuracy") if role in names]
    scores = [*accuracies, *score_columns(columns, names.values()).values()]
    return bool(scores) and (bool(counters) or len(columns) == 1)


def _with_sum(named: NamedColumns, others: Sequence[str]) -> NamedColumns:
    """Replace a loss chosen by its name by another one that is the sum of it and of all others.

    SiamMask logs rpn_cls_loss, rpn_loc_loss and siamrpn_loss.
    """
    name = named.names.get("loss", "")
    if name not in named.columns.names or normal(name) in LOSS_NAMES:
        return named
    total = _find_sum({other: named.columns.load(other) for other in (name, *others)})
    if total is None or total == name:
        return named
    note = f"took {total!r} as the loss: it is the sum of {name!r} and the others"
    return named.take({**named.names, "loss": total}, note)


def _find_sum(losses: Mapping[str, Column]) -> str | None:
    """Return the loss that is the sum of all others, at least two, or None."""
    if len(losses) < MIN_RECORDS or any(loss.is_text for loss in losses.values()):
        return None
    return next(
        (
            name
            for name, total in losses.items()
            if _is_sum(total, [loss for other, loss in losses.items() if other != name])
        ),
        None,
    )


def _is_sum(total: Column, parts: Sequence[Column]) -> bool:
    """Return True if each value of a column is the sum of the others, apart from rounding."""
    rows = np.flatnonzero(total.present & np.isfinite(total.values))
    if len(rows) < 2 or not all(part.present[rows].all() for part in parts):
        return False
    rounding = np.finfo(np.float16).eps
    # Most columns differ in their first values.
    for some in (rows[:2], rows):
        values = np.array([part.values[some] for part in parts])
        if not np.allclose(values.sum(axis=0), total.values[some], rtol=rounding, atol=0):
            return False
    return bool((values > 0).any(axis=1).all())


def _with_better_loss(named: NamedColumns, others: Sequence[str]) -> NamedColumns:
    """Replace the loss chosen by name if it is always 0, or if another one went NaN.

    A generator's loss may go NaN while the discriminator's continues. A loss that is occasionally
    undefined, or undefined from the start, does not count.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or not others:
        return named
    name = names["loss"]
    chosen = columns.load(name)
    if _is_all_zero(chosen):
        min_count = int(chosen.present.sum()) / 2
        candidates = (
            other
            for other in others
            # The loss of a policy is 0 before its second update on the same data.
            if not (is_policy_loss(name) and is_policy_loss(other))
            and _has_values(columns.load(other), min_count)
        )
        reason = f"{name!r} has no value other than 0"
    elif np.isfinite(chosen.logged).all():
        is_short = len(chosen.logged) < MIN_RECORDS
        counted = columns.load(names["step"]).present if "step" in names else np.True_
        losses = ((other, columns.load(other)) for other in others)
        candidates = (
            other
            for other, loss in losses
            if _is_lost(loss, of_few=is_short) and (loss.present & counted).any()
        )
        reason = f"it went NaN and {name!r} did not"
    else:  # an average of this loss may stay NaN for longer
        return named
    replacement = next(candidates, None)
    if replacement is None:
        return named
    note = f"took {replacement!r} as the loss: {reason}"
    return named.take({**names, "loss": replacement}, note)


def _with_means(named: NamedColumns) -> NamedColumns:
    """Replace a loss that is the sum of a fixed number of losses by its mean, if both are logged.

    FederatedScope logs train_loss and train_avg_loss.
    """
    for role in sorted({"loss", "eval_loss"} & named.names.keys()):
        name = named.names[role]
        total = named.columns.load(name)
        for other in named.columns.names:
            if {*name_words(other)} - {*name_words(name)} not in _MEANS:
                continue
            if _is_multiple(total, named.columns.load(other)):
                note = f"took {other!r} as the {role}: {name!r} is a multiple of it"
                named = named.take({**named.names, role: other}, note)
                break
    return named


def _is_multiple(total: Column, mean: Column) -> bool:
    """Return True if each value of a column is that of another one, times the same count."""
    if total.is_text or mean.is_text or not np.array_equal(total.present, mean.present):
        return False
    sums, means = total.logged, mean.logged
    if len(sums) < 2 or not (np.isfinite(sums).all() and (means > 0).all()):
        return False
    ratios = sums / means
    return bool(ratios.min() >= 2 and np.ptp(ratios) < 1)


def _is_all_zero(loss: Column) -> bool:
    return not loss.is_text and not loss.logged.any()


def _has_values(loss: Column, min_count: float) -> bool:
    """Return True if a loss has values other than 0, and at least this many values."""
    return not loss.is_text and not _is_all_zero(loss) and int(loss.present.sum()) >= min_count


def _is_lost(loss: Column, *, of_few: bool) -> bool:
    """Return True if a loss was finite, went NaN or infinite once, and never recovered.

    In a log ``of_few`` records, the last value decides.
    """
    finite = np.isfinite(loss.logged)
    if of_few:
        return len(finite) > 0 and not finite[-1]
    last = int(np.count_nonzero(finite))
    return last >= MIN_RECORDS and len(finite) - last >= MIN_RECORDS and bool(finite[:last].all())
