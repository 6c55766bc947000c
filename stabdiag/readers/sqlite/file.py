"""Open SQLite files so that nothing is written, and as much is read as is there."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What reading a damaged database raises; MemoryError, if a length in it is damaged.
DAMAGE: Final = (sqlite3.Error, MemoryError)

# The size of a page, the version of the format for writing (2: a write-ahead log), and the number
# of pages.
_HEADER: Final = struct.Struct(">16xHB9xI")
_BY_LOG: Final = 2


def reason(damage: Exception) -> str:
    """Say in a few words what is wrong with a database."""
    return str(damage) or "a length in it is wrong"


def damaged(damage: Exception) -> tuple[str, ...]:
    """Return a note on metrics that could not be read to their end."""
    return (f"the metrics are damaged ({reason(damage)}): read as far as they go",)


def cut_off(path: Path, name: str) -> tuple[str, ...]:
    """Return a note if a database has fewer pages than it says."""
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
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing is written, not even the files that lock it."""
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
