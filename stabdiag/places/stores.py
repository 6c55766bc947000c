"""Runs in several files: TensorBoard's folders, MLflow's file store, and DVCLive's tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import PurePosixPath

    from stabdiag.places.listing import Entry
    from stabdiag.places.logs import Log
    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

TENSORBOARD: Final = "tensorboard"
MLFLOW: Final = "mlflow-metric"

# Where DVCLive keeps a table for each metric.
_METRICS: Final = ("plots", "metrics")
_TABLE: Final = ".tsv"

# Keras has folders of their own for the training and the evaluation of a run.
_SIDES: Final = frozenset({"train", "training", "val", "valid", "validation", "eval", "test"})

# PyTorch's add_hparams writes to a folder below that of the run, which is named by the time.
_HYPER_PARAMETERS: Final = re.compile(r"\d{9,11}\.\d+")


def run_of(log: Log) -> PurePosixPath | None:
    """Return the folder of the run that a log is a part of; None if the log is one file."""
    folder = log.path.parent
    if log.format == TENSORBOARD:
        return folder.parent if folder.name.lower() in _SIDES else folder
    if log.format == MLFLOW:
        above = [one for one in (folder, *folder.parents) if one.name == "metrics"]
        return above[-1].parent if above else None
    if log.path.suffix == _TABLE:
        above = [one for one in log.path.parents if one.parts[-2:] == _METRICS]
        return above[0].parent.parent if above else None
    return None


def files_of(
    run: PurePosixPath, log: Log, logs: Iterable[Log], entries: Iterable[Entry]
) -> list[Entry]:
    """Return the files of the run that a log belongs to."""
    if log.format == TENSORBOARD:
        events = [one for one in logs if one.format == TENSORBOARD]
        return [one.entry for one in events if _lies_in(run, one.path.parent)]
    if log.format == MLFLOW:
        folders = {run / "metrics", run / "params"}
        return [one for one in entries if folders.intersection(one.path.parents)]
    metrics = run.joinpath(*_METRICS)
    return [one for one in entries if one.path.suffix == _TABLE and metrics in one.path.parents]


def _lies_in(run: PurePosixPath, folder: PurePosixPath) -> bool:
    name = folder.name.lower()
    belongs = name in _SIDES or _HYPER_PARAMETERS.fullmatch(name) is not None
    return folder == run or (folder.parent == run and belongs)


def read_run(
    log: Log, run: PurePosixPath, files: Iterable[tuple[Entry, Stream]], name: str
) -> Columns:
    """Read the files of a run as one log of this name."""
    inside = ((entry.path.relative_to(run), stream) for entry, stream in files)
    if log.format == TENSORBOARD:
        from stabdiag.readers.tensorboard import log as tensorboard

        return tensorboard.read_files(inside, name)
    if log.format == MLFLOW:
        from stabdiag.readers.mlflow import folder as mlflow

        return mlflow.read_run(inside, name)
    from stabdiag.readers import dvclive

    return dvclive.read_run(inside, name)
