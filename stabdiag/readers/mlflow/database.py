"""The newest run in a tracking database of MLflow."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.history import Event, EventKind
from stabdiag.readers.mlflow.folder import settings
from stabdiag.readers.points import Points
from stabdiag.readers.sqlite.file import DAMAGE, damaged

if TYPE_CHECKING:
    import sqlite3

    from stabdiag.readers.columns import Columns

TABLES: Final = {
    "experiments": frozenset[str](),
    "runs": frozenset({"run_uuid", "name", "start_time", "lifecycle_stage"}),
    "metrics": frozenset({"run_uuid", "key", "step", "value", "is_nan", "timestamp"}),
    "params": frozenset({"run_uuid", "key", "value"}),
}

# Without an index, which may be damaged where the table is not.
_RUNS: Final = """
    SELECT run_uuid, name FROM runs NOT INDEXED
    WHERE lifecycle_stage = 'active' ORDER BY start_time DESC, rowid DESC
"""
_LOGGED: Final = "SELECT DISTINCT run_uuid FROM metrics NOT INDEXED"
_POINTS: Final = "SELECT key, step, value, is_nan, timestamp FROM metrics {} WHERE run_uuid = ?"
_PARAMETERS: Final = "SELECT key, value FROM params NOT INDEXED WHERE run_uuid = ?"


def read(database: sqlite3.Connection, source: str, notes: tuple[str, ...]) -> Columns:
    """Read the run that was started last, of those that logged a metric."""
    runs = database.execute(_RUNS).fetchall()
    logged = _logged(database, {run for run, _ in runs})
    for run, name in runs:
        if run not in logged:
            continue
        points, damage = _points(database, run)
        if len(points):
            return points.columns(
                source=source,
                format="sqlite",
                notes=(*notes, *damage),
                events=_about(len(runs), run, name),
                config=settings(_parameters(database, run)),
            )
    raise NoUsableRecord(f"{source}: no record could be read; no run in it logged a metric")


def value_of(value: float, *, is_nan: bool = False) -> float:
    """Return a metric as it was logged: a database knows no NaN and no infinity."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


def _logged(database: sqlite3.Connection, runs: set[object]) -> set[object]:
    """Return those runs that logged a metric; all that might have, if the metrics are damaged."""
    with suppress(*DAMAGE):
        return {run for (run,) in database.execute(_LOGGED)}
    return runs


def _parameters(database: sqlite3.Connection, run: str) -> dict[str, str]:
    rows = database.execute(_PARAMETERS, [run])
    return {name: value for name, value in rows if isinstance(name, str)}


def _points(database: sqlite3.Connection, run: str) -> tuple[Points, tuple[str, ...]]:
    """Return the points of a run, and notes; if it is damaged, the points that can be read."""
    points = Points()
    try:
        _take(points, database.execute(_POINTS.format(""), [run]))
    except DAMAGE as error:
        points = Points()
        with suppress(*DAMAGE):
            _take(points, database.execute(_POINTS.format("NOT INDEXED"), [run]))
        return points, damaged(error)
    return points, ()


def _take(points: Points, rows: sqlite3.Cursor) -> None:
    for metric, step, value, is_nan, time in rows:
        # Where a page is damaged anything may stand in a column, whatever its type.
        if isinstance(metric, str) and isinstance(step, int) and isinstance(value, int | float):
            when = time if isinstance(time, int) else 0
            points.add(metric, step, value_of(value, is_nan=bool(is_nan)), time=when)


def _about(count: int, run: str, name: str) -> tuple[Event, ...]:
    if count == 1:
        return ()
    message = (
        f"the database holds {count} runs; this is the latest with metrics, {name or 'unnamed'}"
        f" ({run}); mlflow://ID reads another"
    )
    return (Event(kind=EventKind.ATTEMPT, message=message),)
