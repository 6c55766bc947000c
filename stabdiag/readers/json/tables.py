"""Read the tables and single values of a JSON document, each by its path of keys.

Lists become one table, aligned by row or by step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Ints
from stabdiag.model.frozen import mutable
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_setting
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import EXACT, INDEX, BadLine
from stabdiag.readers.json.histories import collect_histories, collect_runs
from stabdiag.readers.json.keyed import (
    Path,
    collect_lists,
    epoch_steps,
    has_a_loss,
    join_keyed,
    list_in_text,
    number_runs,
    take_keyed,
)
from stabdiag.readers.json.tolerant import MAX_DOCUMENT_DEPTH, Documents
from stabdiag.readers.lengths import align, name_columns, shown_list, table_length
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.pieces import Piece, Rows, make_piece, piece_of_numbers, record_rows
from stabdiag.readers.source import Stream
from stabdiag.readers.unnamed import A_TIME, FEWEST, may_be_steps
from stabdiag.readers.words import NULL, NUMBER

_POINT: Final = ("wall_time", "step", "value")
_PAIR_LENGTH: Final = 2

_INDEX_KEY: Final = lazy_pattern(r"\d{1,15}", re.ASCII)


@mutable
class Tables:
    """The tables of a document, each by its path of keys.

    Attributes:
        records: lists of objects.
        columns: lists of plain values.
        rows: lists of rows of numbers without names.
        indexed: numbers and values: objects with integer keys, or lists of [step, value] pairs.
        values: all other values.
        counter: the quantity that the numbers of ``indexed`` count.
        bad: the lines that could not be read.
        is_cut: the document is truncated.
    """

    records: dict[Path, list[Record]] = field(default_factory=dict)
    columns: dict[Path, list[object]] = field(default_factory=dict)
    rows: dict[Path, list[list[object]]] = field(default_factory=dict)
    indexed: dict[Path, tuple[list[int], list[object]]] = field(default_factory=dict)
    values: dict[Path, object] = field(default_factory=dict)
    counter: str = "step"
    bad: list[BadLine] = field(default_factory=list)
    is_cut: bool = False


def read_tables(stream: Stream) -> Tables:
    """Read the documents in a stream, usually one, up to where they are truncated."""
    documents = Documents(stream.read_all().decode("utf-8-sig", "replace"))
    tables = Tables(bad=documents.bad(), is_cut=documents.is_cut)
    bare: list[Record] = []
    for value in documents.values:
        single: dict[Path, object] = {}
        _walk(value, (), tables, single)
        bare.append({"/".join(path): item for path, item in single.items() if path})
        tables.values.update(single)
    join_keyed(tables.columns, lambda lists: has_a_loss(map("/".join, filter(None, lists))))
    join_keyed(tables.records, lambda lists: any(map(_hold_a_loss, lists.values())))
    tables.columns = number_runs(tables.columns)
    if len(bare) == 1 and not tables.indexed:
        tables.indexed, tables.counter = take_keyed(tables.values)
    has_tables = bool(tables.records or tables.columns or tables.indexed)
    is_cut_record = tables.is_cut and len(bare) == 1 and has_a_loss(bare[0])
    if any(bare) and (not has_tables or is_cut_record):
        # Consecutive objects, each on several lines: every object is a record.
        tables.records[()] = [record for record in bare if record]
    return tables


def _hold_a_loss(records: list[Record]) -> bool:
    return has_a_loss(flattened(records)[1])


def _walk(value: object, path: Path, tables: Tables, single: dict[Path, object]) -> None:
    """Collect the tables in a value."""
    if isinstance(value, dict) and len(path) < MAX_DOCUMENT_DEPTH:
        for key, member in value.items():
            if _INDEX_KEY.fullmatch(key) and not isinstance(member, dict | list):
                keys, values = tables.indexed.setdefault(path, ([], []))
                values.append(member)
                keys.append(int(key))
            else:
                _walk(member, (*path, key), tables, single)
    elif isinstance(value, str) and (numbers := list_in_text(value)):
        tables.columns[path] = numbers
    elif not isinstance(value, list) or len(path) == MAX_DOCUMENT_DEPTH:
        single[path] = value
    elif value and isinstance(value[0], dict):
        _take_records(value, path, tables)
    elif value and isinstance(value[0], list):
        _take_points([item for item in value if isinstance(item, list)], path, tables)
    else:
        tables.columns[path] = value


def _take_points(lists: list[list[object]], path: Path, tables: Tables) -> None:
    """Add a list of lists: rows below names, [step, value] pairs, or points.

    pandas writes {"columns": […], "index": […], "data": [[…], …]}. Others write the names as the
    first row. TensorBoard exports a chart as [[time, step, value], …].
    """
    names = _take_names(path, tables)
    if not names and (names := _header(lists)):
        del lists[0]
    names = names or _POINT
    rows = [dict(zip(names, item, strict=True)) for item in lists if len(item) == len(names)]
    pairs = [item for item in lists if len(item) == _PAIR_LENGTH]
    steps = [step for step, _ in pairs if isinstance(step, float)]
    records = tables.records.setdefault(path, [])
    if rows and (names is not _POINT or all(map(_is_point, rows))):
        records += rows
    elif len(pairs) == len(steps) >= FEWEST and may_be_steps(steps):
        tables.indexed[path] = (list(map(int, steps)), [value for _, value in pairs])
    else:
        tables.rows[path] = lists


def _take_names(path: Path, tables: Tables) -> Sequence[str]:
    """Remove and return the column names that pandas writes above the rows at a path."""
    above = (*path[:-1], "columns")
    values = tables.columns.get(above, []) if path[-1:] == ("data",) else []
    names = [value for value in values if isinstance(value, str)]
    if not names or len(names) < len(values):
        return ()
    del tables.columns[above]
    return names


def _header(lists: Sequence[list[object]]) -> Sequence[str]:
    """Return the column names in the first list, if it has only names."""
    first = [value for value in lists[0] if isinstance(value, str)] if lists else []
    return first if len(first) > 1 and len(first) == len(lists[0]) else ()


def _is_point(row: Record) -> bool:
    time, step = row["wall_time"], row["step"]
    return isinstance(time, float) and time >= A_TIME and isinstance(step, float) and step % 1 == 0


def _take_records(values: list[object], path: Path, tables: Tables) -> None:
    """Add a list of objects."""
    records = [record for record in values if isinstance(record, dict)]
    steps = epoch_steps(records)
    runs = {} if steps else collect_runs(records)
    if runs:
        tables.records |= {(*path, *name): run for name, run in runs.items()}
        return
    records = steps or records
    lists = collect_lists(records) or collect_histories(records)
    tables.columns |= {(*path, *name): values for name, values in lists.items()}
    tables.records.setdefault(path, []).extend(() if lists else records)


def make_chunk(records: list[Record]) -> Rows:
    """Return the chunk of records, which may be nested."""
    if any(type(value) is dict for record in records for value in record.values()):
        return record_rows(*flattened(records))
    return record_rows(records)


# The names of lists of steps, and of the lists with their values.
_STEPS_AND_VALUES: Final = (("steps", "values"), ("x", "y"))


def side_by_side(tables: Tables, notes: list[str]) -> Rows:
    """Return lists as columns. A truncated list fills only the first rows."""
    lists = {"/".join(path): values for path, values in tables.columns.items()}
    lengths = {name: len(values) for name, values in lists.items()}
    # The full length of a truncated list is unknown.
    rows = max(lengths.values(), default=0) if tables.bad else table_length(lengths)
    chunk = Rows(rows=rows)
    last = next(reversed(lengths), None) if tables.bad else None
    names = name_columns({} if tables.bad else lengths, rows)
    for name, values in lists.items():
        length, column = len(values), names.get(name, name)
        if name == last and length < rows:
            chunk.parts[column] = [(np.arange(length), make_piece(values))]
        elif (alignment := align(name, length, rows)) is not None:
            used = [values[at] for at in alignment.values]
            chunk.parts[column] = [(alignment.rows, make_piece(used))]
        elif not is_setting(name):
            notes.append(
                f"{shown_list(name)} is left out: it has {length} values, others have {rows}"
            )
    return chunk


def indexed(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Return the values under integer keys: {"loss": {"0": 2.5, "1": 2.4}, …}.

    Megatron's own tests write {"lm loss": {"start_step": 1, …, "values": {…}}}, with a list of
    values in the older form. A NaN there means that nothing was measured.
    """
    result = {
        path: (np.array(keys, dtype=np.int64), make_piece(values))
        for path, (keys, values) in tables.indexed.items()
    }
    for path in [*tables.columns, *tables.indexed]:
        start = tables.values.get((*path[:-1], "start_step"))
        stride = tables.values.get((*path[:-1], "step_interval"))
        if not (isinstance(start, float) and isinstance(stride, float)):
            continue
        if not (abs(start) < EXACT and abs(stride) < EXACT):
            continue
        steps, piece = result.pop(path, (None, make_piece(tables.columns.get(path, []))))
        if steps is None:
            steps = _as_integers(start + stride * np.arange(len(piece.values)))
        if steps is not None:
            result[path[:-1]] = (steps, _unmeasured(piece))
    return result


