"""MLflow: the folder of a run, one metric of it, and a run by its id in a tracking store.

The folder is read directly from disk, as MLflow refuses a file store since version 3.
"""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.blocks import blocks
from stabdiag.readers.columns import Columns
from stabdiag.readers.points import Points
from stabdiag.readers.source import MLFLOW_RUN_NAME, STANDARD_INPUT, Stream
from stabdiag.readers.words import spelled_number

# Time in milliseconds, value, step, data set and its digest; early versions wrote no step.
_OF_A_RUN: Final = lazy_pattern(
    rb"(\d{1,18}) (\S{1,32})(?: (-?\d{1,18})(?: \S+ \S+)?)?\r?", re.ASCII
)

# The start of a point whose value may be no number.
_TIME_OF_POINT: Final = lazy_pattern(rb"\d{10,18} \S")

_LONGEST_PARAMETER: Final = 1 << 16


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the files of a run, each with its path in the run's folder; others are skipped."""
    points = Points(by_time=True)
    parameters: dict[str, str] = {}
    notes: list[str] = []
    left_out: list[LeftOut] = []
    for path, stream in files:
        folder, *parts = path.parts
        if folder == "metrics" and parts:
            notes += _read_metric("/".join(parts), stream, points, left_out)
        elif folder == "params" and parts:
            text = stream.read(_LONGEST_PARAMETER).decode("utf-8", "replace")
            parameters["/".join(parts)] = text.strip()
        elif str(path) == MLFLOW_RUN_NAME:
            text = stream.read(_LONGEST_PARAMETER).decode("utf-8", "replace")
            parameters.setdefault("run_name", text.strip())
    columns = points.columns(
        source=name, format="mlflow", notes=tuple(notes), config=settings(parameters)
    )
    return replace(columns, left_out=tuple(left_out))


def settings(parameters: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of a run under dotted names, as a manifest has them."""
    return {name.replace("/", "."): value for name, value in parameters.items()}


def logged_value(value: float, *, is_nan: bool = False) -> float:
    """Return a metric as it was logged: a database knows no NaN and no infinity."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


def _read_metric(metric: str, stream: Stream, points: Points, left_out: list[LeftOut]) -> list[str]:
    """Take the points of a metric and its unreadable values, and return notes about its file."""
    unreadable = values = 0
    unfinished = b""
    for block in blocks(stream):
        # A number without the line end after it may be half a number.
        *lines, unfinished = block.split(b"\n")
        for line in lines:
            match = _OF_A_RUN.fullmatch(line)
            value = spelled_number(match[2].decode("ascii", "replace")) if match else None
            if match is None or value is None:
                unreadable += bool(line.strip())
                values += _TIME_OF_POINT.match(line) is not None
            else:
                points.add(metric, int(match[3] or 0), value, clock=int(match[1]) / 1000)
    notes = list(stream.notes)
    if unreadable:
        were = plural(unreadable, "line was", "lines were")
        notes.append(f"{were} not readable in the metric {metric}")
    if values:
        cannot = f"{plural(values, 'value', 'values')} of {metric!r} cannot be read as a number"
        left_out.append(LeftOut(code=EventCode.CELLS_LEFT_OUT, message=cannot, count=values))
    if unfinished:
        notes.append(f"the metric {metric} breaks off inside a line; all before that is read")
    return notes


_METRIC_LINE: Final = lazy_pattern(rb"(\d{10,16}) ([-+.0-9A-Za-z]{1,32}) (\d{1,18})\r?", re.ASCII)


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if each line is a time in milliseconds, a value and a step."""
    lines = head.rstrip(b"\n").split(b"\n") if is_complete else head.split(b"\n")[:-1]
    others = [*islice((line for line in lines if _METRIC_LINE.fullmatch(line) is None), 2)]
    # A line may break off where the writer was killed.
    return len(others) <= 1 and len(lines) > len(others)


def read(stream: Stream) -> Columns:
    """Read the file; the metric has the name of the file."""
    metric = "value" if stream.name == STANDARD_INPUT else Path(stream.name).stem
    points = Points(by_time=True)
    left_out: list[LeftOut] = []
    notes = _read_metric(metric, stream, points, left_out)
    if not points:
        raise NoUsableRecord(f"{stream.name}: no record could be read; expected time, value, step")
    columns = points.columns(source=stream.name, format="mlflow-metric", notes=tuple(notes))
    return replace(columns, left_out=tuple(left_out))


_SCHEME: Final = "mlflow://"
_EXAMPLE: Final = "https://mlflow.example.org or sqlite:///mlflow.db"
_STORE: Final = "MLFLOW_TRACKING_URI"
_ALLOWED: Final = "MLFLOW_ALLOW_FILE_STORE"


def read_url(url: str) -> Columns:
    """Read the run that a URL names.

    Raises:
        LogError: If the run does not exist, or its store cannot be reached.
    """
    if find_spec("mlflow") is None:
        raise LogError(
            f"{url}: a run in a tracking store of MLflow; to read it, install mlflow:"
            " pip install 'stabdiag[mlflow]'"
        )
    _check_store(url, os.environ.get(_STORE, ""))
    with warnings.catch_warnings():
        # Deprecation warnings inside MLflow do not concern the reader of a run.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _read_tracked(url, url.removeprefix(_SCHEME).strip("/"))


def _read_tracked(url: str, run_id: str) -> Columns:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    points = Points(by_time=True)
    try:
        client = MlflowClient()
        run = client.get_run(run_id)
        for metric in run.data.metrics:
            for point in client.get_metric_history(run_id, metric):
                points.add(
                    metric, point.step, logged_value(point.value), clock=point.timestamp / 1000
                )
    except MlflowException as error:
        first = str(error).splitlines()[0]
        raise LogError(f"{url}: cannot be read ({first}); check the id and {_STORE}") from error
    return points.columns(source=url, format="mlflow", config=_with_name(run))


def _with_name(run: Any) -> dict[str, object]:
    name = {"run_name": run.info.run_name} if run.info.run_name else {}
    return {**name, **settings(run.data.params)}


def _check_store(url: str, store: str) -> None:
    """Refuse a store that MLflow would not read, or would create because there is none."""
    if not store:
        raise LogError(f"{url}: set {_STORE} to the store that holds the run, such as {_EXAMPLE}")
    parts = urlsplit(store)
    if parts.scheme == "sqlite":
        path = Path(unquote(parts.path.removeprefix("/")))
        if not path.is_file():
            raise LogError(f"{url}: {path}: no such file; check {_STORE}")
    elif parts.scheme in ("", "file") and os.environ.get(_ALLOWED, "").lower() != "true":
        folder = Path(unquote(parts.path), "EXPERIMENT", url.removeprefix(_SCHEME))
        raise LogError(
            f"{url}: MLflow does not read the folder {parts.path} any more; give the folder of"
            f" the run instead: {folder}"
        )
