"""The store of a scan: a Parquet dataset of parts.

A part is written whole and never changed. For each key, the latest rows count, so two scans can
write at the same time, and a killed scan can be continued. The metadata of a part names the scans
that have ended; changes are measured against these.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from stabdiag.errors import StabdiagError
from stabdiag.files import atomic_write
from stabdiag.model.arrays import Mask
from stabdiag.model.scan import UNREAD
from stabdiag.model.text import storable_text
from stabdiag.scan.rows import (
    METADATA,
    ROW_SCHEMA,
    ROWS_VERSION,
    StoredRows,
    read_columns,
    read_part,
)
from stabdiag.sources.group import STORE_PART, Job
from stabdiag.sources.profiles import profiles_path

KnownRows: TypeAlias = np.ndarray[Any, Any]

# Pending rows are written at this number, or after this many seconds.
_FLUSH_ROWS: Final = 5000
_FLUSH_SECONDS: Final = 5.0

# The columns that decide whether a row is still valid.
_DECIDING: Final = ("size", "modified", "etag", "version", "limits")

# Numbers in a set before they are packed.
_MAX_UNPACKED: Final = 50_000


class _Numbers:
    """A set of numbers, in eight bytes each."""

    def __init__(self) -> None:
        self._packed = np.zeros(0, np.int64)
        self._loose: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number. Return True if it is new."""
        at = int(self._packed.searchsorted(number))
        if number in self._loose or (at < len(self._packed) and self._packed[at] == number):
            return False
        self._loose.add(number)
        if len(self._loose) >= _MAX_UNPACKED:
            self._packed = np.union1d(self._packed, list(self._loose))
            self._loose.clear()
        return True


# The index of known rows, sorted by the hash of the key: the hash of the deciding columns, the
# position, whether its scan has ended, whether it is below a scanned path, and whether this scan
# has seen it and kept it.
_ROW_DTYPE: Final = np.dtype(
    [
        *(("key", np.int64), ("deciding", np.int64), ("part", np.int32), ("row", np.int32)),
        *(("ended", np.bool_), ("below", np.bool_), ("seen", np.bool_), ("kept", np.bool_)),
    ]
)


