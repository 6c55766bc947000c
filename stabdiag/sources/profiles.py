"""Profiles on a disk: a baseline that was kept, and those that a scan store has next to its rows.

A file has one row per series of a run. The fields of the run are repeated in each of them, which
Parquet stores once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stabdiag.errors import StabdiagError
from stabdiag.files import atomic_write
from stabdiag.model.profile import Levels, RunProfile
from stabdiag.model.text import storable_text
from stabdiag.sources.group import PROFILES

if TYPE_CHECKING:
    import pyarrow as pa

PROFILE_VERSION: Final = 1
"""The version of the layout of a file and of the meaning of its numbers."""

_METADATA: Final = b"stabdiag-baseline"
_MAGIC: Final = b"PAR1"

_RUN: Final = (
    "name",
    "key",
    "first_step",
    "last_step",
    "unit",
    "non_finite",
    "outcome",
    "severity",
)
_WHOLE: Final = ("bins", "count")
_REAL: Final = ("mean", "noise", "log_mean", "log_noise")


def profile_table(profiles: Iterable[RunProfile]) -> pa.Table:
    """Return profiles as a table with one row per series."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for number, profile in enumerate(profiles):
        run = {name: getattr(profile, name) for name in _RUN}
        run |= {"run": profile.key or str(number), "settings": json.dumps(dict(profile.settings))}
        run = {
            name: storable_text(value) if isinstance(value, str) else value
            for name, value in run.items()
        }
        for role, levels in profile.series.items() or [("", None)]:
            arrays = {} if levels is None else {n: getattr(levels, n) for n in (*_WHOLE, *_REAL)}
            rows.append({**run, "role": role, "column": profile.columns.get(role, role), **arrays})
    return pa.Table.from_pylist(rows, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, integer = pa.string(), pa.int64()
    types = {"first_step": integer, "last_step": integer, "non_finite": integer}
    return pa.schema(
        [
            ("run", text),
            *((name, types.get(name, text)) for name in (*_RUN, "settings", "role", "column")),
            *((name, pa.list_(pa.int32())) for name in _WHOLE),
            *((name, pa.list_(pa.float32())) for name in _REAL),
        ],
        metadata={_METADATA: json.dumps({"version": PROFILE_VERSION})},
    )


def read_profiles(table: pa.Table) -> Iterator[RunProfile]:
    """Yield the profiles in a table."""
    names = ("run", *_RUN, "settings", "role", "column")
    columns: dict[str, list[Any]] = {name: table[name].to_pylist() for name in names}
    arrays = {name: list(_lists(table[name])) for name in (*_WHOLE, *_REAL)}
    rows: dict[str, list[int]] = {}
    for row, number in enumerate(columns["run"]):
        rows.setdefault(number, []).append(row)
    for own in rows.values():
        series = {
            columns["role"][row]: Levels(**{name: arrays[name][row] for name in arrays})
            for row in own
            if columns["role"][row]
        }
        fields: dict[str, Any] = {name: columns[name][own[0]] for name in _RUN}
        yield RunProfile(
            **fields,
            settings=json.loads(columns["settings"][own[0]]),
            series=series,
            columns={columns["role"][row]: columns["column"][row] for row in own},
        )


def _lists(column: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the lists of a column as arrays."""
    from stabdiag.readers.arrow import array_numbers

    for chunk in column.chunks:
        values = array_numbers(chunk.values)
        values = values.astype(np.int64 if values.dtype.kind == "i" else np.float64)
        for begin, end in pairwise(array_numbers(chunk.offsets)):
            yield values[begin:end]


def write_kept(profiles: Sequence[RunProfile], output: Path) -> None:
    """Write profiles as one file, as a whole or not at all.

    Raises:
        StabdiagError: if it cannot be written.
    """
    from pyarrow import parquet

    with atomic_write(output) as file:
        parquet.write_table(profile_table(profiles), file, compression="zstd")


def is_kept(path: Path) -> bool:
    """Return True if a file is a kept baseline, of any version."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
    except (OSError, ValueError):  # a name that no file can have
        return False
    from pyarrow import ArrowException, parquet

    try:
        return _METADATA in (parquet.read_schema(path).metadata or {})
    except (OSError, ArrowException):
        return False


def read_kept(path: Path) -> list[RunProfile]:
    """Read the profiles of a file.

    Raises:
        StabdiagError: if it cannot be read, or another version wrote it.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:  # ``read_table`` imports pandas
            table = file.read()
        about: Any = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if about.get("version") != PROFILE_VERSION:
            raise StabdiagError(
                f"{path}: another version of stabdiag wrote this baseline; write it again with "
                "stabdiag baseline"
            )
        return list(read_profiles(table))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise StabdiagError(f"{path}: not a readable baseline ({reason})") from None


def profiles_path(part: Path) -> Path:
    """Return the file of the profiles that belong to a part of a store's rows."""
    return part.with_name(f"_{part.stem}.profiles")


def is_store(path: Path) -> bool:
    """Return True if a folder is the store of a scan."""
    try:
        return path.is_dir() and any(path.glob("stabdiag-*-*.parquet"))
    except (OSError, ValueError):
        return False


def read_store(folder: Path) -> list[RunProfile]:
    """Read the latest profile of each run in the store of a scan.

    Raises:
        StabdiagError: if it has none, or one cannot be read.
    """
    files = sorted(path for path in folder.iterdir() if PROFILES.fullmatch(path.name))
    if not files:
        raise StabdiagError(
            f"{folder}: a store without profiles; scan again with this version of stabdiag"
        )
    latest = {profile.key: profile for file in files for profile in read_kept(file)}
    return list(latest.values())
