"""The rows of scans on a disk: a Parquet dataset of parts.

A part is written whole and never changed. Of all rows of one key the latest count, so two scans can
write at once, and one that was killed can be gone on with. A part names the scans that have ended
in its metadata; changes are measured against these.
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
from stabdiag.files import written_whole
from stabdiag.model.arrays import Mask
from stabdiag.model.scan import UNREAD
from stabdiag.places.group import PART, Job
from stabdiag.scan.rows import (
    METADATA,
    SCHEMA,
    VERSION,
    Rows,
    columns_of,
    read_part,
    storable_text,
)

Known: TypeAlias = np.ndarray[Any, Any]

# Rows that wait are written at this number, and after as many seconds.
_MOST: Final = 5000
_LONGEST: Final = 5.0

# The columns that decide whether a row still holds.
_DECIDING: Final = ("size", "modified", "etag", "version", "limits")

# Numbers in a set before they are packed.
_LOOSE: Final = 50_000


class _Numbers:
    """A set of numbers, in eight bytes each."""

    def __init__(self) -> None:
        self._packed = np.zeros(0, np.int64)
        self._loose: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; tell whether it is new."""
        at = int(self._packed.searchsorted(number))
        if number in self._loose or (at < len(self._packed) and self._packed[at] == number):
            return False
        self._loose.add(number)
        if len(self._loose) >= _LOOSE:
            self._packed = np.union1d(self._packed, list(self._loose))
            self._loose.clear()
        return True


# What is held of each row that is known, sorted by the hash of its key: the hash of what decides
# whether it still holds, where it stands, whether its scan has ended and it lies below a place that
# is scanned, and whether this scan has met it, and kept it.
_KNOWN: Final = np.dtype(
    [
        *(("key", np.int64), ("deciding", np.int64), ("part", np.int32), ("row", np.int32)),
        *(("ended", np.bool_), ("below", np.bool_), ("seen", np.bool_), ("kept", np.bool_)),
    ]
)


