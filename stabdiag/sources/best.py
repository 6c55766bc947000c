"""Read the best log of a place with many files, and what lies beside it.

Some runs are kept in several files: TensorBoard's folders, MLflow's file store, DVCLive's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.history import EventCode, LeftOut
from stabdiag.model.text import and_more, plural
from stabdiag.readers.columns import Columns
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import archive_of
from stabdiag.sources.folder import Container, Entry, Folder, LoadedLog, ReadRequest, Sibling, note
from stabdiag.sources.logs import Log, choose, logs_in
from stabdiag.sources.sidecars import file_sidecars, member_sidecars

ARCHIVES: Final = (".tar", ".tgz", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")

# How many of the logs that were not taken are named.
_SHOWN: Final = 3

# What tells files of one run apart: its ranks, its checkpoints, and what was rotated away.
_PART: Final = re.compile(
    r"(rank|gpu|node|worker|process|proc|host|checkpoint|ckpt|epoch|step)[-_.]?\d+|\.\d{1,3}$",
    re.IGNORECASE,
)

# Folders of checkpoints, each of which has a copy of the log up to it.
_SNAPSHOT: Final = re.compile(r"(?:checkpoint|ckpt|epoch|step)[-_.]?\d+", re.IGNORECASE)
_PROCESS: Final = re.compile(r"(?:rank|gpu|node|worker|process|proc|host)[-_.]?\d+", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"[-_. ]?\d+")

# With fewer losses a log is a summary.
_FEW_LOSSES: Final = 2

_TENSORBOARD: Final = "tensorboard"
_MLFLOW: Final = "mlflow-metric"

# Where DVCLive keeps a table for each metric.
_METRICS: Final = ("plots", "metrics")
_TABLE: Final = ".tsv"

# Keras has folders of their own for the training and the evaluation of a run, and PyTorch's
# add_hparams writes to one that is named by the time: they lie below that of the run.
_INNER: Final = re.compile(
    r"train|training|val|valid|validation|eval|test|\d{9,11}\.\d+", re.IGNORECASE
)


def best_of(place: Container, entries: Sequence[Entry], asked: ReadRequest) -> LoadedLog:
    """Read the best log among some files of a place."""
    logs = logs_in(place, entries)
    if asked.format is not None:
        logs = [log for log in logs if log.format == asked.format]
    if not logs:
        raise NoUsableRecord(_nothing(place, entries, asked.format))
    log, others = choose(logs)
    run = _run_of(log)
    files = [log] if run is None else _files_of(run, log, logs, entries)
    if run is None or reader(log.format).missing:
        columns = _only(place, log, asked)
    else:
        name = place.name if run == PurePosixPath() else f"{place.name}/{run}"
        inside = ((one.path.relative_to(run), stream) for one, stream in place.streams(files))
        columns = reader(log.format).functions().read_run(inside, name)
    if isinstance(place, Folder):
        beside = file_sidecars(Path(log.key), place.path, [one.key for one in files])
        place.notes.extend(_elsewhere(place.path, beside.files))
    else:
        beside = member_sidecars(place, log.path, entries)
    names = list(dict.fromkeys(_name(one) for one in others if _name(one) != _name(log)))
    notes = [*_archives(entries), *dict.fromkeys(place.notes)]
    if names:
        taken = "the run of this folder" if run == PurePosixPath() else _name(log)
        left = and_more(names, _SHOWN)
        notes = [f"took {taken} of {1 + len(names)} logs; not read: {left}", *notes]
    columns = replace(columns, other_runs=_runs_beside(log, others))
    if place.hidden:
        hidden = _not_looked_into([*dict.fromkeys(place.hidden)])
        columns = replace(columns, left_out=(*columns.left_out, hidden))
    siblings = () if run is not None else tuple(_siblings(place, log, others))
    return replace(beside, events=[*map(note, notes), *beside.events]).of(columns, siblings)


def with_unread_siblings(found: LoadedLog) -> LoadedLog:
    """Return a log whose history says which siblings were not read.

    Logs of other folders are runs of their own: a note names them.
    """
    unread = [str(one.entry.path) for one in found.siblings if one.is_near]
    if not unread:
        return found
    entry = LeftOut(
        code=EventCode.LOGS_LEFT_OUT,
        message=f"{plural(len(unread), 'other log')}: {and_more(unread, _SHOWN)}",
        count=len(unread),
    )
    columns = replace(found.columns, left_out=(*found.columns.left_out, entry))
    return replace(found, columns=columns)


def _not_looked_into(hidden: Sequence[str]) -> LeftOut:
    return LeftOut(
        code=EventCode.LOGS_LEFT_OUT,
        message=f"{plural(len(hidden), 'path')} that may hold logs: {and_more(hidden, _SHOWN)}",
        count=len(hidden),
    )


def _siblings(place: Container, log: Log, others: Iterable[Log]) -> Iterator[Sibling]:
    """Yield the logs of other runs, ranks and attempts: of the same format, with losses.

    Checkpoints hold copies of one log. What is printed for people in files of other names is about
    the same run.
    """
    is_text = reader(log.format).text
    for one in others:
        if one.format != log.format or one.losses < _FEW_LOSSES or one.is_evaluation:
            continue
        if _bare(one, _SNAPSHOT) == _bare(log, _SNAPSHOT):
            continue
        if is_text and _bare(one, _NUMBERS) != _bare(log, _NUMBERS):
            continue
        near = place.is_archive or one.path.parent == log.path.parent
        is_rank = _bare(one, _PROCESS) == _bare(log, _PROCESS)
        yield Sibling(entry=one, is_near=near or is_rank)


def _bare(log: Log, pattern: re.Pattern[str]) -> str:
    return "/".join(filter(None, pattern.sub("", str(log.path)).split("/")))


def only_log(
    place: Container, entry: Entry, entries: Sequence[Entry], asked: ReadRequest
) -> LoadedLog:
    """Read a file of a place that is a log by its name, with what lies beside it."""
    columns = _only(place, entry, asked)
    return member_sidecars(place, entry.path, entries).of(columns)


def _only(place: Container, entry: Entry, asked: ReadRequest) -> Columns:
    with closing(place.streams([entry])) as streams:
        for _, stream in streams:
            return asked.read(stream)
    raise NoUsableRecord("; ".join([f"{place.name}: cannot be read", *place.notes]))


def _name(log: Log) -> str:
    return str(_run_of(log) or log.path)


def _runs_beside(log: Log, others: Iterable[Log]) -> int:
    """Return how many of the others are runs of their own: of the same format, on its level."""
    level = len(log.path.parts)
    beside = (one for one in others if one.format == log.format and len(one.path.parts) == level)
    runs = {_PART.sub("", _name(one)) for one in beside if one.losses and not one.is_evaluation}
    return len(runs - {_PART.sub("", _name(log))})


def _elsewhere(folder: Path, files: Sequence[str]) -> Iterator[str]:
    """Say which of the files that were read lie outside the folder, behind links in it."""
    root = folder.resolve()
    there = ((Path(file), Path(file).resolve()) for file in files)
    out = [
        f"{file.relative_to(folder)} to {real}"
        for file, real in there
        if file.is_relative_to(folder) and not real.is_relative_to(root)
    ]
    if out:
        yield f"followed links that lead out of the folder: {and_more(out)}"


def _archives(entries: Iterable[Entry]) -> Iterator[str]:
    packed = [str(one.path) for one in entries if one.path.name.lower().endswith(ARCHIVES)]
    if packed:
        yield f"did not look into archives: {and_more(packed)}"


def _nothing(place: Container, entries: Sequence[Entry], format: str | None) -> str:
    if not isinstance(place, Folder):
        archive = archive_of(place.name, [str(one.path) for one in entries])
        if archive is not None:
            return archive
    files = plural(len(entries), "file")
    what = "a log" if format is None else f"a log in the format {format}"
    told = [f"{place.name}: no file in it is {what} (looked at {files})", *_archives(entries)]
    told += dict.fromkeys(place.notes)
    return "; ".join([*told, "`stabdiag formats` lists what can be read"])


def _run_of(log: Log) -> PurePosixPath | None:
    """Return the folder of the run that a log is a part of; None if the log is one file."""
    folder = log.path.parent
    if log.format == _TENSORBOARD:
        return folder.parent if _INNER.fullmatch(folder.name) else folder
    if log.format == _MLFLOW:
        above = [one for one in (folder, *folder.parents) if one.name == "metrics"]
        return above[-1].parent if above else None
    if log.path.suffix == _TABLE:
        above = [one for one in log.path.parents if one.parts[-2:] == _METRICS]
        return above[0].parent.parent if above else None
    return None


def _files_of(
    run: PurePosixPath, log: Log, logs: Iterable[Log], entries: Iterable[Entry]
) -> Sequence[Entry]:
    if log.format == _TENSORBOARD:
        return [one for one in logs if one.format == _TENSORBOARD and _run_of(one) == run]
    inside = {run / "metrics", run / "params"}
    if log.format != _MLFLOW:
        inside = {run.joinpath(*_METRICS)}
    return [one for one in entries if inside.intersection(one.path.parents)]
