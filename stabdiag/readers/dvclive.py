"""The folder of a run of DVCLive: a table of steps and values for each metric.

``plots/metrics/train/loss.tsv`` has the columns ``step`` and ``loss`` of the metric ``train/loss``.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.errors import LogError
from stabdiag.readers.columns import EXACT
from stabdiag.readers.csv import log as csv
from stabdiag.readers.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

_METRICS: Final = PurePosixPath("plots/metrics")
_STEP: Final = "step"


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the metrics of a run, each file with its path in the run's folder."""
    points = Points()
    notes: list[str] = []
    for path, stream in files:
        metric = str(path.relative_to(_METRICS).with_suffix(""))
        try:
            taken = _take(points, metric, csv.read(stream))
        except LogError:
            taken = False
        if not taken:
            notes.append(f"{path} is no metric: expected the columns step and a value")
    return points.columns(source=name, format="dvclive", notes=tuple(notes))


def _take(points: Points, metric: str, table: Columns) -> bool:
    """Take the points of a metric, if the table is one; a blank value was NaN."""
    if _STEP not in table.names or len(table.names) < 2:
        return False
    steps, values = table.load(_STEP), table.load(table.names[-1])
    if steps.is_text or values.is_text:
        return False
    counts = steps.present & (np.abs(steps.values) < EXACT)
    logged = counts & (values.present | values.null)
    at, told = steps.values[logged].tolist(), values.values[logged].tolist()
    for step, value in zip(at, told, strict=True):
        points.add(metric, int(step), value)
    return True
