"""Read a SQLite database of MLflow, Trackio or Optuna, with a limit on the work for its size."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.events import Event, EventKind
from stabdiag.readers.columns import Columns, StoredRun
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.nested import flattened, parse_record
from stabdiag.readers.pieces import record_rows
from stabdiag.readers.points import Points
from stabdiag.readers.source import Stream
from stabdiag.readers.stores import optuna
from stabdiag.readers.stores.mlflow import logged_value, settings
from stabdiag.readers.stores.stored import stored_runs

# Reading a damaged database raises one of these; MemoryError if a length in it is damaged.
DAMAGE: Final = (sqlite3.Error, MemoryError)

# The limit of SQLite instructions per byte of a database. A row has at least 50 bytes, takes about
# 20 instructions, and is read once or twice. If many pages point to the same page, a few bytes can
# contain an unlimited number of rows.
_MAX_WORK: Final = 4
_AT_LEAST: Final = 1 << 22
_EVERY: Final = 1 << 16
_MAX_VALUE_BYTES: Final = 1 << 26  # bytes in one value

# The timeout for the lock of another program, in seconds.
_LOCK_TIMEOUT: Final = 5.0

# The size of a page, the version of the format for writing (2: a write-ahead log), and the number
# of pages.
_SQLITE_HEADER: Final = struct.Struct(">16xHB9xI")
_BY_LOG: Final = 2


def reason(damage: Exception) -> str:
    """Describe the damage of a database."""
    return str(damage) or "a length in it is wrong"


def damaged(damage: Exception) -> tuple[str, ...]:
    """Return a note on damaged metrics, or re-raise the error of a locked database."""
    if is_locked(damage):
        raise damage
    return (f"the metrics are damaged ({reason(damage)}): read up to the damage",)


def is_locked(error: Exception) -> bool:
    """Return True if a database could not be read because another program writes to it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def cut_off(path: Path, name: str) -> tuple[str, ...]:
    """Return a note if a database has fewer pages than its header says."""
    size, _, pages = _header(path)
    available = path.stat().st_size // size
    if available >= pages:
        return ()
    return (f"{name} breaks off: {available} of {pages} pages are there, and were read",)


def _header(path: Path) -> tuple[int, int, int]:
    with path.open("rb") as file:
        head = file.read(_SQLITE_HEADER.size)
    size, mode, pages = _SQLITE_HEADER.unpack(head.ljust(_SQLITE_HEADER.size, b"\0"))
    return (size if size > 1 else 1 << 16), mode, pages


