"""The rows of scans on a disk: a Parquet dataset of parts, each written whole and never changed.

A scan adds parts. Of all rows of one key those with the latest ``scanned`` count, so that two scans
can write at once, and one that was killed can be gone on with. A part names the scans that ended in
its metadata; what became otherwise is held against these.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stabdiag.errors import StabdiagError
from stabdiag.model.scan import UNREAD
from stabdiag.scan.find import PART
from stabdiag.scan.group import storable_text
from stabdiag.scan.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.scan.group import Job

_KEY: Final = b"stabdiag-scan"
_VERSION: Final = 1

# How many rows wait to be written, and how many seconds.
_MOST: Final = 5000
_LONGEST: Final = 5.0

# What tells whether a row still holds.
_TELLING: Final = ("size", "modified", "etag", "version", "limits")


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
                f"{self.folder}: holds {strange}, which is no part of a store of scans; name a "
                "folder of its own"
            )
        return [self.folder / name for name in sorted(names) if PART.fullmatch(name)]

    def _learn(self, part: Path) -> None:
        table = _read(part, ["scan", "key", "outcome", "reason", *_TELLING])
        told = json.loads((table.schema.metadata or {}).get(_KEY, b"{}"))
        self._ended |= set(told.get("ended", ()))
        self._last = max(self._last, int(part.name.split("-")[1]))
        columns = [table[name].to_pylist() for name in table.column_names]
        for scan, key, outcome, reason, *telling in zip(*columns, strict=True):
            self._scans.add(scan)
            # What could not be read is read again: it need not be the log that was at fault.
            unread = (reason,) if outcome == UNREAD else ()
            self._known[_hash(key)] = _hash(*telling, *unread)

    def wants(self, job: Job, version: str, limits: str) -> bool:
        """Tell whether a run has to be read, and take it for one that is there."""
        key = _hash(storable_text(job.key))
        if key in self._seen:  # it lies below two of the paths
            return False
        self._seen.add(key)
        told = _hash(job.size, job.modified, job.etag, version, limits)
        known = job.modified is not None or job.etag is not None
        if known and self._known.get(key) == told:
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
        columns = [rows[name].to_pylist() for name in ("key", "outcome", *_TELLING, "reason")]
        new = [
            outcome != UNREAD or self._known.get(_hash(key)) != _hash(*telling)
            for key, outcome, *telling in zip(*columns, strict=True)
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
        told = {"version": _VERSION, "ended": ends}
        rows = rows.replace_schema_metadata({_KEY: json.dumps(told)})
        name = f"stabdiag-{self._last:020d}-{secrets.token_hex(4)}.parquet"
        part = self.folder / f".{name}.part"
        try:
            with part.open("wb") as file:
                parquet.write_table(rows, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.folder / name)
        except OSError as error:
            raise StabdiagError(
                f"{self.folder}: cannot be written ({error.strerror}); what was is kept, and the "
                "same command goes on"
            ) from None
        finally:
            part.unlink(missing_ok=True)

    def rows(self, places: Sequence[str]) -> tuple[pa.Table, pa.Table | None]:
        """Return the rows of what is there now, and what earlier scans told of the same places."""
        table = self._all()
        now = table.filter(_latest(table))
        seen = np.fromiter(self._seen, np.uint64, len(self._seen))
        keys = np.array([_hash(key) for key in now["key"].to_pylist()], np.uint64)
        now = now.filter(pa.array(np.isin(keys, seen)))
        if not self._ended:
            return now, None
        before = table.filter(pc.is_in(table["scan"], pa.array(sorted(self._ended))))
        before = before.filter(_latest(before))
        known = [(str(key), _hash(key)) for key in before["key"].to_pylist()]
        below = tuple(f"{place.rstrip('/')}/" for place in places)
        same = [key.startswith(below) or one in self._seen for key, one in known]
        return now, before.filter(pa.array(same, pa.bool_()))

    def _all(self) -> pa.Table:
        tables = [_read(part, SCHEMA.names) for part in self._parts()]
        whole = pa.concat_tables([SCHEMA.empty_table(), *tables], promote_options="default")
        return whole.select(SCHEMA.names)


def _latest(table: pa.Table) -> pa.Array[Any]:
    """Return which rows are the latest of their keys; the runs in an archive have one in common."""
    keys, scans = (
        table[name].combine_chunks().dictionary_encode().indices.to_numpy()
        for name in ("key", "scan")
    )
    written = np.rec.fromarrays([table["scanned"].to_numpy(), scans])
    _, stamps = np.unique(written, return_inverse=True)
    last = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, keys, stamps)
    return pa.array(stamps == last[keys], pa.bool_())


def _read(part: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a part; what an older version did not write is null.

    Raises:
        StabdiagError: if it cannot be read, or a newer version wrote it.
    """
    try:
        with parquet.ParquetFile(part) as file:
            there = file.schema_arrow
            told: Any = json.loads((there.metadata or {}).get(_KEY, b"{}"))
            table = file.read([name for name in columns if name in there.names])
    except (OSError, pa.ArrowException, ValueError) as error:
        told = (str(error).splitlines() or [""])[0]
        raise StabdiagError(f"{part}: cannot be read ({told}); move it out of the store") from None
    if told.get("version") != _VERSION:
        raise StabdiagError(
            f"{part}: written by another version of stabdiag; name another folder, or update"
        )
    for name in columns:
        if name not in table.column_names:
            field = SCHEMA.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(columns).replace_schema_metadata(there.metadata)


def _hash(*what: object) -> int:
    """Return 8 bytes that tell one thing from others."""
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=8).digest(), "little")