def _as_integers(numbers: AnyArray) -> Ints | None:
    """Return steps as integers, or None if they are not integers."""
    if not (np.all(np.abs(numbers) < EXACT) and np.array_equal(numbers, np.floor(numbers))):
        return None
    return numbers.astype(np.int64)


def with_own_steps(tables: Tables) -> dict[Path, tuple[Ints, Piece]]:
    """Remove and return the lists of values that have their own list of steps.

    Sacred writes {"loss": {"steps": […], "timestamps": […], "values": […]}, …}. Charts of Plotly,
    Visdom and others have x and y.
    """
    result: dict[Path, tuple[Ints, Piece]] = {}
    for steps_key, values_key in _STEPS_AND_VALUES:
        for path in [path[:-1] for path in tables.columns if path[-1:] == (values_key,)]:
            if (*path, steps_key) not in tables.columns:
                continue
            values = tables.columns.pop((*path, values_key))
            steps_list = tables.columns.pop((*path, steps_key))
            tables.columns.pop((*path, "timestamps"), None)
            count = min(len(values), len(steps_list))
            steps, piece = make_piece(steps_list[:count]), make_piece(values[:count])
            at = _as_integers(steps.values) if (steps.states == NUMBER).all() else None
            if at is None or piece.words:
                tables.columns[path] = values
            else:
                result[path] = (at, piece)
    return result


def _unmeasured(piece: Piece) -> Piece:
    nothing = np.isnan(piece.values) & (piece.states == NUMBER)
    return replace(piece, states=np.where(nothing, NULL, piece.states).astype(np.uint8))


def by_step(values: dict[Path, tuple[Ints, Piece]], counter: str) -> Rows:
    """Return a record for each step, or for each value of another ``counter``."""
    if not values:
        return Rows(rows=0)
    steps = unique_values(np.concatenate([keys for keys, _ in values.values()]))
    chunk = Rows(rows=len(steps))
    for path, (keys, piece) in values.items():
        chunk.parts["/".join(path)] = [(np.searchsorted(steps, keys), piece)]
    # An own step counts more than the row index of pandas.
    counts_rows = np.array_equal(steps, np.arange(len(steps)))
    if counts_rows and assign(chunk.parts).has("step", "epoch"):
        counter = INDEX
    if counter not in chunk.parts:
        chunk.parts[counter] = [(None, piece_of_numbers(steps.astype(np.float64)))]
    return chunk
