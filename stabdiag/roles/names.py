"""The form in which the names of columns are compared."""

from __future__ import annotations

import re

_EVALUATION = re.compile(r"(^|_)(eval|val|valid|validation|test|dev)(_|$)")


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
