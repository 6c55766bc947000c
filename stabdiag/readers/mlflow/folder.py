"""The folder of one run in MLflow's file store: a file for each metric and for each parameter.

The folder is read as it lies on the disk: MLflow itself refuses a file store since version 3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.model.text import plural
from stabdiag.readers.blocks import blocks
from stabdiag.readers.points import Points
from stabdiag.readers.words import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import PurePosixPath

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# Time in milliseconds, value, step, data set and its digest; early versions wrote no step.
_LINE: Final = re.compile(rb"(\d{1,18}) (\S{1,32})(?: (-?\d{1,18})(?: \S+ \S+)?)?\r?", re.ASCII)

_LONGEST_PARAMETER: Final = 1 << 16


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the files of a run, each with its path in the run's folder; others are passed over."""
    points = Points()
    parameters: dict[str, str] = {}
    notes: list[str] = []
    for path, stream in files:
        folder, *parts = path.parts
        if folder == "metrics" and parts:
            notes += _read_metric("/".join(parts), stream, points)
        elif folder == "params" and parts:
            text = stream.read(_LONGEST_PARAMETER).decode("utf-8", "replace")
            parameters["/".join(parts)] = text.strip()
    return points.columns(
        source=name, format="mlflow", notes=tuple(notes), config=settings(parameters)
    )


def settings(parameters: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of a run under dotted names, as a manifest has them."""
    return {name.replace("/", "."): value for name, value in parameters.items()}


def _read_metric(metric: str, stream: Stream, points: Points) -> list[str]:
    """Take the points of a metric, and return notes about its file."""
    unreadable = 0
    rest = b""
    for block in blocks(stream):
        # A number without the line end after it may be half a number.
        *lines, rest = block.data.split(b"\n")
        for line in lines:
            found = _LINE.fullmatch(line)
            value = number_of(found[2].decode("ascii", "replace")) if found else None
            if found is None or value is None:
                unreadable += bool(line.strip())
            else:
                points.add(metric, int(found[3] or 0), value, time=int(found[1]))
    notes = list(stream.notes)
    if unreadable:
        were = plural(unreadable, "line was", "lines were")
        notes.append(f"{were} not readable in the metric {metric}")
    if rest:
        notes.append(f"the metric {metric} breaks off inside a line; all before that is read")
    return notes