class Store:
    """A folder of parts, and an index of the rows in it when it was opened."""

    def __init__(self, folder: Path, places: Sequence[str] = ()) -> None:
        """Open or create a store for a scan of some places.

        Raises:
            StabdiagError: if the folder is not a store, has another version, or is read-only.
        """
        self.folder = folder
        self.reused = 0
        self._scan = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._scan_of: list[str | None] = []
        self._ended: set[str] = set()
        self._new = _Numbers()
        self._waiting: list[pa.Table] = []
        self._own_parts: list[tuple[Path, int]] = []
        self._profiles: list[pa.Table] = []
        self._written = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._parts = self._listed()
        except OSError as error:
            raise StabdiagError(
                f"{folder}: cannot be opened ({error.strerror}); name a folder, or none yet"
            ) from None
        if not os.access(folder, os.W_OK):
            raise StabdiagError(f"{folder}: cannot be written; check its permissions")
        self._last = max((int(part.name.split("-")[1]) for part in self._parts), default=0)
        below = tuple(f"{place.rstrip('/')}/" for place in places)
        indexes = [self._index_part(number, below) for number in range(len(self._parts))]
        self._known = np.concatenate([np.zeros(0, _ROW_DTYPE), *indexes])
        self._known = self._known[np.argsort(self._known["key"], kind="stable")]
        self._keys = np.ascontiguousarray(self._known["key"])
        ended = np.array([scan in self._ended for scan in self._scan_of], np.bool_)
        self._known["ended"] = ended[self._known["part"]]

    def _listed(self) -> list[Path]:
        names = os.listdir(self.folder)  # noqa: PTH208 - names only: there may be many
        strange = next(
            (n for n in names if n.endswith(".parquet") and not STORE_PART.fullmatch(n)), None
        )
        if strange is not None:
            raise StabdiagError(
                f"{self.folder}: contains {strange}, which is not part of a store; use a separate "
                "folder"
            )
        return [self.folder / name for name in sorted(names) if STORE_PART.fullmatch(name)]

    def _index_part(self, number: int, below: tuple[str, ...]) -> KnownRows:
        table = read_part(self._parts[number], ["scan", "key", "outcome", "reason", *_DECIDING])
        metadata = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        self._ended |= set(metadata.get("ended", ()))
        # One scan writes a part.
        self._scan_of.append(table["scan"][0].as_py() if table.num_rows else None)
        index = np.zeros(table.num_rows, _ROW_DTYPE)
        index["key"] = [hash(key) for key in table["key"].to_pylist()]
        index["deciding"] = [hash(values) for values in _deciding(table)]
        index["below"] = [str(key).startswith(below) for key in table["key"].to_pylist()]
        index["part"], index["row"] = number, np.arange(table.num_rows)
        return index

    def _rows_of_key(self, key: str) -> KnownRows:
        """Return the known rows of a key, the latest last."""
        left, right = (self._keys.searchsorted(hash(key), side) for side in ("left", "right"))
        return self._known[left:right]

    def wants(self, job: Job, version: str, limits: str) -> bool:
        """Return True if a run must be read, and mark it as seen."""
        key = storable_text(job.key)
        rows = self._rows_of_key(key)
        if not len(rows):
            return self._new.add(hash(key))
        if rows["seen"].any():  # it is below two of the paths
            return False
        rows["seen"] = True
        has_version = job.modified is not None or job.etag is not None
        deciding = hash((job.size, job.modified, job.etag, version, limits))
        if has_version and rows["deciding"][-1] == deciding:
            rows["kept"] = True
            self.reused += 1
            return False
        return True

    def add(self, rows: pa.Table, profiles: pa.Table | None = None) -> None:
        """Add rows and the profiles of their runs; they are written within seconds."""
        if profiles is not None and profiles.num_rows:
            self._profiles.append(profiles)
        self._waiting.append(rows.filter(pa.array(self._are_new(rows), pa.bool_())))
        waiting = sum(table.num_rows for table in self._waiting)
        if waiting >= _FLUSH_ROWS or time.monotonic() - self._written >= _FLUSH_SECONDS:
            self.flush()

    def _are_new(self, rows: pa.Table) -> Iterator[bool]:
        """Yield True for each new row; the same reason for an unread log is not new."""
        for (key, outcome), deciding in zip(
            read_columns(rows, "key", "outcome"), _deciding(rows), strict=True
        ):
            stored = self._rows_of_key(key)
            same = outcome == UNREAD and len(stored) and stored["deciding"][-1] == hash(deciding)
            if same:
                stored["kept"] = True
            yield not same

    def flush(self, *, ended: bool = False) -> None:
        """Write the pending rows as a new part.

        Raises:
            StabdiagError: if it cannot be written.
        """
        rows = pa.concat_tables([ROW_SCHEMA.empty_table(), *self._waiting])
        self._waiting, self._written = [], time.monotonic()
        # This scan continued interrupted scans, so their rows count from now on.
        broken = {scan for scan in self._scan_of if scan is not None} - self._ended
        if not rows.num_rows and not (ended and (self._own_parts or broken)):
            return
        # The clock may have been set back, and two parts may be written at the same instant.
        self._last = max(time.time_ns(), self._last + 1)
        for name, value in (("scanned", self._last / 1e9), ("scan", self._scan)):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, ROW_SCHEMA.field(name), pa.repeat(value, rows.num_rows))
        metadata = {
            "version": ROWS_VERSION,
            "ended": sorted({self._scan, *broken}) if ended else [],
        }
        rows = rows.replace_schema_metadata({METADATA: json.dumps(metadata)})
        part = self.folder / f"stabdiag-{self._last:020d}-{secrets.token_hex(4)}.parquet"
        profiles, self._profiles = self._profiles, []
        try:
            from pyarrow import parquet

            if profiles:  # first, so that no part lacks its profiles
                with atomic_write(profiles_path(part)) as file:
                    parquet.write_table(pa.concat_tables(profiles), file, compression="zstd")
            with atomic_write(part) as file:
                parquet.write_table(rows, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
        except StabdiagError as error:
            raise StabdiagError(
                f"{error}; the rows so far are kept, and the same command continues"
            ) from None
        self._own_parts.append((part, rows.num_rows))

    def rows(self) -> tuple[StoredRows, StoredRows | None]:
        """Return the current rows, and the rows of earlier scans of the same places."""
        stored = self._known
        kept = self._rows(stored[stored["kept"] & _latest(stored)])
        own = [np.arange(rows) for _, rows in self._own_parts]
        parts = [*kept.parts, *(part for part, _ in self._own_parts)]
        now = StoredRows(parts=parts, which=[*kept.which, *own])
        if not self._ended:
            return now, None
        old = stored[stored["ended"]]
        return now, self._rows(old[_latest(old) & (old["below"] | old["seen"])])

    def _rows(self, stored: KnownRows) -> StoredRows:
        stored = stored[np.lexsort((stored["row"], stored["part"]))]
        bounds = stored["part"].searchsorted(np.arange(len(self._parts) + 1))
        which = [stored["row"][begin:end] for begin, end in pairwise(bounds)]
        return StoredRows(parts=self._parts, which=which)


def _latest(stored: KnownRows) -> Mask:
    """Return a mask of the rows in the latest part of their key; an archive is one key."""
    last = stored["key"].searchsorted(stored["key"], side="right") - 1
    latest: Mask = stored["part"] == stored["part"][last]
    return latest


def _deciding(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield the values that decide whether each row is still valid.

    Unread logs include the reason: they are read again, since the log may not be at fault.
    """
    for outcome, reason, *deciding in read_columns(rows, "outcome", "reason", *_DECIDING):
        yield (*deciding, reason) if outcome == UNREAD else tuple(deciding)
