"""The form in which names of columns are compared, and what words in them say."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

_EVALUATION = re.compile(
    r"(^|_)(eval|evaluation|val|vali|valid|validate|validation|test|testing|dev|heldout|holdout)"
    r"(_|$)"
)

# Where a word begins in trainLoss, LMLoss and L1Loss, but not in 3D_loss.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")

# Columns under these sections are settings of the run.
_SETTINGS = re.compile(
    r"(^|[/._])(config|args|hparams|hyperparameters|hyper_parameters)[/.]", re.IGNORECASE
)


# Names of columns that say on which split of the data each record was measured.
_SPLITS = frozenset(
    {
        *("type", "phase", "split", "mode", "set", "stage", "dataset", "subset", "data_split"),
        "partition",
    }
)


# Names of columns that say what each record measured.
_MEASUREMENTS = frozenset(
    {"metric", "metrics", "metric_name", "name", "tag", "key", "variable", "type"}
)


# Names of columns that say which model or trial each record of a table of results is about.
_RESULTS = frozenset(
    {
        *("model", "models", "method", "methods", "team", "author", "trial", "trial_id", "run_id"),
        *("run_name", "experiment", "config_name", "architecture", "optimizer", "task"),
    }
)


class Split(Enum):
    """The split of the data on which a record was measured, in the order of preference."""

    TRAINING = ("train", "training", "train_inner", "tr", "fit")
    VALIDATION = (
        *("val", "valid", "validation", "validate", "eval", "evaluation", "evaluate", "dev"),
        *("vali", "holdout", "heldout", "held_out"),
    )
    TEST = ("test", "testing", "te")


@lru_cache(maxsize=1 << 17)
def normal(name: str) -> str:
    """Return a column name in the form in which names are compared."""
    name = name.strip()
    if not name.isascii():
        from unicodedata import combining, normalize

        from stabdiag.model.roles.tongues import in_english

        name = in_english(name.encode("utf-8", "replace")).decode("utf-8", "replace").strip()
        name = "".join(char for char in normalize("NFKD", name) if not combining(char))
    if not name.islower():
        name = _HUMP.sub("_", name)
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).rstrip("_")


def words_of(name: str) -> list[str]:
    """Return the words of a column's name."""
    return [word for word in normal(name).split("_") if word]


def run_of(name: str) -> str:
    """Return the run that a column is of, where W&B has exported a chart: ``run - train/loss``."""
    return name.rpartition(" - ")[0]


def without_run(name: str) -> str:
    """Return the name of a column without that of its run; see ``run_of``."""
    return name.rpartition(" - ")[2]


def is_setting(name: str) -> bool:
    """Tell whether a column holds a setting of the run by its section, as ``config/lr`` does."""
    return _SETTINGS.search(name) is not None


def is_evaluation(name: str) -> bool:
    """Tell whether a column's name says that it belongs to an evaluation."""
    return _EVALUATION.search(normal(name)) is not None


def without_evaluation(name: str) -> str:
    """Return a name in normal form without the word for an evaluation."""
    return _EVALUATION.sub("_", normal(name), count=1).strip("_")


def counts_since_the_last(name: str) -> bool:
    """Tell whether a count of skipped steps begins anew with each record, as Megatron's does.

    Under other names it is mostly a count since the run began.
    """
    return normal(name) == "number_of_skipped_iterations"


def names_measurements(name: str) -> bool:
    """Tell whether a column may say what each record measured."""
    return normal(name) in _MEASUREMENTS


def names_results(name: str) -> bool:
    """Tell whether a column may say which model or trial each record of a table is about."""
    return normal(name) in _RESULTS


def tells_split(name: str) -> bool:
    """Tell whether a column may say on which split each record was measured."""
    return normal(name) in _SPLITS or flagged_split(name) is not None


def flagged_split(name: str) -> Split | None:
    """Return the split that a column of truth values is about, as ``is_train`` is."""
    return split_of(normal(name).removeprefix("is_")) if normal(name).startswith("is_") else None


def split_of(word: str) -> Split | None:
    """Return the split that a word names, if it names one."""
    key = normal(word)
    return next((split for split in Split if key in split.value), None)