class Store:
    """A folder of parts, and a few numbers for each row that it held when it was opened."""

    def __init__(self, folder: Path, places: Sequence[str] = ()) -> None:
        """Open a store for a scan of some places, or make one.

        Raises:
            StabdiagError: if it is none, is of another version, or cannot be written.
        """
        self.folder = folder
        self.reused = 0
        self._scan = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._scan_of: list[str | None] = []
        self._ended: set[str] = set()
        self._new = _Numbers()
        self._waiting: list[pa.Table] = []
        self._mine: list[tuple[Path, int]] = []
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
        known = [self._learned(number, below) for number in range(len(self._parts))]
        self._known = np.concatenate([np.zeros(0, _KNOWN), *known])
        self._known = self._known[np.argsort(self._known["key"], kind="stable")]
        self._keys = np.ascontiguousarray(self._known["key"])
        ended = np.array([scan in self._ended for scan in self._scan_of], np.bool_)
        self._known["ended"] = ended[self._known["part"]]

    def _listed(self) -> list[Path]:
        names = os.listdir(self.folder)  # noqa: PTH208 - names, of which there may be many
        strange = next((n for n in names if n.endswith(".parquet") and not PART.fullmatch(n)), None)
        if strange is not None:
            raise StabdiagError(
                f"{self.folder}: holds {strange}, which is not part of a scan's store; use a "
                "separate folder"
            )
        return [self.folder / name for name in sorted(names) if PART.fullmatch(name)]

    def _learned(self, number: int, below: tuple[str, ...]) -> Known:
        table = read_part(self._parts[number], ["scan", "key", "outcome", "reason", *_DECIDING])
        told = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        self._ended |= set(told.get("ended", ()))
        # One scan writes a part.
        self._scan_of.append(table["scan"][0].as_py() if table.num_rows else None)
        found = np.zeros(table.num_rows, _KNOWN)
        found["key"] = [hash(key) for key in table["key"].to_pylist()]
        found["deciding"] = [hash(one) for one in _deciding(table)]
        found["below"] = [str(key).startswith(below) for key in table["key"].to_pylist()]
        found["part"], found["row"] = number, np.arange(table.num_rows)
        return found

    def _of(self, key: str) -> Known:
        """Return the rows of a key among those that are known, the latest last."""
        left, right = (self._keys.searchsorted(hash(key), side) for side in ("left", "right"))
        return self._known[left:right]

    def wants(self, job: Job, version: str, limits: str) -> bool:
        """Tell whether a run has to be read, and take it for one that is there."""
        key = storable_text(job.key)
        rows = self._of(key)
        if not len(rows):
            return self._new.add(hash(key))
        if rows["seen"].any():  # it lies below two of the paths
            return False
        rows["seen"] = True
        known = job.modified is not None or job.etag is not None
        deciding = hash((job.size, job.modified, job.etag, version, limits))
        if known and rows["deciding"][-1] == deciding:
            rows["kept"] = True
            self.reused += 1
            return False
        return True

    def add(self, rows: pa.Table) -> None:
        """Keep rows; they are on the disk some seconds later."""
        self._waiting.append(rows.filter(pa.array(self._news(rows), pa.bool_())))
        waiting = sum(table.num_rows for table in self._waiting)
        if waiting >= _MOST or time.monotonic() - self._written >= _LONGEST:
            self.flush()

    def _news(self, rows: pa.Table) -> Iterator[bool]:
        """Tell of each row whether it is new: that a log cannot be read may be known."""
        for (key, outcome), deciding in zip(
            columns_of(rows, "key", "outcome"), _deciding(rows), strict=True
        ):
            known = self._of(key)
            same = outcome == UNREAD and len(known) and known["deciding"][-1] == hash(deciding)
            if same:
                known["kept"] = True
            yield not same

    def flush(self, *, ended: bool = False) -> None:
        """Write the rows that wait, as a part of their own.

        Raises:
            StabdiagError: if it cannot be written.
        """
        rows = pa.concat_tables([SCHEMA.empty_table(), *self._waiting])
        self._waiting, self._written = [], time.monotonic()
        # What a scan that broke off has left counts from now on: this one has gone on with it.
        broken = {scan for scan in self._scan_of if scan is not None} - self._ended
        if not rows.num_rows and not (ended and (self._mine or broken)):
            return
        # The clock may have been set back since the last part, and two parts have one instant.
        self._last = max(time.time_ns(), self._last + 1)
        for name, value in (("scanned", self._last / 1e9), ("scan", self._scan)):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, SCHEMA.field(name), pa.repeat(value, rows.num_rows))
        told = {"version": VERSION, "ended": sorted({self._scan, *broken}) if ended else []}
        rows = rows.replace_schema_metadata({METADATA: json.dumps(told)})
        part = self.folder / f"stabdiag-{self._last:020d}-{secrets.token_hex(4)}.parquet"
        try:
            from pyarrow import parquet

            with written_whole(part) as file:
                parquet.write_table(rows, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
        except StabdiagError as error:
            raise StabdiagError(
                f"{error}; the rows so far are kept, and the same command continues"
            ) from None
        self._mine.append((part, rows.num_rows))

    def rows(self) -> tuple[Rows, Rows | None]:
        """Return the rows of what is there now, and what earlier scans told of the same places."""
        known = self._known
        kept = self._rows(known[known["kept"] & _latest(known)])
        mine = [np.arange(rows) for _, rows in self._mine]
        parts = [*kept.parts, *(part for part, _ in self._mine)]
        now = Rows(parts=parts, which=[*kept.which, *mine])
        if not self._ended:
            return now, None
        old = known[known["ended"]]
        return now, self._rows(old[_latest(old) & (old["below"] | old["seen"])])

    def _rows(self, known: Known) -> Rows:
        known = known[np.lexsort((known["row"], known["part"]))]
        bounds = known["part"].searchsorted(np.arange(len(self._parts) + 1))
        which = [known["row"][begin:end] for begin, end in pairwise(bounds)]
        return Rows(parts=self._parts, which=which)


def _latest(known: Known) -> Mask:
    """Return which rows are in the latest part of their key: runs in an archive have one key."""
    last = known["key"].searchsorted(known["key"], side="right") - 1
    latest: Mask = known["part"] == known["part"][last]
    return latest


def _deciding(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield what decides whether each row still holds.

    What could not be read is read again: it need not be the log that was at fault.
    """
    for outcome, reason, *deciding in columns_of(rows, "outcome", "reason", *_DECIDING):
        yield (*deciding, reason) if outcome == UNREAD else tuple(deciding)
