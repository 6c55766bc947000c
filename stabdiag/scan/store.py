"""The rows of scans, as Arrow tables and on a disk: a Parquet dataset of parts.

A part is written whole and never changed. Of all rows of one key the latest count, so two scans can
write at once, and one that was killed can be gone on with. A part names the scans that have ended
in its metadata; changes are measured against these.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from stabdiag.errors import StabdiagError
from stabdiag.files import written_whole
from stabdiag.model.scan import UNREAD, Row
from stabdiag.scan.group import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stabdiag.model.arrays import Ints, Mask
    from stabdiag.scan.group import Job

VERSION: Final = 1
"""Of the layout of a store; each part names it in its metadata."""

METADATA: Final = b"stabdiag-scan"

# Rows that wait are written at this number, and after as many seconds.
_MOST: Final = 5000
_LONGEST: Final = 5.0

# The columns that decide whether a row still holds.
_DECIDING: Final = ("size", "modified", "etag", "version", "limits")

# Rows held at once: as objects, and as a table.
_OBJECTS: Final = 1000
_TABLE: Final = 20_000

# The largest whole number in a table.
_LARGEST: Final = (1 << 63) - 1

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
    """Return rows as a table with a column for each field."""
    held = [{name: _storable(value) for name, value in vars(row).items()} for row in rows]
    return pa.Table.from_pylist(held, schema=SCHEMA)


def _storable(value: Any) -> Any:
    """Return a value that can be written: not every file name is text, nor every number small."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return [(storable_text(name), storable_text(one)) for name, one in value.items()]
    return None if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST else value


def storable_text(text: str) -> str:
    """Return a text that is valid Unicode, as not every file name is."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table; only a few are objects at a time."""
    for batch in table.to_batches(max_chunksize=_OBJECTS):
        for values in batch.to_pylist():
            values["curve"] = tuple(values["curve"] or ())
            values["settings"] = dict(values["settings"] or ())
            # A column that an older version did not write is null.
            yield Row(**{name: value for name, value in values.items() if value is not None})


