"""The rows of scans as tables, in memory and in Parquet files that are read a part at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stabdiag.errors import StabdiagError
from stabdiag.files import atomic_write
from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.scan import Row
from stabdiag.model.text import storable_text

ROWS_VERSION: Final = 1
"""The version of the layout of a store, in the metadata of each part."""

METADATA: Final = b"stabdiag-scan"

SEVERITIES: Final = ("error", "warning", "note", "ok", None)
"""The worst first; an unread log has none."""

# The maximum number of rows in memory, as objects and as a table.
_OBJECTS: Final = 1000
_ROWS_PER_TABLE: Final = 10_000

# The largest whole number in a table.
_LARGEST: Final = (1 << 63) - 1

_TYPES: dict[str, pa.DataType] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "tuple[float, ...]": pa.list_(pa.float64()),
    "Mapping[str, str]": pa.map_(pa.string(), pa.string()),
}
ROW_SCHEMA = pa.schema(
    [(field.name, _TYPES[str(field.type).partition(" |")[0]]) for field in fields(Row)]
)


def give_back_memory() -> None:
    """Have Arrow give back what it frees: the pool that it takes by itself keeps most of it."""
    with suppress(NotImplementedError):  # not every build has this one
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def row_table(rows: Iterable[Row]) -> pa.Table:
    """Return rows as a table with a column for each field."""
    values = [{name: _storable(value) for name, value in vars(row).items()} for row in rows]
    return pa.Table.from_pylist(values, schema=ROW_SCHEMA)


def _storable(value: Any) -> Any:
    """Return a value that can be stored: valid Unicode text and integers in range."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return [(storable_text(name), storable_text(text)) for name, text in value.items()]
    return None if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST else value


def read_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table; only a few are objects at a time."""
    for batch in table.to_batches(max_chunksize=_OBJECTS):
        for values in batch.to_pylist():
            values["curve"] = tuple(values["curve"] or ())
            values["settings"] = dict(values["settings"] or ())
            # A column that an older version did not write is null.
            yield Row(**{name: value for name, value in values.items() if value is not None})


def read_columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns, row by row."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


@frozen
class StoredRows:
    """Rows in Parquet files or tables; ``which`` has the row numbers selected from each.

    Iteration yields the worst rows first, and reads the files each time.
    """

    parts: Sequence[Path | pa.Table]
    which: Sequence[Ints]

    @classmethod
    def of(cls, rows: StoredRows | pa.Table | Iterable[Row]) -> StoredRows:
        """Return rows, a table or objects as rows."""
        if isinstance(rows, StoredRows):
            return rows
        table = rows if isinstance(rows, pa.Table) else row_table(rows)
        return cls(parts=(table,), which=(np.arange(table.num_rows),))

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.which))

    def batches(self, *names: str) -> Iterator[pa.Table]:
        """Yield some columns of all rows, a limited number of rows at a time."""
        for part, which in zip(self.parts, self.which, strict=True):
            table = read_part(part, names)
            for begin in range(0, len(which), _ROWS_PER_TABLE):
                yield table.take(which[begin : begin + _ROWS_PER_TABLE])

    def filter(self, mask: Mask) -> StoredRows:
        """Return the rows selected by a mask."""
        masks = np.split(mask, np.cumsum([len(rows) for rows in self.which])[:-1])
        which = [rows[part] for rows, part in zip(self.which, masks, strict=True)]
        return StoredRows(parts=self.parts, which=which)

    def take(self, at: Ints, *names: str) -> pa.Table:
        """Return rows by their numbers, in that order; read only the parts that contain them."""
        order = np.argsort(at, kind="stable")
        begins = np.cumsum([0, *map(len, self.which)])
        bounds = np.searchsorted(at[order], begins)
        tables = [ROW_SCHEMA.empty_table().select(names or ROW_SCHEMA.names)]
        for i, (part, which) in enumerate(zip(self.parts, self.which, strict=True)):
            positions = at[order[bounds[i] : bounds[i + 1]]] - begins[i]
            if len(positions):
                table = read_part(part, names or ROW_SCHEMA.names)
                tables.append(table.take(which[positions]))
        return pa.concat_tables(tables).take(np.argsort(order, kind="stable"))

    def __iter__(self) -> Iterator[Row]:
        for table in self.tables():
            yield from read_rows(table)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows by severity, steps lost and path, a limited number at a time."""
        by: Any = {"severity": "ascending", "lost_steps": "descending", "path": "ascending"}
        none = ROW_SCHEMA.empty_table().select(list(by))
        keyed: Any = pa.concat_tables([none, *self.batches(*by)])
        rank: Any = pc.index_in(keyed["severity"], pa.array(SEVERITIES, pa.string()))
        keys = pa.table([rank, keyed["lost_steps"].fill_null(0), keyed["path"]], list(by))
        order = np.asarray(pc.sort_indices(keys, [*by.items()]), np.int64)
        for begin in range(0, len(order), _ROWS_PER_TABLE):
            yield self.take(order[begin : begin + _ROWS_PER_TABLE])


def write_rows(rows: Iterable[Row], output: Path) -> None:
    """Write rows as one Parquet file, as a whole or not at all.

    Raises:
        StabdiagError: if it cannot be written.
    """
    from pyarrow import parquet

    tables = rows.tables() if isinstance(rows, StoredRows) else [row_table(rows)]
    with (
        atomic_write(output) as file,
        parquet.ParquetWriter(file, ROW_SCHEMA, compression="zstd") as writer,
    ):
        for table in tables:
            writer.write_table(table)


def read_part(part: Path | pa.Table, names: Sequence[str]) -> pa.Table:
    """Read some columns of a part; those that an older version did not write are null.

    Raises:
        StabdiagError: if it cannot be read, or a newer version wrote it.
    """
    if isinstance(part, pa.Table):
        return part.select(names)
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(part) as file:
            schema = file.schema_arrow
            metadata: Any = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
            present = [name for name in names if name in schema.names]
            table = file.read(present, use_threads=False)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise StabdiagError(
            f"{part}: cannot be read ({reason}); move it out of the store"
        ) from None
    if metadata.get("version") != ROWS_VERSION:
        raise StabdiagError(
            f"{part}: written by another version of stabdiag; use another folder, or update"
        )
    for name in set(names) - set(present):
        field = ROW_SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(names).replace_schema_metadata(schema.metadata)
