"""Decide without stabdiag whether a run's own log shows that it is broken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Row = dict[str, float]
PARTS = 10
OUTSIDE = 2  # minimum number of tenths with a series outside the twins' spread
SERIES = ("loss", "eval_loss", "grad_norm", "lr")


def shows(rows: Sequence[Row], twins: Sequence[Sequence[Row]]) -> bool:
    """Return True if a series leaves the spread of the healthy twins, widened by its own width.

    Each of loss, evaluation loss, gradient norm and rate is taken as its median in each tenth of
    the steps; a value that is not finite, or a log that breaks off, shows it as well.
    """
    return len(rows) < min(map(len, twins)) or bool(leaving(rows, twins, SERIES))


def leaving(
    rows: Sequence[Row], twins: Sequence[Sequence[Row]], names: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of the series that leave the spread of the healthy twins."""
    outside_names = []
    for name in names:
        twin_courses = np.array([course(twin, name) for twin in twins])
        own = course(rows, name)
        low, high = twin_courses.min(axis=0), twin_courses.max(axis=0)
        width = np.maximum(high - low, 0.02 * np.abs(high))
        outside = ~((own >= low - width) & (own <= high + width))
        if np.count_nonzero(outside) >= OUTSIDE:
            outside_names.append(name)
    return tuple(outside_names)


def course(rows: Sequence[Row], name: str) -> np.ndarray:
    """Return the median of a series in each tenth of the log."""
    parts = np.array_split(np.arange(len(rows)), PARTS)
    return np.array(
        [np.median([rows[at][name] for at in part if name in rows[at]] or [0.0]) for part in parts]
    )
