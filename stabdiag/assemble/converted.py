"""The history in a log that ``stabdiag convert`` has written: it only has to be read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.history import History, Series, Source, unit_of
from stabdiag.model.roles import ROLES

if TYPE_CHECKING:
    from stabdiag.readers.columns import Columns
    from stabdiag.readers.converted import Told


_ROLES = frozenset(role.name for role in ROLES)


def converted_history(columns: Columns, told: Told) -> History | None:
    """Return the history in a converted log, whose columns have the names of their roles.

    None if the log only says that it was converted: a column has another name or holds words, or
    the steps do not rise from row to row.
    """
    clock = columns.load("step")
    roles = (name.partition("/")[0] for name in columns.names)
    rising = clock.present.all() and np.all(np.diff(clock.values) > 0)
    if clock.is_text or not rising or not _ROLES.issuperset(roles):
        return None
    steps = clock.values.astype(np.int64)
    series = {}
    for role in columns.names:
        if role == "step":
            continue
        column = columns.load(role)
        if column.is_text:
            return None
        values = column.logged
        at = steps if len(values) == len(steps) else steps[column.present]
        was = told.columns.get(role, role)
        words = told.words.get(role, ())
        series[role] = Series(role=role, column=was, steps=at, values=values, words=words)
    source = Source(
        name=columns.source,
        format=columns.format,
        records=columns.rows,
        files=columns.files,
        runs_beside=columns.runs_beside,
    )
    return History(
        series=series,
        source=source,
        events=columns.events,
        config=columns.config,
        contested=told.contested,
        unit=unit_of(columns.events),
    )
