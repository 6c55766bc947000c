"""The form in which the names of columns are compared."""

from __future__ import annotations

import re
from enum import Enum

_EVALUATION = re.compile(r"(^|_)(eval|val|valid|validation|test|dev)(_|$)")


# Columns with a word for what each record was measured on.
_SPLITS = frozenset(
    {"type", "phase", "split", "mode", "set", "stage", "dataset", "subset", "data_split"}
)


class Split(Enum):
    """What a record was measured on; of two kinds of evaluation the first counts."""

    TRAINING = ("train", "training")
    VALIDATION = ("val", "valid", "validation", "eval", "evaluation", "dev")
    TEST = ("test", "testing")


def normal(name: str) -> str:
    """Return a column name in the form in which names are compared."""
    return re.sub(r"[^a-z0-9_]+", "_", name.strip().lower()).rstrip("_")


def is_evaluation(name: str) -> bool:
    """Tell whether a column's name says that it belongs to an evaluation."""
    return _EVALUATION.search(normal(name)) is not None


def counts_since_the_last(name: str) -> bool:
    """Tell whether a count of skipped steps begins anew with each record, as Megatron's does.

    What others call skipped is mostly a count since the run began.
    """
    return normal(name) == "number_of_skipped_iterations"


def tells_split(name: str) -> bool:
    """Tell whether a column may say of each record what it was measured on."""
    return normal(name) in _SPLITS


def split_of(word: str) -> Split | None:
    """Return what a record with such a word was measured on, if it tells."""
    key = normal(word)
    return next((split for split in Split if key in split.value), None)
