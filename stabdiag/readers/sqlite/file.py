"""A SQLite database, opened to be read: at no more work than one of its size takes."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# What reading a damaged database raises; MemoryError, if a length in it is damaged.
DAMAGE: Final = (sqlite3.Error, MemoryError)

# How many instructions of SQLite a byte of a database may cost: a row takes 50 bytes at least, some
# 20 instructions, and is read once or twice. Where many pages lead to the same one, a few bytes
# hold more rows than anyone can read.
_MOST_WORK: Final = 4
_AT_LEAST: Final = 1 << 22
_EVERY: Final = 1 << 16
_LONGEST: Final = 1 << 26  # bytes in one value

# Seconds for which the lock of another program is waited for.
_PATIENCE: Final = 5.0

# The size of a page, the version of the format for writing (2: a write-ahead log), and the number
# of pages.
_HEADER: Final = struct.Struct(">16xHB9xI")
_BY_LOG: Final = 2


def reason(damage: Exception) -> str:
    """Say in a few words what is wrong with a database."""
    return str(damage) or "a length in it is wrong"


def damaged(damage: Exception) -> tuple[str, ...]:
    """Return a note on metrics that could not be read to their end; what is locked is whole."""
    if is_locked(damage):
        raise damage
    return (f"the metrics are damaged ({reason(damage)}): read as far as they go",)


def is_locked(error: Exception) -> bool:
    """Tell whether a database could not be read since another program writes to it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def stored(database: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns of each table by its name, as far as they are stored and not computed.

    A view, a virtual table or a computed column costs what whoever made it liked it to cost.
    """
    names = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
    return {
        str(name): {str(row[1]) for row in database.execute(f"PRAGMA table_info({_quoted(name)})")}
        for (name,) in names.fetchall()
    }


def holds(tables: Mapping[str, set[str]], wanted: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether there are the tables that are wanted, with their columns."""
    return all(columns <= tables.get(name, set()) for name, columns in wanted.items())


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


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
def opened(path: Path, name: str) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing is written, not even the files that lock it.

    Raises:
        LogError: on the way out, if reading it took more work than a database of its size takes.
    """
    still = _header(path)[1] == _BY_LOG and not path.with_name(f"{path.name}-wal").is_file()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
    database = sqlite3.connect(uri, timeout=_PATIENCE, uri=True)
    budget = iter(range((_AT_LEAST + _MOST_WORK * path.stat().st_size) // _EVERY))
    endless = False

    def stop() -> bool:
        nonlocal endless
        endless = next(budget, None) is None
        return endless

    try:
        database.text_factory = _text
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        database.set_progress_handler(stop, _EVERY)
        # Without this a database that is cut off is refused as a whole.
        database.execute("PRAGMA writable_schema = ON")
        yield database
    except (sqlite3.Error, LogError):
        if not endless:
            raise
    finally:
        database.close()
    if endless:
        raise LogError(
            f"{name}: a SQLite database that takes more work to read than one of its size does;"
            " recover it first: sqlite3 FILE .recover"
        )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
