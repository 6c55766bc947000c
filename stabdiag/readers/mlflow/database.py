"""The newest run in a tracking database of MLflow."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.readers.mlflow.folder import settings
from stabdiag.readers.points import Points
from stabdiag.readers.sqlite.file import DAMAGE, damaged

if TYPE_CHECKING:
    import sqlite3

    from stabdiag.readers.columns import Columns

TABLES: Final = frozenset({"experiments", "runs", "metrics", "params"})

# Without an index, which may be damaged where the table is not.
_RUNS: Final = """
    SELECT run_uuid, name FROM runs NOT INDEXED
    WHERE lifecycle_stage = 'active' ORDER BY start_time DESC, rowid DESC
"""
_POINTS: Final = "SELECT key, step, value, is_nan, timestamp FROM metrics {} WHERE run_uuid = ?"
_PARAMETERS: Final = "SELECT key, value FROM params NOT INDEXED WHERE run_uuid = ?"


def read(database: sqlite3.Connection, source: str, notes: tuple[str, ...]) -> Columns:
    """Read the run that was started last, of those that logged a metric."""
    runs = database.execute(_RUNS).fetchall()
    for run, name in runs:
        points, damage = _points(database, run)
        if len(points):
            return points.columns(
                source=source,
                format="sqlite",
                notes=(*notes, *damage),
                events=_about(len(runs), run, name),
                config=settings(dict(database.execute(_PARAMETERS, [run]))),
            )
    raise NoUsableRecord(f"{source}: no record could be read; no run in it logged a metric")


def value_of(value: float, *, is_nan: bool = False) -> float:
    """Return a metric as it was logged: a database knows no NaN and no infinity."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


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
            at = time if isinstance(time, int) else 0
            points.add(metric, step, value_of(value, is_nan=bool(is_nan)), time=at)


def _about(count: int, run: str, name: str) -> tuple[Event, ...]:
    if count == 1:
        return ()
    message = (
        f"the database holds {count} runs; this is the latest with metrics, {name or 'unnamed'}"
        f" ({run}); mlflow://ID reads another"
    )
    return (Event(kind=EventKind.ATTEMPT, message=message),)
