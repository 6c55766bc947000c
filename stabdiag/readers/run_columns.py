"""Tables with the columns of several runs, or of splits, that are named after the file.

A chart that W&B exports names the run and the measure: ``oak-1 - train/loss``. In tables made by
hand, columns may be named after the runs only, if the file or the first cell names the measure::

    epoch,seed 1,seed 2         perplexity;dropout 0.2;dropout 0.4
    0,2.31,2.29                 Epoch 1;629.5;621.8

Columns that are named train and val are scores in a file that is named after a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import (
    exported_run,
    is_a_loss,
    is_evaluation,
    name_words,
    without_run,
)
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import word_list
from stabdiag.readers.columns import Column, Columns, StoredRun
from stabdiag.readers.unnamed import is_named_loss, is_named_score, name_of_values

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
_WORDS_OF_ACCURACIES: Final = frozenset(word_list("acc accs accuracy accuracies"))
_NUMBER_OF_RUN: Final = lazy_pattern(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def with_measure(columns: Columns) -> Columns:
    """Return columns that name only runs or splits with the measure of the file in their names."""
    first, *others = columns.names or ("",)
    splits = [name for name in columns.names if _SPLIT_ALONE.fullmatch(name.strip())]
    if splits and is_named_score(columns.source):
        return _with_split_scores(columns, splits)
    if not _are_runs(others) or any(map(_names_measure, others)):
        return columns
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
    words = [{*name_words(_NUMBER_OF_RUN.sub(" ", name.lower()))} for name in names]
    if len(names) < 2 or not words[0]:
        return False
    if all(not own.isdisjoint(_NAMES_OF_OPTIMIZERS) for own in words):
        return True
    are_alike = all(own == words[0] for own in words) and all(map(_NUMBER_OF_RUN.search, names))
    return are_alike and not words[0].isdisjoint(_REPEATED_RUNS | _VARIED_SETTINGS)


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
