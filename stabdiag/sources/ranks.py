"""Join the logs of all processes of a recorded job: ``run.jsonl``, ``run.rank1.jsonl``, ….

No process of a job waits for another to write, so each log has the loss of its own batches and, if
the model is sharded, the norms of its own shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from stabdiag.model.arrays import Floats, Mask, Positions
from stabdiag.model.history import recorder_header
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import and_more, plural
from stabdiag.readers.columns import Column, Columns
from stabdiag.sources.folder import note

_RANK_FILE: Final = lazy_pattern(
    r"^(?P<stem>.+)\.rank(?P<rank>\d{1,6})(?P<suffix>\.[a-z]+(\.gz)?)$"
)

# Norms of a sharded model: the squares of all shards add up.
_SHARDED_NORMS: Final = ("grad_norm", "weight_norm")

# Each rank has the value of its own batch or shard.
_MEAN_ROLES: Final = ("loss", "moved_fraction", "update_ratio", "recorder/unchanged")

_CHECKSUM: Final = "recorder/checksum"
_BATCH_ROLE: Final = "batch_id"

# Columns that compare the ranks.
WEIGHTS_DIFFER: Final = "recorder/rank_weights_differ"
SAME_BATCH: Final = "recorder/rank_same_batch"
RANKS: Final = "recorder/ranks"

# Checksums of equal weights differ by the nine digits of the log, at most.
_CHECKSUM_TOLERANCE: Final = 1e-7

_Name = TypeVar("_Name")


def rank_files(name: str, others: Mapping[str, _Name]) -> list[_Name]:
    """Return the logs of the other ranks of a log, in order.

    Args:
        name: the file name of the log of the first rank.
        others: other files in its folder, by name.
    """
    ranks: dict[int, _Name] = {}
    for other, value in others.items():
        match = _RANK_FILE.match(other)
        if match and match["stem"] + match["suffix"] == name:
            ranks[int(match["rank"])] = value
    return [ranks[rank] for rank in sorted(ranks)]


def first_rank_name(name: str) -> str | None:
    """Return the name of the log of the first rank, None if this is not the log of another rank."""
    match = _RANK_FILE.match(name)
    return match["stem"] + match["suffix"] if match else None


def has_ranks(columns: Columns) -> bool:
    """Return True if the recorder wrote a log in one of several processes."""
    size = recorder_header(columns.config).get("world_size")
    return isinstance(size, int | float) and size > 1


def merge_ranks(first: Columns, others: Sequence[Columns]) -> Columns:
    """Return the log of the first rank with the values of all ranks.

    A row that another rank does not have keeps the value of the first rank, except for the norms
    of shards, which are left out.
    """
    logs = [first, *others]
    rows = [_rank_rows(first, other) for other in others]
    is_sharded = recorder_header(first.config).get("sharded") is True
    comparisons = {RANKS: lambda: _number_of_ranks(first, rows)}
    if not is_sharded and all(_BATCH_ROLE in log.names for log in logs):
        comparisons[SAME_BATCH] = lambda: _compared(first, others, rows, _BATCH_ROLE, _are_equal)
    if not is_sharded and all(_CHECKSUM in log.names for log in logs):
        comparisons[WEIGHTS_DIFFER] = lambda: _compared(first, others, rows, _CHECKSUM, _differ)

    def load(name: str) -> Column:
        if name in comparisons:
            return comparisons[name]()
        role = name.partition("/")[0]
        if is_sharded and role in _SHARDED_NORMS:
            return _joined(first, others, rows, name, _root_of_squares, needs_all=True)
        if name.startswith(_MEAN_ROLES):
            return _joined(first, others, rows, name, _mean, needs_all=False)
        return first.load(name)

    names = and_more([log.source.rpartition("/")[2] for log in logs])
    ranks = note(f"read as {plural(len(logs), 'rank')} of one run: {names}")
    return replace(
        first,
        names=tuple(dict.fromkeys([*first.names, *comparisons])),
        load=load,
        events=(*first.events, ranks),
        files=tuple(dict.fromkeys(file for log in logs for file in log.files)),
    )


def _steps(columns: Columns) -> Floats:
    """Return the step of each row with a loss, NaN for other rows."""
    step, loss = columns.load("step"), columns.load("loss")
    steps = np.full(columns.rows, np.nan)
    steps[step.present] = step.logged
    return np.where(loss.present, steps, np.nan)


def _rank_rows(first: Columns, other: Columns) -> Positions:
    """Return for each row of the first log the row of the other with its step, -1 if none."""
    selected, steps = _steps(first), _steps(other)
    rows = {step: row for row, step in enumerate(steps.tolist()) if step == step}
    return np.array([rows.get(step, -1) for step in selected.tolist()], dtype=np.intp)


def _values(columns: Columns, name: str) -> Floats:
    """Return a column with a value for each row, NaN where it is absent."""
    values = np.full(columns.rows, np.nan)
    if name in columns.names and not (column := columns.load(name)).is_text:
        values[column.present] = column.logged
    return values


def _stacked(
    first: Columns,
    others: Sequence[Columns],
    rows: Sequence[Positions],
    name: str,
) -> tuple[Floats, Mask]:
    """Return the values of all ranks of shape (ranks, rows), and where all ranks have one."""
    column = first.load(name)
    stack, complete = [_values(first, name)], column.present.copy()
    for other, where in zip(others, rows, strict=True):
        present = np.zeros(other.rows, dtype=bool)
        if name in other.names:
            present = other.load(name).present
        stack.append(np.where(where >= 0, _values(other, name)[where], np.nan))
        complete &= np.where(where >= 0, present[where], False)
    return np.array(stack), complete


def _joined(
    first: Columns,
    others: Sequence[Columns],
    rows: Sequence[Positions],
    name: str,
    join: Callable[[Floats], Floats],
    *,
    needs_all: bool,
) -> Column:
    column = first.load(name)
    if column.is_text:
        return column
    stack, complete = _stacked(first, others, rows, name)
    values = np.where(complete, join(stack), stack[0])
    present = complete if needs_all else column.present
    return replace(column, values=values, present=present)


def _compared(
    first: Columns,
    others: Sequence[Columns],
    rows: Sequence[Positions],
    name: str,
    compare: Callable[[Floats], Floats],
) -> Column:
    stack, complete = _stacked(first, others, rows, name)
    complete &= np.isfinite(stack).all(axis=0)
    return _column(np.where(complete, compare(stack), np.nan), complete)


def _number_of_ranks(first: Columns, rows: Sequence[Positions]) -> Column:
    has_step = np.isfinite(_steps(first))
    count = 1.0 + np.sum([where >= 0 for where in rows], axis=0)
    return _column(np.where(has_step, count, np.nan), has_step)


def _column(values: Floats, present: Mask) -> Column:
    return Column(values=values, present=present, null=np.zeros(len(values), dtype=bool))


def _root_of_squares(stack: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(stack).sum(axis=0)))


def _mean(stack: Floats) -> Floats:
    return np.asarray(stack.mean(axis=0))


def _are_equal(stack: Floats) -> Floats:
    """Return 1 where two ranks have the same value."""
    ordered = np.sort(stack, axis=0)
    return np.asarray(np.any(np.diff(ordered, axis=0) == 0, axis=0), dtype=np.float64)


def _differ(stack: Floats) -> Floats:
    """Return the relative distance of the largest and the smallest value, 0 if they are equal."""
    low, high = stack.min(axis=0), stack.max(axis=0)
    spread = (high - low) / np.maximum(np.abs(high), np.finfo(np.float64).tiny)
    return np.asarray(np.where(spread > _CHECKSUM_TOLERANCE, spread, 0.0))
