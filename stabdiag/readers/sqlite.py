"""SQLite databases that hold runs: MLflow's tracking database, and a project of Trackio.

They are read as they lie on the disk, and never written to. MLflow refuses a database that another
version has made until it is upgraded; it and Trackio change what they open.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.readers import mlflow_database, trackio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

_MAGIC: Final = b"SQLite format 3\0"

# The size of a page, how the database is written to (2: by a log beside it), how many pages it has.
_HEADER: Final = struct.Struct(">16xHB9xI")
_BY_LOG: Final = 2


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is that of a SQLite database."""
    return head.startswith(_MAGIC)


def read(stream: Stream) -> Columns:
    """Read the newest run of a database."""
    with stream.on_disk(".db") as path, _opened(path) as database:
        notes = (*stream.notes, *_cut(path, stream.name))
        try:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
            if tables >= mlflow_database.TABLES:
                return mlflow_database.read(database, stream.name, notes)
            if tables >= trackio.TABLES:
                return trackio.read(database, stream.name, notes)
        except sqlite3.Error as error:
            raise LogError(
                f"{stream.name}: a SQLite database that is cut off or damaged ({error});"
                " recover it first: sqlite3 FILE .recover"
            ) from error
    shown = ", ".join(sorted(tables)[:5]) or "no tables"
    raise LogError(
        f"{stream.name}: a SQLite database of neither MLflow nor Trackio (it holds {shown})"
    )


def _cut(path: Path, name: str) -> tuple[str, ...]:
    size, _, pages = _header(path)
    there = path.stat().st_size // size
    if there >= pages:
        return ()
    return (f"{name} breaks off: of {pages} pages {there} are there, and read as far as they go",)


def _header(path: Path) -> tuple[int, int, int]:
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    size, mode, pages = _HEADER.unpack(head.ljust(_HEADER.size, b"\0"))
    return (size if size > 1 else 1 << 16), mode, pages


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing is written, not even the files that serve to lock it."""
    still = _header(path)[1] == _BY_LOG and not path.with_name(f"{path.name}-wal").is_file()
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}", uri=True
    )
    try:
        database.text_factory = _text
        # Without this a database that is cut off is refused as a whole.
        database.execute("PRAGMA writable_schema = ON")
        yield database
    finally:
        database.close()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
