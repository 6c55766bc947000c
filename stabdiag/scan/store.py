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
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from stabdiag.errors import StabdiagError
from stabdiag.model.scan import UNREAD
from stabdiag.scan.find import PART
from stabdiag.scan.rows import METADATA, SCHEMA, VERSION, Rows, read_part, storable_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Ints, Mask
    from stabdiag.scan.group import Job

# Rows that wait are written at this number, and after as many seconds.
_MOST: Final = 5000
_LONGEST: Final = 5.0

# The columns that decide whether a row still holds.
_DECIDING: Final = ("size", "modified", "etag", "version", "limits")


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