@contextmanager
def opened(path: Path, name: str) -> Iterator[sqlite3.Connection]:
    """Open a database without writing anything, not even lock files.

    Raises:
        LogError: at exit, if reading took more work than a database of this size should.
    """
    immutable = _header(path)[1] == _BY_LOG and not path.with_name(f"{path.name}-wal").is_file()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    database = sqlite3.connect(uri, timeout=_LOCK_TIMEOUT, uri=True)
    budget = iter(range((_AT_LEAST + _MAX_WORK * path.stat().st_size) // _EVERY))
    is_exhausted = False

    def stop() -> bool:
        nonlocal is_exhausted
        is_exhausted = next(budget, None) is None
        return is_exhausted

    try:
        database.text_factory = partial(str, encoding="utf-8", errors="replace")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        database.set_progress_handler(stop, _EVERY)
        # Without this, SQLite refuses a truncated database.
        database.execute("PRAGMA writable_schema = ON")
        yield database
    except (sqlite3.Error, LogError):
        if not is_exhausted:
            raise
    finally:
        database.close()
    if is_exhausted:
        raise LogError(
            f"{name}: a SQLite database that takes too much work to read for its size;"
            " recover it first: sqlite3 FILE .recover"
        )


_SQLITE_MAGIC: Final = b"SQLite format 3\0"

# Stored tables only: a view or a virtual table could take any amount of work.
_TABLES_QUERY: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a file starts like a SQLite database."""
    return head.startswith(_SQLITE_MAGIC)


def read(stream: Stream) -> Columns:
    """Read the newest run of a database, or the one that the stream selects."""
    with stream.on_disk() as path:
        notes = [*stream.notes, *cut_off(path, stream.name)]
        try:
            with opened(path, stream.name) as database:
                tables = {str(name) for (name,) in database.execute(_TABLES_QUERY)}
                if tables >= _OF_MLFLOW:
                    return _read_mlflow(database, stream.name, notes, stream.run_id)
                if tables >= _OF_TRACKIO:
                    return _read_trackio(database, stream.name, notes, stream.run_id)
                if tables >= optuna.TABLES:
                    return optuna.read_database(database, stream.name, notes, stream.run_id)
        except DAMAGE as error:
            if is_locked(error):
                raise LogError(
                    f"{stream.name}: a SQLite database that another program has locked;"
                    " try again later"
                ) from error
            raise LogError(
                f"{stream.name}: a SQLite database that is cut off or damaged ({reason(error)});"
                " recover it first: sqlite3 FILE .recover"
            ) from error
    shown = ", ".join(map(repr, sorted(tables)[:5])) or "no tables"
    raise LogError(
        f"{stream.name}: a SQLite database, but not from MLflow, Trackio or Optuna (it has {shown})"
    )


_OF_MLFLOW: Final = frozenset({"experiments", "runs", "metrics", "params"})

# Without an index, which may be damaged even if the table is not.
_RUNS_QUERY: Final = """
    SELECT run_uuid, name FROM runs NOT INDEXED
    WHERE lifecycle_stage = 'active' ORDER BY start_time DESC, rowid DESC
"""
_LOGGED: Final = (
    "SELECT run_uuid, MAX(key LIKE '%loss%') FROM metrics NOT INDEXED GROUP BY run_uuid"
)
_METRICS_QUERY: Final = (
    "SELECT key, step, value, is_nan, timestamp FROM metrics NOT INDEXED WHERE run_uuid = ?"
)
_PARAMETERS_QUERY: Final = "SELECT key, value FROM params NOT INDEXED WHERE run_uuid = ?"


def _read_mlflow(
    database: sqlite3.Connection, source: str, notes: list[str], run_id: str | None
) -> Columns:
    """Read a run, by default the newest with a loss, or else the newest with a metric."""
    runs = database.execute(_RUNS_QUERY).fetchall()
    if run_id is not None:
        runs = [run for run in runs if run[0] == run_id]
    logged = {run: True for run, _ in runs}
    if run_id is None:
        with suppress(*DAMAGE):  # otherwise any run may have a metric
            logged = {run: bool(has_loss) for run, has_loss in database.execute(_LOGGED)}
        runs.sort(key=lambda run: not logged.get(run[0], False))
    # To read many runs one by one, the index is needed.
    metrics = _METRICS_QUERY if run_id is None else _METRICS_QUERY.replace(" NOT INDEXED", "")
    for run, name in runs:
        points, run_notes = Points(by_time=True), list(notes)
        rows = _rows(database, metrics, run, run_notes) if run in logged else ()
        for metric, step, value, is_nan, time in rows:
            # In a damaged page, a column may have values of any type.
            if isinstance(metric, str) and isinstance(step, int) and isinstance(value, int | float):
                clock = time / 1000 if isinstance(time, int) else 0.0
                points.add(metric, step, logged_value(value, is_nan=bool(is_nan)), clock=clock)
        if not points:
            continue
        parameters = database.execute(_PARAMETERS_QUERY, [run])
        label = f"latest with metrics, {name or 'unnamed'} ({run}); mlflow://ID reads another"
        columns = points.columns(
            source=source,
            format="sqlite",
            notes=tuple(run_notes),
            events=_latest("database", len(runs), label) if run_id is None else (),
            config=settings({key: value for key, value in parameters if isinstance(key, str)}),
        )
        others = [other for other in runs if other[0] in logged and other[0] != run]
        return replace(columns, stored=stored_runs([(run, name), *others]))
    raise NoUsableRecord(f"{source}: no record could be read; no run in it logged a metric")


def _rows(
    database: sqlite3.Connection, query: str, run: str, notes: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a run, up to the damage if the table is damaged."""
    try:
        yield from database.execute(query, [run])
    except DAMAGE as error:
        notes += damaged(error)


def _latest(store: str, count: int, run: str) -> tuple[Event, ...]:
    """Return an event about the run that was read, if there are several."""
    message = f"the {store} has {count} runs; this is the {run}"
    return (Event(kind=EventKind.ATTEMPT, message=message),) if count > 1 else ()


_OF_TRACKIO: Final = frozenset({"metrics", "configs"})

# Without an index, which may be damaged even if the table is not.
_LAST_RUN_QUERY: Final = "SELECT {}, run_name FROM metrics NOT INDEXED ORDER BY id DESC LIMIT 1"
_RUN_COUNT_QUERY: Final = "SELECT COUNT(DISTINCT {}) FROM metrics NOT INDEXED"
_RUN_NAMES_QUERY: Final = (
    "SELECT {}, MAX(run_name) FROM metrics NOT INDEXED GROUP BY 1 ORDER BY MAX(id) DESC"
)
_RECORDS: Final = "SELECT step, metrics FROM metrics NOT INDEXED WHERE {} = ? ORDER BY id"
_CONFIGURATION_QUERY: Final = "SELECT config FROM configs WHERE {} = ?"

# Without a step, Trackio counts the records. The HF Trainer does not pass a step, but logs its own,
# which is preferred to a column of this name, as with W&B.
_RECORD_COUNT: Final = "_step"

# This many records are collected before they become columns.
_RECORDS_PER_CHUNK: Final = 4096


def _read_trackio(
    database: sqlite3.Connection, source: str, notes: list[str], run_id: str | None
) -> Columns:
    columns = {row[1] for row in database.execute("PRAGMA table_info(metrics)")}
    # Earlier versions identified a run by its name.
    key = "run_id" if "run_id" in columns else "run_name"
    run, name = database.execute(_LAST_RUN_QUERY.format(key)).fetchone() or ("", "")
    run = run if run_id is None else run_id
    damage: list[str] = []
    rows = _rows(database, _RECORDS.format(key), run, damage)
    records = ({_RECORD_COUNT: step, **parse_record(metrics)} for step, metrics in rows)
    batches = iter(lambda: list(islice(records, _RECORDS_PER_CHUNK)), [])
    chunks = [record_rows(*flattened(batch)) for batch in batches]
    if not chunks:
        reason_text = damage[0] if damage else "no run in it logged anything"
        raise NoUsableRecord(f"{source}: no record could be read; {reason_text}")
    (count,) = database.execute(_RUN_COUNT_QUERY.format(key)).fetchone()
    return replace(
        columns_from_chunks(chunks, source=source, format="sqlite", notes=(*notes, *damage)),
        events=_latest("project", count, f"latest, {name}") if run_id is None else (),
        config=_config(database, key, run),
        stored=_stored_in_trackio(database, key, run) if run_id is None else (),
    )


def _stored_in_trackio(database: sqlite3.Connection, key: str, run: str) -> tuple[StoredRun, ...]:
    names = dict(database.execute(_RUN_NAMES_QUERY.format(key)).fetchall())
    return stored_runs([(run, names.pop(run, run)), *names.items()])


def _config(database: sqlite3.Connection, key: str, run: str) -> dict[str, object]:
    row = database.execute(_CONFIGURATION_QUERY.format(key), [run]).fetchone()
    config = parse_record(row[0]) if row else {}
    return {name: value for name, value in config.items() if not name.startswith("_")}
