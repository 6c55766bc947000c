"""May a log without a loss be judged by its scores?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stabdiag.assemble.steps import unusual_counters
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import may_serve
from stabdiag.model.roles.counter_names import counter_unit
from stabdiag.model.roles.names import (
    EPISODES_OR_GAMES,
    is_a_reward,
    is_evaluation,
    last_word,
    name_words,
    normal,
)
from stabdiag.model.roles.scores import (
    is_short_score,
    is_training_score,
    score_columns,
    score_direction,
)
from stabdiag.model.text import word_list
from stabdiag.readers.columns import INDEX, Column, Columns
from stabdiag.readers.unnamed import MIN_SMOOTH, is_course

# Words in the names of measurements of the machine, and of parts of a log.
_MACHINE_WORDS = frozenset(
    word_list(
        "time speed elapsed eta sec ips throughput memory mem remaining samples pkl path file line"
        " run fold seed"
    )
)

# Words of counts of games, and of the exploration of a policy.
_OF_GAMES = frozenset(
    word_list(
        "win wins won loss losses lost draw draws tie ties game games played count num n total "
        "epsilon eps exploration rate"
    )
)

# XGBoost and LightGBM name the set of a metric: train-auc, valid_0's auc.
_METRIC_OF_SET = lazy_pattern(
    r"((?:train(?:ing)?|eval|val(?:id(?:ation)?)?|test)(?:_\d)?)(?:-|'s )"
)

# The words of the best score of a split so far.
_SPLITS_OF_BESTS = frozenset(word_list("train val valid validation test dev"))
_OF_BESTS = _SPLITS_OF_BESTS | {"best", "max"}

_WORDS_OF_SPLITS = frozenset(
    word_list("train training trn tr eval evaluation val valid validation test testing te dev")
)

# The reader of a text checks that its lines are records of one run.
_TEXT_FORMAT = "text"


def can_judge_scores(columns: Columns, names: Mapping[str, str]) -> bool:
    """Return True if a log has scores of one run, and no column that may be its loss."""
    if _is_of_folds(columns):
        return False
    return _has_scores(columns, names) and _may_lack_a_loss(columns, names)


def _is_of_folds(columns: Columns) -> bool:
    """Return True for a table of scikit-learn with the times of each fold."""
    return any(normal(name).endswith("fit_time") for name in columns.names)


def score_of_games(columns: Columns, names: Mapping[str, str]) -> str | None:
    """Return the column of the only score of a table, whose name says nothing else, or None.

    Next to it are a counter or an index at most: a table of players names them.
    """
    scores = [name for name in columns.names if is_a_reward(name, of_episodes=True)]
    if len(scores) != 1 or columns.load(scores[0]).is_text or _is_of_folds(columns):
        return None
    others = [name for name in columns.names if name not in (*scores, INDEX, *names.values())]
    are_known = all(map(_is_no_loss, others)) and not any(columns.load(o).is_text for o in others)
    return scores[0] if are_known else None


def _has_scores(columns: Columns, names: Mapping[str, str]) -> bool:
    """Return True if a log has a counter or a clock, and a score whose better direction is known.

    The records of a text, and a file with one score per record, need no counter. A single
    evaluation does not need one either. Several scores on several records may belong to different
    models, unless the scores of a split change like those in one run, or are too few to tell.
    """
    is_counted = bool({"step", "epoch", "clock"} & names.keys())
    accuracies = [names[role] for role in ("accuracy", "eval_accuracy") if role in names]
    scores = [*accuracies, *score_columns(columns.names, names.values()).values()]
    is_counted |= columns.format == _TEXT_FORMAT or columns.rows == 1
    if (
        not scores
        or is_counted
        or any(name != INDEX for _, name in unusual_counters(columns, names))
    ):
        return bool(scores)
    others = [name for name in columns.names if name not in scores and name != INDEX]
    are_few = columns.rows < MIN_SMOOTH and _are_of_both_splits(scores)
    if not others and (len(scores) == 1 or are_few):
        return not any(columns.load(name).is_text for name in scores)
    of_splits = {name for name in scores if is_training_score(name) or is_evaluation(name)}
    loaded = [*map(columns.load, {*accuracies, *of_splits})]
    return bool(loaded) and all(not x.is_text and is_course(x.values.tolist()) for x in loaded)


def _are_of_both_splits(scores: Sequence[str]) -> bool:
    """Return True if the training and an evaluation have each of these scores."""
    evaluated = [name for name in scores if is_evaluation(name)]
    trained = [name for name in scores if name not in evaluated]
    measures = [
        {frozenset(name_words(name)) - _WORDS_OF_SPLITS for name in own}
        for own in (trained, evaluated)
    ]
    return bool(trained) and measures[0] == measures[1]


def _may_lack_a_loss(columns: Columns, names: Mapping[str, str]) -> bool:
    """Return True if no column whose meaning is unknown may be the loss.

    A log of episodes needs no loss, but an unknown column that goes NaN or infinite is not ignored.
    """
    unknown = [
        name
        for name in columns.names
        if not (
            may_serve(name)
            or name == INDEX
            or _is_no_loss(name)
            or _is_margin(name, columns)
            or is_short_score(name, columns.names)
            or _is_finite_gradient(name, columns)
        )
    ]
    if not unknown:
        return True
    counters = [*columns.names, names.get("epoch", "")]
    of_episodes = any(last_word(name) in EPISODES_OR_GAMES for name in counters)
    may_ignore = of_episodes or _are_of_sets(unknown, columns.names)
    return may_ignore and all(
        column.is_text or stays_finite(column) for column in map(columns.load, unknown)
    )


def _is_no_loss(name: str) -> bool:
    """Return True if a column has counts, times, memory, files, games, a score or the best one."""
    words = {*name_words(name)}
    # Paddle calls the times of a batch and of its data a cost.
    is_time = "cost" in words and not words.isdisjoint(("batch", "reader", "data"))
    # max_val and best_test, of the splits val and test
    is_best = (
        len(words & {"best", "max"}) == 1 and bool(words & _SPLITS_OF_BESTS) and words <= _OF_BESTS
    )
    is_other = is_time or is_best or words <= _OF_GAMES or name.lower() == "best"
    is_other = is_other or not words.isdisjoint(("score", "scores"))
    return is_other or bool(counter_unit(name)) or not _MACHINE_WORDS.isdisjoint(words)


def _are_of_sets(unknown: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if boosting prints unknown metrics of the same sets as a known score.

    These are ``train-auc`` and ``train-ams@0.15``, or ``valid_0's auc`` and ``valid_0's gain``.
    """
    sets = {match[1] for match in map(_METRIC_OF_SET.match, unknown) if match is not None}
    scores = (name for name in names if score_direction(name) is not None)
    scored_sets = {match[1] for match in map(_METRIC_OF_SET.match, scores) if match is not None}
    is_each = all(map(_METRIC_OF_SET.match, unknown))
    return is_each and sets <= scored_sets


def stays_finite(column: Column) -> bool:
    """Return True if all values of a column are finite, or words."""
    return column.is_text or bool(np.isfinite(column.logged).all())


def _is_margin(name: str, columns: Columns) -> bool:
    """Return True if a column has no name and no values, as next to a table of Markdown."""
    return name.startswith("column_") and not columns.load(name).present.any()


def _is_finite_gradient(name: str, columns: Columns) -> bool:
    """Return True for the gradient of a part of the model that is always finite."""
    return "grad" in name_words(name) and stays_finite(columns.load(name))
