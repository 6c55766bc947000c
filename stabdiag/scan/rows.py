"""Rows as an Arrow table, and back: what a scan stores, and what its overview is made of."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stabdiag.files import written_whole
from stabdiag.model.scan import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_AT_ONCE = 1000

_TYPES: dict[str, pa.DataType] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "tuple[float, ...]": pa.list_(pa.float64()),
    "Mapping[str, str]": pa.map_(pa.string(), pa.string()),
}
SCHEMA = pa.schema(
    [(field.name, _TYPES[str(field.type).partition(" |")[0]]) for field in fields(Row)]
)


def table_of(rows: Iterable[Row]) -> pa.Table:
    """Return rows as a table with a column for each field of a row, a batch of them at a time."""
    batches: list[pa.RecordBatch] = []
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append({**vars(row), "settings": list(row.settings.items())})
        if len(held) == _AT_ONCE:
            batches.append(_batch(held))
            held = []
    batches.append(_batch(held))
    return pa.Table.from_batches(batches, schema=SCHEMA)


def write_rows(rows: Iterable[Row], output: Path) -> None:
    """Write rows as one Parquet file, as a whole or not at all.

    Raises:
        StabdiagError: if it cannot be written.
    """
    from pyarrow import parquet

    with written_whole(output) as file:
        parquet.write_table(table_of(rows), file, compression="zstd")


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([_encodable(row) for row in rows], schema=SCHEMA)


def _encodable(value: Any) -> Any:
    r"""Return a value whose texts are fit for UTF-8: a file's name may hold what is ``\udcff``."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {name: _encodable(one) for name, one in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, list | tuple) else value


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, of which no more than some are objects at a time."""
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        for told in batch.to_pylist():
            told["curve"] = tuple(told["curve"] or ())
            told["settings"] = dict(told["settings"] or ())
            # What an older version did not write is null.
            yield Row(**{name: value for name, value in told.items() if value is not None})
