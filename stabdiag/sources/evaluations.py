"""The log of the evaluations of a run, next to the log of its training.

``eval.jsonl`` is next to ``train.jsonl``, ``val_log.csv`` next to ``train_log.csv``. The losses and
scores of evaluations join the records of the training by their steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from stabdiag.errors import LogError
from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.model.roles.names import find_split, is_evaluation
from stabdiag.readers.columns import Columns
from stabdiag.sources.folder import Container, Entry, ReadRequest
from stabdiag.sources.logs import MAX_FULL_READ, Log, has_generic_name
from stabdiag.sources.names import without_packed_suffix

# Structured logs, whose records have names.
_WITH_NAMES: Final = frozenset({".jsonl", ".ndjson", ".csv", ".tsv"})
_COUNTERS: Final = ("step", "epoch")


def with_evaluations(
    columns: Columns,
    container: Container,
    log: Log,
    entries: Sequence[Entry],
    request: ReadRequest,
) -> tuple[Columns, str | None]:
    """Return the columns of a log with the columns of its evaluations, and the key of their file.

    Return the columns themselves and None if the log has evaluations, or if not exactly one file
    next to it has evaluations of the log.
    """
    candidates = [entry for entry in entries if _belongs_to(log, entry)]
    if len(candidates) > 1:
        candidates = [entry for entry in candidates if "test" not in entry.path.name.lower()]
    roles = assign(columns.names)
    if len(candidates) != 1 or roles.has("eval_loss"):
        return columns, None
    evaluations = _read(container, candidates[0], request)
    if evaluations is None:
        return columns, None
    own = assign(evaluations.names)
    is_measured = own.has("loss", "eval_loss") or can_judge_without_loss(own.columns)
    is_counted = any(roles.has(counter) and own.has(counter) for counter in _COUNTERS)
    if not (is_measured and is_counted):
        return columns, None
    from stabdiag.sources.merge import merge_logs

    joined = merge_logs([columns, evaluations], columns.source)
    return replace(joined, format=columns.format), candidates[0].key


def _read(container: Container, entry: Entry, request: ReadRequest) -> Columns | None:
    with closing(container.streams([entry])) as streams:
        for _, stream in streams:
            try:
                return request.read(stream)
            except LogError:
                return None
    return None


def _belongs_to(log: Log, entry: Entry) -> bool:
    """Return True if a file has evaluations of the run of a log by its name.

    The names differ only in the word for an evaluation. A file that has no other word belongs to
    the run of its folder, as a log with a general name does.
    """
    words, own_words = _words(entry), _words(log)
    return (
        entry.path.parent == log.path.parent
        and 0 < (entry.size or 0) <= MAX_FULL_READ
        and is_evaluation(entry.path.name)
        and not is_evaluation(log.path.name)
        and {_suffix(log), _suffix(entry)} <= _WITH_NAMES
        and (words == own_words or (not words and has_generic_name(" ".join(own_words))))
    )


def _suffix(entry: Entry) -> str:
    return "." + without_packed_suffix(entry.path.name).rpartition(".")[2].lower()


def _words(entry: Entry) -> list[str]:
    """Return the words of the name of a file without those for a split."""
    stem = without_packed_suffix(entry.path.name).rpartition(".")[0].lower()
    return [word for word in re.split(r"[-_. ]+", stem) if find_split(word) is None]
