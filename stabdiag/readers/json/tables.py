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
from stabdiag.readers.json.stream import Broken, Document
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.source import Stream
from stabdiag.readers.unnamed import A_TIME, FEWEST, may_be_steps

# How many records are held as Python objects before they become arrays.
_RECORDS: Final = 20_000

# No log lies deeper: what does is taken as one value.
_DEEPEST: Final = 20

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
    document = Document(stream)
    tables = Tables()
    bare: list[Record] = []
    try:
        while document.peek():
            single: dict[Path, object] = {}
            try:
                _walk(document, (), tables, single)
            finally:
                bare.append({"/".join(path): value for path, value in single.items() if path})
                tables.values.update(single)
    except Broken as broken:
        tables.bad.append(BadLine(line=document.line(), reason=str(broken)))
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


def _walk(document: Document, path: Path, tables: Tables, single: dict[Path, object]) -> None:
    """Read one value, and keep the tables that lie in it."""
    opening = document.peek()
    if opening == "{" and len(path) < _DEEPEST:
        for key in document.members():
            if _INDEX.fullmatch(key) and document.peek() not in ("{", "["):
                keys, values = tables.indexed.setdefault(path, ([], []))
                values.append(document.value())
                keys.append(int(key))
            else:
                _walk(document, (*path, key), tables, single)
    elif opening == "[" and len(path) < _DEEPEST:
        _walk_list(document, path, tables)
    else:
        single[path] = document.value()


def _walk_list(document: Document, path: Path, tables: Tables) -> None:
    first = document.open_list()
    if first == "{":
        _read_records(document, path, tables)
        return
    if first == "[":
        _read_points(document, path, tables)
        return
    pieces: list[Piece] = []
    tables.columns[path] = pieces
    pieces.extend(map(piece_of, document.bunches()))  # and keeps them where the list breaks off


def _read_points(document: Document, path: Path, tables: Tables) -> None:
    """Read an open list of lists: rows below names, pairs that begin with a step, or points.

    pandas writes {"columns": […], "index": […], "data": [[…], …]}, others their names as the first
    row, and TensorBoard downloads a chart as [[time, step, value], …].
    """
    lists: list[list[object]] = []
    try:
        for bunch in document.bunches(together=False):
            lists += [one for one in bunch if isinstance(one, list)]
    finally:
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


def _read_records(document: Document, path: Path, tables: Tables) -> None:
    """Read an open list of objects; a broken one is left out, if another follows it."""
    chunks, bad = tables.records.setdefault(path, []), tables.bad
    records: list[Record] = []
    try:
        while True:
            try:
                for bunch in document.bunches(together=not bad):
                    records += [record for record in bunch if isinstance(record, dict)]
                    if len(records) >= _RECORDS:
                        chunks.append(_chunk(records))
                        records = []
            except Broken as broken:
                line = document.line()
                if not document.skip_to_next_record():
                    raise
                bad.append(BadLine(line=line, reason=str(broken)))
            else:
                return
    finally:
        if not chunks:
            records = steps_of(records) or records
        lists = lists_of(records) if records and not chunks else {}
        tables.columns |= {(*path, *name): [piece_of(values)] for name, values in lists.items()}
        if records and not lists:
            chunks.append(_chunk(records))


def _chunk(records: list[Record]) -> Rows:
    if any(type(value) is dict for record in records for value in record.values()):
        return rows_of(*flattened(records))
    return rows_of(records)