def coded(column: pa.ChunkedArray[Any]) -> tuple[list[Any], Ints]:
    """Return the different values of a column, and the number of each row's."""
    encoded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows in Parquet files, or in tables; ``which`` numbers those of each that count."""

    parts: Sequence[Path | pa.Table]
    which: Sequence[Ints]

    @classmethod
    def of(cls, rows: Rows | pa.Table | Iterable[Row]) -> Rows:
        """Return rows, a table or objects as rows."""
        if isinstance(rows, Rows):
            return rows
        table = rows if isinstance(rows, pa.Table) else table_of(rows)
        return cls(parts=(table,), which=(np.arange(table.num_rows),))

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(map(len, self.which))

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of all rows, a limited number of rows at a time."""
        held: list[pa.Table] = []
        for part, which in zip(self.parts, self.which, strict=True):
            held.append(read_part(part, names).take(which))
            if sum(one.num_rows for one in held) >= _TABLE:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def columns(self, *names: str) -> pa.Table:
        """Return some columns of all rows."""
        empty = SCHEMA.empty_table().select(names)
        return pa.concat_tables([empty, *self.batches(names)])

    def filter(self, mask: Mask) -> Rows:
        """Return those of the rows for which it is true."""
        masks = np.split(mask, np.cumsum([len(one) for one in self.which])[:-1])
        which = [one[kept] for one, kept in zip(self.which, masks, strict=True)]
        return Rows(parts=self.parts, which=which)

    def take(self, at: Ints, names: Sequence[str] = SCHEMA.names) -> pa.Table:
        """Return rows by their numbers, in that order; only the parts that hold them are read."""
        order = np.argsort(at, kind="stable")
        begins = np.cumsum([0, *map(len, self.which)])
        bounds = np.searchsorted(at[order], begins)
        tables = [SCHEMA.empty_table().select(names)]
        for i, (part, which) in enumerate(zip(self.parts, self.which, strict=True)):
            wanted = at[order[bounds[i] : bounds[i + 1]]] - begins[i]
            if len(wanted):
                tables.append(read_part(part, names).take(which[wanted]))
        return pa.concat_tables(tables).take(np.argsort(order, kind="stable"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Ordered:
    """Rows in an order; they are read each time that they are gone through."""

    rows: Rows
    order: Ints

    def __iter__(self) -> Iterator[Row]:
        for table in self.tables():
            yield from rows_of(table)

    def tables(self) -> Iterator[pa.Table]:
        """Yield them as tables, a limited number of rows at a time."""
        for begin in range(0, len(self.order), _TABLE):
            yield self.rows.take(self.order[begin : begin + _TABLE])


def write_rows(rows: Iterable[Row], output: Path) -> None:
    """Write rows as one Parquet file, as a whole or not at all.

    Raises:
        StabdiagError: if it cannot be written.
    """
    from pyarrow import parquet

    tables = rows.tables() if isinstance(rows, Ordered) else [table_of(rows)]
    with (
        written_whole(output) as file,
        parquet.ParquetWriter(file, SCHEMA, compression="zstd") as writer,
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
            there = file.schema_arrow
            found: Any = json.loads((there.metadata or {}).get(METADATA, b"{}"))
            present = [name for name in names if name in there.names]
            table = file.read(present, use_threads=False)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise StabdiagError(
            f"{part}: cannot be read ({reason}); move it out of the store"
        ) from None
    if found.get("version") != VERSION:
        raise StabdiagError(
            f"{part}: written by another version of stabdiag; use another folder, or update"
        )
    for name in set(names) - set(present):
        field = SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(names).replace_schema_metadata(there.metadata)


class Store:
    """A folder of parts."""

    def __init__(self, folder: Path) -> None:
        """Open a store, or make one.

        Raises:
            StabdiagError: if it is none, is of another version, or cannot be written.
        """
        self.folder = folder
        self.scan = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self.reused = 0
        self._known: dict[int, int] = {}
        self._scans: set[str] = set()
        self._ended: set[str] = set()
        self._seen: set[int] = set()
        self._waiting: list[pa.Table] = []
        self._written = time.monotonic()
        self._last = 0
        self._any = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            parts = self._parts()
        except OSError as error:
            raise StabdiagError(f"{folder}: cannot be opened ({error.strerror})") from None
        if not os.access(folder, os.W_OK):
            raise StabdiagError(f"{folder}: cannot be written; check its permissions")
        for part in parts:
            self._learn(part)

    def _parts(self) -> list[Path]:
        names = os.listdir(self.folder)  # noqa: PTH208 - names, of which there may be many
        strange = next((n for n in names if n.endswith(".parquet") and not PART.fullmatch(n)), None)
        if strange is not None:
            raise StabdiagError(
                f"{self.folder}: holds {strange}, which is not part of a scan's store; use a "
                "separate folder"
            )
        return [self.folder / name for name in sorted(names) if PART.fullmatch(name)]

    def _learn(self, part: Path) -> None:
        table = read_part(part, ["scan", "key", "outcome", "reason", *_DECIDING])
        told = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        self._ended |= set(told.get("ended", ()))
        self._last = max(self._last, int(part.name.split("-")[1]))
        columns = [table[name].to_pylist() for name in table.column_names]
        for scan, key, outcome, reason, *deciding in zip(*columns, strict=True):
            self._scans.add(scan)
            # What could not be read is read again: it need not be the log that was at fault.
            unread = (reason,) if outcome == UNREAD else ()
            self._known[hash(key)] = hash((*deciding, *unread))

    def wants(self, job: Job, version: str, limits: str) -> bool:
        """Tell whether a run has to be read, and take it for one that is there."""
        key = hash(storable_text(job.key))
        if key in self._seen:  # it lies below two of the paths
            return False
        self._seen.add(key)
        deciding = hash((job.size, job.modified, job.etag, version, limits))
        known = job.modified is not None or job.etag is not None
        if known and self._known.get(key) == deciding:
            self.reused += 1
            return False
        return True

    def add(self, rows: pa.Table) -> None:
        """Keep rows; they are on the disk some seconds later."""
        self._waiting.append(self._news(rows))
        waiting = sum(table.num_rows for table in self._waiting)
        if waiting >= _MOST or time.monotonic() - self._written >= _LONGEST:
            self.flush()

    def _news(self, rows: pa.Table) -> pa.Table:
        """Return rows without what is known: that a log cannot be read, for the same reason."""
        columns = [rows[name].to_pylist() for name in ("key", "outcome", *_DECIDING, "reason")]
        new = [
            outcome != UNREAD or self._known.get(hash(key)) != hash(tuple(deciding))
            for key, outcome, *deciding in zip(*columns, strict=True)
        ]
        return rows.filter(pa.array(new, pa.bool_()))

    def flush(self, *, ended: bool = False) -> None:
        """Write the rows that wait, as a part of their own.

        Raises:
            StabdiagError: if it cannot be written.
        """
        rows = pa.concat_tables([SCHEMA.empty_table(), *self._waiting])
        self._waiting, self._written = [], time.monotonic()
        self._any = self._any or rows.num_rows > 0
        # What a scan that broke off has left counts from now on: this one has gone on with it.
        ends = sorted({self.scan, *self._scans} - self._ended) if ended else []
        if not rows.num_rows and not (ends and (self._any or self._scans - self._ended)):
            return
        # The clock may have been set back since the last part, and two parts have one instant.
        self._last = max(time.time_ns(), self._last + 1)
        for name, value in (("scanned", self._last / 1e9), ("scan", self.scan)):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, SCHEMA.field(name), pa.repeat(value, rows.num_rows))
        told = {"version": VERSION, "ended": ends}
        rows = rows.replace_schema_metadata({METADATA: json.dumps(told)})
        name = f"stabdiag-{self._last:020d}-{secrets.token_hex(4)}.parquet"
        part = self.folder / f".{name}.part"
        try:
            from pyarrow import parquet

            with part.open("wb") as file:
                parquet.write_table(rows, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.folder / name)
        except OSError as error:
            raise StabdiagError(
                f"{self.folder}: cannot be written ({error.strerror}); the rows so far are "
                "kept, and the same command continues"
            ) from None
        finally:
            part.unlink(missing_ok=True)

    def rows(self, places: Sequence[str]) -> tuple[Rows, Rows | None]:
        """Return the rows of what is there now, and what earlier scans told of the same places."""
        below = tuple(f"{place.rstrip('/')}/" for place in places)
        parts = self._parts()
        keys, seen, same, ended = [], [], [], []
        for part in parts:
            table = read_part(part, ["key", "scan"])
            texts = table["key"].to_pylist()
            keys.append(np.fromiter(map(hash, texts), np.int64, len(texts)))
            seen.append(np.array([key in self._seen for key in keys[-1].tolist()], bool))
            same.append(seen[-1] | np.array([str(text).startswith(below) for text in texts], bool))
            ended.append(bool(texts) and table["scan"][0].as_py() in self._ended)
        now = _latest(keys, [True] * len(parts))
        which = [np.flatnonzero(one & other) for one, other in zip(now, seen, strict=True)]
        rows = Rows(parts=parts, which=which)
        if not self._ended:
            return rows, None
        then = _latest(keys, ended)
        before = [np.flatnonzero(one & other) for one, other in zip(then, same, strict=True)]
        return rows, Rows(parts=parts, which=before)


def _latest(keys: Sequence[Ints], counts: Sequence[bool]) -> list[Mask]:
    """Return which rows are the latest of their keys, among the parts that count.

    Parts are in the order in which they were written. The runs in an archive have one key, and are
    all in one part.
    """
    sizes = [len(one) for one in keys]
    part = np.repeat(np.where(counts, np.arange(len(keys)), -1), sizes)
    each, number = np.unique(np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True)
    last = np.full(len(each), -1)
    np.maximum.at(last, number, part)
    return np.split((part >= 0) & (part == last[number]), np.cumsum(sizes)[:-1]) if keys else []
