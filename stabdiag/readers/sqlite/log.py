"""A database of MLflow or Trackio: its tables tell whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.readers.mlflow import database as mlflow
from stabdiag.readers.sqlite import trackio
from stabdiag.readers.sqlite.file import DAMAGE, cut_off, holds, is_locked, opened, reason, stored

if TYPE_CHECKING:
    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

_MAGIC: Final = b"SQLite format 3\0"


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is that of a SQLite database."""
    return head.startswith(_MAGIC)


def read(stream: Stream) -> Columns:
    """Read the newest run of a database."""
    with stream.on_disk() as path:
        notes = (*stream.notes, *cut_off(path, stream.name))
        try:
            with opened(path, stream.name) as database:
                tables = stored(database)
                if holds(tables, mlflow.TABLES):
                    return mlflow.read(database, stream.name, notes)
                if holds(tables, trackio.TABLES):
                    return trackio.read(database, stream.name, notes)
        except DAMAGE as error:
            if is_locked(error):
                raise LogError(
                    f"{stream.name}: a SQLite database that another program keeps locked;"
                    " try again when it has written"
                ) from error
            raise LogError(
                f"{stream.name}: a SQLite database that is cut off or damaged ({reason(error)});"
                " recover it first: sqlite3 FILE .recover"
            ) from error
    shown = ", ".join(map(repr, sorted(tables)[:5])) or "no tables"
    raise LogError(
        f"{stream.name}: a SQLite database of neither MLflow nor Trackio (it holds {shown})"
    )
