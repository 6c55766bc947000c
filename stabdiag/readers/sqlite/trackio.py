"""The newest run in a project of Trackio, which is a database of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.history import Event, EventKind
from stabdiag.readers.chunks import join, names_in, rows_in, rows_of
from stabdiag.readers.columns import Columns
from stabdiag.readers.nested import Record, flattened, record_in
from stabdiag.readers.sqlite.file import DAMAGE, damaged

if TYPE_CHECKING:
    import sqlite3

    from stabdiag.readers.chunks import Rows

TABLES: Final = {
    "metrics": frozenset({"id", "run_name", "step", "metrics"}),
    "configs": frozenset({"run_name", "config"}),
}

# Without an index, which may be damaged where the table is not.
_LAST: Final = "SELECT {}, run_name FROM metrics NOT INDEXED ORDER BY id DESC LIMIT 1"
_COUNT: Final = "SELECT COUNT(DISTINCT {}) FROM metrics NOT INDEXED"
_RECORDS: Final = "SELECT step, metrics FROM metrics NOT INDEXED WHERE {} = ? ORDER BY id"
_CONFIG: Final = "SELECT config FROM configs WHERE {} = ?"

# Where Trackio is given no step, it counts the records. The HF Trainer gives it none, but logs a
# step of its own, which is preferred to a column of this name, as with W&B.
_STEP: Final = "_step"

# How many records are gathered before they are put into columns.
_BUNCH: Final = 4096


def read(database: sqlite3.Connection, source: str, notes: tuple[str, ...]) -> Columns:
    """Read the run that was logged to last."""
    columns = {row[1] for row in database.execute("PRAGMA table_info(metrics)")}
    # Earlier versions knew a run by its name alone.
    key = "run_id" if "run_id" in columns else "run_name"
    last = database.execute(_LAST.format(key)).fetchone()
    run, name = last or ("", "")
    chunks, damage = _chunks(database, key, run)
    if not chunks:
        why = damage[0] if damage else "no run in it logged anything"
        raise NoUsableRecord(f"{source}: no record could be read; {why}")
    (count,) = database.execute(_COUNT.format(key)).fetchone()
    message = f"the project holds {count} runs; this is the latest, {name}"
    events = [Event(kind=EventKind.ATTEMPT, message=message)] if count > 1 else []
    return Columns(
        source=source,
        format="sqlite",
        names=names_in(chunks),
        rows=rows_in(chunks),
        load=lambda column: join(chunks, column),
        notes=(*notes, *damage),
        events=tuple(events),
        config=_config(database, key, run),
    )


def _chunks(database: sqlite3.Connection, key: str, run: str) -> tuple[list[Rows], tuple[str, ...]]:
    """Return the records of a run; if the table is damaged, those before the damage."""
    chunks: list[Rows] = []
    records: list[Record] = []
    damage: tuple[str, ...] = ()
    try:
        for step, metrics in database.execute(_RECORDS.format(key), [run]):
            records.append({_STEP: step, **record_in(metrics)})
            if len(records) == _BUNCH:
                chunks.append(rows_of(*flattened(records)))
                records = []
    except DAMAGE as error:
        damage = damaged(error)
    if records:
        chunks.append(rows_of(*flattened(records)))
    return chunks, damage


def _config(database: sqlite3.Connection, key: str, run: str) -> dict[str, object]:
    found = database.execute(_CONFIG.format(key), [run]).fetchone()
    config = record_in(found[0]) if found else {}
    return {name: value for name, value in config.items() if not name.startswith("_")}
