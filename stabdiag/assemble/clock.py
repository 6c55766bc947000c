"""Which column tells when a record was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.history import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.columns import Column

# Seconds since 1970 above this are of the calendar: no step takes so long.
_CALENDAR: Final = 1e9
_DAY: Final = 86_400

# The time of a step goes up and down; what rises this often in so many records is the run's.
_LEAST: Final = 20
_RISES: Final = 0.9


def with_clock(
    data: Mapping[str, Column], names: Mapping[str, str]
) -> tuple[dict[str, Column], dict[str, str], list[Event]]:
    """Return the columns and their names by role, with the clock if the log has one.

    Dates alone are none. A column called ``time`` may be one, though it mostly is that of a step.
    """
    data, names, events = dict(data), dict(names), []
    if "clock" in data and _is_days(data["clock"]):
        events.append(_told(f"{names['clock']!r} tells days alone: it is not used as clock"))
        del data["clock"], names["clock"]
    if "step_time" in data and "clock" not in data and _rises(data["step_time"]):
        data["clock"], names["clock"] = data.pop("step_time"), names.pop("step_time")
        events.append(_told(f"{names['clock']!r} tells when a record was written, not how long"))
    return data, names, events


def _is_days(column: Column) -> bool:
    values = column.logged
    return column.is_time and bool((values >= _CALENDAR).all()) and not (values % _DAY).any()


def _rises(column: Column) -> bool:
    values = column.logged
    if column.is_time and len(values) and values.min() >= _CALENDAR:
        return True
    return len(values) >= _LEAST and bool(np.mean(values[1:] > values[:-1]) > _RISES)


def _told(message: str) -> Event:
    return Event(kind=EventKind.COLUMN, message=message)
