"""Tables with the columns of several runs, or of splits, that are named after the file.

A chart that W&B exports names the run and the measure: ``oak-1 - train/loss``. In tables made by
hand, columns may be named after the runs only, if the file or the first cell names the measure::

    epoch,seed 1,seed 2         perplexity;dropout 0.2;dropout 0.4
    0,2.31,2.29                 Epoch 1;629.5;621.8

Columns that are named train and val are scores in a file that is named after a score. Next to a
counter, in JSON, or if the first one falls, columns of any name are runs in a file that is named
after a loss or a score. Names of terms, such as ``bbox``, are of its terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.counter_names import counter_unit
from stabdiag.model.roles.fallbacks import fallback_columns
from stabdiag.model.roles.names import (
    exported_run,
    is_a_loss,
    is_evaluation,
    is_fitness,
    name_words,
    without_run,
)
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.roles.settings import column_setting
from stabdiag.model.text import word_list
from stabdiag.readers.columns import INDEX, Column, Columns, StoredRun
from stabdiag.readers.unnamed import (
    FEWEST,
    find_loss,
    is_course,
    is_named_loss,
    is_named_score,
    is_of_a_machine,
    may_be_losses,
    name_of_values,
)

# Words of repeated runs, of settings and of optimizers, which tell runs apart.
_REPEATED_RUNS: Final = frozenset(
    word_list("run seed trial fold exp experiment attempt try repeat")
)
_VARIED_SETTINGS: Final = frozenset(
    word_list(
        "dropout lr learning gamma alpha beta lambda eps epsilon tau temperature batch bs hidden "
        "layers depth width units neurons momentum wd decay sigma rank"
    )
)
_NAMES_OF_OPTIMIZERS: Final = frozenset(
    word_list("sgd adam adamw adagrad adadelta rmsprop nadam radam adamax lion lbfgs muon nesterov")
)
# A column named after its split only.
_SPLIT_ALONE: Final = lazy_pattern(r"(?i)train(?:ing)?|val(?:id(?:ation)?)?|dev|eval|test(?:ing)?")
# Words of the terms of a loss, and of the networks that each have one.
_TERMS: Final = frozenset(
    word_list(
        "box bbox boxes cls class classification obj objectness dfl loc mask rpn g d gen disc "
        "generator discriminator critic actor policy value q kl kld recon reconstruction rec adv "
        "gan reg regularization style content perceptual commitment vq data pde ic bc ce bce mse "
        "l1 l2 aux auxiliary smooth cycle identity alignment contrastive distill"
    )
)
# Words of the parts of a measure, of its best value so far and of its extremes: not runs.
_SHARES: Final = frozenset(
    word_list(
        "class classes label labels layer layers task category best min max median std var "
        "variance stdev deviation count"
    )
)
_MAX_RUN_COLUMNS: Final = 12
_WORDS_OF_ACCURACIES: Final = frozenset(word_list("acc accs accuracy accuracies"))
_NUMBER_OF_RUN: Final = lazy_pattern(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def with_measure(columns: Columns) -> Columns:
    """Return columns that name only runs or splits with the measure of the file in their names."""
    first, *others = columns.names or ("",)
    splits = [name for name in columns.names if _SPLIT_ALONE.fullmatch(name.strip())]
    if splits and is_named_score(columns.source):
        return _with_split_scores(columns, splits)
    if not _are_runs(others) or any(map(_names_measure, others)):
        return _with_measure_of_file(columns)
    if _names_measure(first):
        measure, kept = first.strip(), []
    elif {"step", "epoch"}.isdisjoint(assign([first]).columns) or not (
        is_named_loss(columns.source) or is_named_score(columns.source)
    ):
        return columns
    else:
        measure, kept = name_of_values(columns.source), [first]
    own = {f"{name} - {measure}": name for name in others}
    return replace(
        columns, names=(*kept, *own), load=lambda name: columns.load(own.get(name, name))
    )


def _with_measure_of_file(columns: Columns) -> Columns:
    """Return columns of unknown names with the measure of the file, as runs or terms of a loss."""
    # Nearly all logs have a loss, which is found first.
    if columns.unnamed or any(map(_is_loss, columns.names)):
        return columns
    is_loss = is_named_loss(columns.source)
    if not (is_loss or is_named_score(columns.source)):
        return columns
    if any(_is_measure(name) or is_fitness(name) for name in columns.names):
        return columns
    counters = [name for name in columns.names if _is_counter(name)]
    if any(fallback_columns(columns.names, counted=bool(counters))):
        return columns
    values = {
        name: columns.load(name).logged.tolist()
        for name in columns.names
        if name not in counters and _may_name_run(name, is_loss=is_loss)
    }
    names = [name for name, own in values.items() if len(own) >= FEWEST and may_be_losses(own)]
    if not 0 < len(names) <= _MAX_RUN_COLUMNS:
        return columns
    first = values[names[0]]
    # Lists of JSON are the history of a run more often than the columns of a table.
    is_history = bool(counters) or (is_loss and columns.format == "json")
    if not (is_history or (find_loss([first]) is not None if is_loss else is_course(first))):
        return columns
    are_terms = is_loss and any(not _TERMS.isdisjoint(name_words(name)) for name in names)
    measure = _measure_of_file(columns.source, is_loss=is_loss)
    own = {
        (f"{name}_loss" if are_terms else f"{name} - {measure}") if name in names else name: name
        for name in columns.names
    }
    return replace(columns, names=tuple(own), load=lambda name: columns.load(own.get(name, name)))


def _measure_of_file(source: str, *, is_loss: bool) -> str:
    """Return the name of the loss or the score that a file is named after."""
    name = name_of_values(source)
    if not is_loss:
        return name
    return "val_loss" if is_evaluation(name) else "loss"


def _is_counter(name: str) -> bool:
    is_known = name == INDEX or counter_unit(name) != ""
    return is_known or not {"step", "epoch"}.isdisjoint(assign([name]).columns)


def _may_name_run(name: str, *, is_loss: bool) -> bool:
    """Return True if a name says nothing about its values, or names a term of a loss."""
    if "=" in name:
        return True
    is_known = bool(assign([name]).columns) or column_setting(name) is not None
    is_known |= is_of_a_machine(name)
    others = _SHARES if is_loss else _SHARES | _TERMS
    return not (is_known or name.strip().isdigit()) and others.isdisjoint(name_words(name))


def _with_split_scores(columns: Columns, splits: Sequence[str]) -> Columns:
    """Return columns whose splits are named with the score of the file if all others are steps."""
    others = [name for name in columns.names if name not in splits]
    if len(others) > 2 or not {*assign(others).columns} <= {"step", "epoch"}:
        return columns
    score = name_of_values(columns.source)
    measure = score if _WORDS_OF_ACCURACIES.isdisjoint(name_words(score)) else "accuracy"
    own = {f"{name.strip()}_{measure}": name for name in splits}
    names = (*others, *own)
    return replace(columns, names=names, load=lambda name: columns.load(own.get(name, name)))


def _are_runs(names: Sequence[str]) -> bool:
    """Return True for names of runs: optimizers, or a word of a run or a setting with numbers."""
    if len(names) < 2 or not (first := _words_of_run(names[0])):
        return False
    if all(not _NAMES_OF_OPTIMIZERS.isdisjoint(_words_of_run(name)) for name in names):
        return True
    if first.isdisjoint(_REPEATED_RUNS | _VARIED_SETTINGS):
        return False
    return all(_words_of_run(name) == first and _NUMBER_OF_RUN.search(name) for name in names)


def _words_of_run(name: str) -> set[str]:
    return {*name_words(_NUMBER_OF_RUN.sub(" ", name.lower()))}


def _names_measure(name: str) -> bool:
    return _is_loss(name) or score_direction(name.strip()) is not None


def with_runs(columns: Columns, run_id: str | None) -> Columns:
    """Return the columns of one run of the table, or all columns with the names of the runs.

    Rows count only if the run, by default the first one, has a value there: in the others only
    another run logged something.
    """
    if not any(" - " in name for name in columns.names):
        return columns
    names_by_run: dict[str, list[str]] = {}
    for name in columns.names:
        names_by_run.setdefault(exported_run(name), []).append(name)
    runs = [run for run, names in names_by_run.items() if run and any(map(_is_measure, names))]
    if len(runs) < 2:
        return columns
    if run_id is None:
        stored = tuple(StoredRun(id=run, name=run) for run in runs)
        return replace(_select_run(columns, names_by_run, runs[0]), stored=stored)
    columns = _select_run(columns, names_by_run, run_id)
    own = [name for name in columns.names if exported_run(name) in ("", run_id)]
    return replace(columns, names=tuple(own))


def _is_loss(name: str) -> bool:
    own = without_run(name)
    return is_a_loss(own) or (is_evaluation(own) and "loss" in own.lower())


def _is_measure(name: str) -> bool:
    own = without_run(name)
    return _is_loss(name) or score_direction(own) is not None or assign([own]).has("reward")


def _select_run(columns: Columns, names_by_run: Mapping[str, Sequence[str]], run: str) -> Columns:
    """Return columns without the empty rows of a run."""
    logged = np.zeros(columns.rows, dtype=np.bool_)
    for name in names_by_run.get(run, ()):
        logged |= columns.load(name).present

    def keep_logged(name: str, column: Column) -> Column:
        if exported_run(name) not in ("", run):
            return column
        return replace(column, present=column.present & logged, null=column.null & logged)

    return columns.with_changed(keep_logged)
