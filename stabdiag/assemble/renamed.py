"""Series whose column is renamed in the middle of a log.

``loss`` up to one record and ``train_loss`` after it are one series, as are ``step`` and
``iteration``, or ``loss`` and ``metrics/loss``. A series continues in a column that begins after
its last value, if both have general names: ``mlm_loss`` and ``cls_loss`` are losses of two stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS, shown_name
from stabdiag.model.roles.names import is_evaluation, name_words
from stabdiag.model.text import word_list
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.later_forms.continuation import VERY_NEAR, is_near

# General names of each role consist of one of the core words and any of the optional words.
_CORE: Final = {
    "loss": frozenset(word_list("loss losses cost objective criterion ce xent entropy nll")),
    "step": frozenset({"step", "steps", "iteration", "iter", "itr", "it", "update", "updates"}),
    "lr": frozenset({"lr", "rate"}),
    "grad_norm": frozenset({"norm", "gnorm"}),
}
_OPTIONAL: Final = {
    "loss": frozenset(word_list("total avg average mean cross batch value current step epoch lm")),
    "step": frozenset({"num"}),
    "lr": frozenset({"learning"}),
    "grad_norm": frozenset({"grad", "gradient"}),
}
_PREFIXES: Final = frozenset(
    {
        *("train", "training", "trainer", "metrics", "log", "logs", "global"),
        *("data", "values", "stats", "scalars", "points", "result", "results", "payload"),
        *("event", "info", "the", "trn", "nats", "bits"),
    }
)


def continued_columns(
    columns: Columns, names: Mapping[str, str]
) -> tuple[dict[str, Column], list[str]]:
    """Return the complete columns that continue under another name, by name, with notes."""
    made: dict[str, Column] = {}
    notes: list[str] = []
    for role in _CORE.keys() & names.keys():
        name = names[role]
        if not _is_general(name, role):
            continue
        column = columns.load(name)
        for other, continuation in _continuations(columns, names, role, column):
            first, second = (name, other) if _begins_first(column, continuation) else (other, name)
            later = continuation if first == name else column
            record = int(np.argmax(later.present))
            notes.append(
                f"from record {record + 1} on, {shown_name(first)!r} is named"
                f" {shown_name(second)!r}: treated as one series"
            )
            column = joined(column, continuation)
            made[name] = column
    return made, notes


def _continuations(
    columns: Columns, names: Mapping[str, str], role: str, column: Column
) -> Iterator[tuple[str, Column]]:
    """Yield the columns of the same role that are entirely before or after a column."""
    taken = set(names.values())
    others = [name for name in columns.names if name not in taken and _is_general(name, role)]
    if not others or column.is_text:
        return
    rows = np.flatnonzero(column.present)
    if len(rows) < MIN_RECORDS:
        return
    for other in others:
        candidate = columns.load(other)
        candidate_rows = np.flatnonzero(candidate.present)
        if candidate.is_text or len(candidate_rows) < MIN_RECORDS:
            continue
        if candidate_rows[0] > rows[-1] or candidate_rows[-1] < rows[0]:
            yield other, candidate
            rows = np.union1d(rows, candidate_rows)


def _is_general(name: str, role: str) -> bool:
    """Return True if a name consists only of general words for a role."""
    words = {*name_words(name.removesuffix("/value").removesuffix(".value"))}
    core = _CORE[role]
    if words.isdisjoint(core):
        return False
    return words <= core | _OPTIONAL[role] | _PREFIXES and not is_evaluation(name)


def takes_over(loss: Column, other: Column, end: int) -> bool:
    """Return True if a column begins at the record where the loss ends, and continues its level."""
    after = other.present[end:]
    is_close = is_near(loss.logged[-MIN_RECORDS:], other.logged[:MIN_RECORDS], factor=VERY_NEAR)
    return bool(after[0]) and 2 * int(after.sum()) > len(after) and is_close


def _begins_first(column: Column, other: Column) -> bool:
    return bool(np.argmax(column.present) < np.argmax(other.present))


def joined(column: Column, other: Column) -> Column:
    """Merge two columns that share no record."""
    present = column.present | other.present
    return replace(
        column,
        values=np.where(other.present, other.values, column.values),
        present=present,
        null=(column.null | other.null) & ~present,
        stray_rows=np.union1d(column.stray_rows, other.stray_rows),
    )
