"""What a JSON document holds: records, columns and single values, each by its path of keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from stabdiag.readers.columns import BadLine, Piece, Rows, piece_of, rows_of, stretched
from stabdiag.readers.json.keyed import (
    Path,
    has_a_loss,
    join_keyed,
    lists_of,
    steps_of,
    take_keyed,
    told_apart,
)
from stabdiag.readers.json.tolerant import DEEPEST, Documents
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.source import Stream
from stabdiag.readers.unnamed import A_TIME, FEWEST, may_be_steps

_POINT: Final = ("wall_time", "step", "value")
_PAIR: Final = 2

_INDEX: Final = re.compile(r"\d{1,15}", re.ASCII)


@dataclass(kw_only=True, eq=False)
class Tables:
    """The tables of a document, each under the keys that lead to it.

    ``records`` are lists of objects, ``columns`` lists of plain values, ``indexed`` objects whose
    keys are whole numbers, and lists of pairs that begin with a step (with those first), ``values``
    all else. ``counter`` is what the keys of ``indexed`` count, ``bad`` says where the document
    could not be read.
    """

    records: dict[Path, list[Rows]] = field(default_factory=dict)
    columns: dict[Path, list[Piece]] = field(default_factory=dict)
    indexed: dict[Path, tuple[list[int], list[object]]] = field(default_factory=dict)
    values: dict[Path, object] = field(default_factory=dict)
    counter: str = "step"
    bad: list[BadLine] = field(default_factory=list)


def read_tables(stream: Stream) -> Tables:
    """Read documents, mostly one, up to where they break off."""
    documents = Documents(stream.read_all().decode("utf-8-sig", "replace"))
    tables = Tables(bad=documents.bad())
    bare: list[Record] = []
    for value in documents.values:
        single: dict[Path, object] = {}
        _walk(value, (), tables, single)
        bare.append({"/".join(path): one for path, one in single.items() if path})
        tables.values.update(single)
    join_keyed(tables.columns, lambda lists: has_a_loss(map("/".join, filter(None, lists))))
    join_keyed(tables.records, _hold_a_loss)
    tables.columns = told_apart(tables.columns)
    if len(bare) == 1 and not tables.indexed:
        tables.indexed, tables.counter = take_keyed(tables.values)
    if not (tables.records or tables.columns or tables.indexed) and any(bare):
        # Objects one after the other, each over several lines: every one is a record.
        tables.records[()] = [rows_of([record for record in bare if record])]
    return tables


def _hold_a_loss(lists: Mapping[Path, list[Rows]]) -> bool:
    return has_a_loss(name for chunks in lists.values() for chunk in chunks for name in chunk.names)


def _walk(value: object, path: Path, tables: Tables, single: dict[Path, object]) -> None:
    """Keep the tables that lie in a value."""
    if isinstance(value, dict) and len(path) < DEEPEST:
        for key, one in value.items():
            if _INDEX.fullmatch(key) and not isinstance(one, dict | list):
                keys, values = tables.indexed.setdefault(path, ([], []))
                values.append(one)
                keys.append(int(key))
            else:
                _walk(one, (*path, key), tables, single)
    elif not isinstance(value, list) or len(path) == DEEPEST:
        single[path] = value
    elif value and isinstance(value[0], dict):
        _take_records(value, path, tables)
    elif value and isinstance(value[0], list):
        _take_points([one for one in value if isinstance(one, list)], path, tables)
    else:
        tables.columns[path] = [piece_of(value)] if value else []


def _take_points(lists: list[list[object]], path: Path, tables: Tables) -> None:
    """Take a list of lists: rows below names, pairs that begin with a step, or points.

    pandas writes {"columns": […], "index": […], "data": [[…], …]}, others their names as the first
    row, and TensorBoard downloads a chart as [[time, step, value], …].
    """
    names = _names_above(path, tables)
    if not names and (names := _header(lists)):
        del lists[0]
    names = names or _POINT
    rows = [dict(zip(names, one, strict=True)) for one in lists if len(one) == len(names)]
    pairs = [one for one in lists if len(one) == _PAIR]
    steps = [step for step, _ in pairs if isinstance(step, float)]
    tables.records.setdefault(path, [])
    if rows and (names is not _POINT or all(map(_is_point, rows))):
        tables.records[path].append(_chunk(rows))
    elif len(pairs) == len(steps) >= FEWEST and may_be_steps(steps):
        tables.indexed[path] = (list(map(int, steps)), [value for _, value in pairs])


def _names_above(path: Path, tables: Tables) -> Sequence[str]:
    """Take the names of the columns for rows at a path, as pandas writes them above these."""
    pieces = tables.columns.get((*path[:-1], "columns"), []) if path[-1:] == ("data",) else []
    names = stretched(pieces).words
    if not names or len(names) < sum(len(piece.values) for piece in pieces):
        return ()
    del tables.columns[*path[:-1], "columns"]
    return names


def _header(lists: Sequence[list[object]]) -> Sequence[str]:
    """Return the names of columns that the first of the lists holds."""
    first = [one for one in lists[0] if isinstance(one, str)] if lists else []
    return first if len(first) > 1 and len(first) == len(lists[0]) else ()


def _is_point(row: Record) -> bool:
    time, step = row["wall_time"], row["step"]
    return isinstance(time, float) and time >= A_TIME and isinstance(step, float) and step % 1 == 0


def _take_records(found: list[object], path: Path, tables: Tables) -> None:
    """Take a list of objects."""
    records = [record for record in found if isinstance(record, dict)]
    records = steps_of(records) or records
    lists = lists_of(records)
    tables.columns |= {(*path, *name): [piece_of(values)] for name, values in lists.items()}
    chunks = tables.records.setdefault(path, [])
    if not lists:
        chunks.append(_chunk(records))


def _chunk(records: list[Record]) -> Rows:
    if any(type(value) is dict for record in records for value in record.values()):
        return rows_of(*flattened(records))
    return rows_of(records)
