"""The folder of one run in MLflow's file store: a file for each metric and for each parameter.

The folder is read as it lies on the disk: MLflow itself refuses a file store since version 3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.readers.blocks import blocks
from stabdiag.readers.points import Points
from stabdiag.readers.words import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import PurePosixPath

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# Time in milliseconds, value, step.
_LINE: Final = re.compile(rb"(\d{1,18}) (\S{1,32}) (-?\d{1,18})\r?", re.ASCII)

_LONGEST_PARAMETER: Final = 1 << 16


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the files of a run, each with its path in the run's folder; others are passed over."""
    points = Points()
    config: dict[str, object] = {}
    notes: list[str] = []
    for path, stream in files:
        folder, *parts = path.parts
        if folder == "metrics" and parts:
            notes += _read_metric("/".join(parts), stream, points)
        elif folder == "params" and parts:
            text = stream.read(_LONGEST_PARAMETER).decode("utf-8", "replace")
            config["/".join(parts)] = text.strip()
    return points.columns(source=name, format="mlflow", notes=tuple(notes), config=config)


def _read_metric(metric: str, stream: Stream, points: Points) -> list[str]:
    """Take the points of a metric, and return what there is to be said about its file."""
    unreadable = 0
    for block in blocks(stream):
        for line in block.data.splitlines():
            found = _LINE.fullmatch(line)
            value = number_of(found[2].decode("ascii", "replace")) if found else None
            if found is None or value is None:
                unreadable += bool(line.strip())
            else:
                points.add(metric, int(found[3]), value, time=int(found[1]))
    if not unreadable:
        return stream.notes
    lines = "lines" if unreadable > 1 else "line"
    return [*stream.notes, f"{unreadable} {lines} of the metric {metric} could not be read"]
