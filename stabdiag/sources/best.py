"""Read the best log of a container, with its sidecars.

Some runs have several files: TensorBoard's folders, MLflow's file store, DVCLive's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import and_more, plural
from stabdiag.readers.columns import Columns
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import describe_archive
from stabdiag.readers.source import MLFLOW_RUN_NAME
from stabdiag.sources.evaluations import with_evaluations
from stabdiag.sources.folder import Container, Entry, Folder, LoadedLog, ReadRequest, Sibling, note
from stabdiag.sources.logs import MAX_FULL_READ, MIN_LOSSES, PROCESS, Log, choose, find_logs
from stabdiag.sources.names import without_numbers, without_packed_suffix
from stabdiag.sources.neighbors import is_similar
from stabdiag.sources.outputs import with_outputs
from stabdiag.sources.ranks import first_rank_name, has_ranks, merge_ranks, rank_files
from stabdiag.sources.sidecars import file_sidecars, member_sidecars

ARCHIVES: Final = (
    *(".tar", ".tgz", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"),
    *(".tbz", ".tbz2", ".txz", ".tzst"),
)

# Maximum number of unread logs that a note names.
_MAX_NAMED_LOGS: Final = 3
# A packed file of fewer bytes has no record.
_SMALLEST_PACKED: Final = 60

# Parts of names that differ between files of one run: ranks, checkpoints, and rotated logs.
_PART: Final = lazy_pattern(
    r"(rank|gpu|node|worker|process|proc|host|checkpoint|ckpt|epoch|step)[-_.]?\d+|\.\d{1,3}$",
    re.IGNORECASE,
)

# Folders of checkpoints, each with a copy of the log up to that point.
_SNAPSHOT: Final = lazy_pattern(r"(?:checkpoint|ckpt|epoch|step)[-_.]?\d+", re.IGNORECASE)
_NUMBER_SUFFIX: Final = lazy_pattern(r"[-_. ]?\d+")

_TENSORBOARD: Final = "tensorboard"
_MLFLOW: Final = "mlflow-metric"

# Structured logs: a file with this suffix is not the output of another program.
_TABLE_SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".csv", ".tsv"})

# Files that only a logger writes.
_STORE_NAME: Final = lazy_pattern(r"^events\.out\.tfevents\.|\.wandb$")

# The folder with DVCLive's table for each metric.
_METRICS_FOLDER: Final = ("plots", "metrics")
_TABLE_SUFFIX: Final = ".tsv"

# Subfolders of a run: Keras has one each for training and evaluation, and PyTorch's add_hparams
# one named by the time.
_RUN_SUBFOLDER: Final = lazy_pattern(
    r"train|training|val|valid|validation|eval|test|\d{9,11}\.\d+", re.IGNORECASE
)


def read_best_log(
    container: Container, entries: Sequence[Entry], request: ReadRequest
) -> LoadedLog:
    """Read the best log among some files of a container."""
    logs = find_logs(container, entries)
    if request.format is not None:
        logs = [log for log in logs if log.format == request.format]
    if not logs:
        raise NoUsableRecord(_no_log_message(container, entries, request.format))
    log, others = choose(logs)
    ranks = _find_ranks(container, log, logs, request)
    if ranks is not None:
        log, columns, read = ranks
        others = [other for other in others if other.key not in read]
    run = _run_folder(log)
    files = [log] if run is None else _run_files(run, log, logs, entries)
    if ranks is not None:
        pass
    elif run is None or reader(log.format).missing:
        columns = _read_entry(container, log, request)
        if not request.grows:
            columns, joined = with_evaluations(columns, container, log, entries, request)
            others = [other for other in others if other.key != joined]
    else:
        name = container.name if run == PurePosixPath() else f"{container.name}/{run}"
        inside = (
            (entry.path.relative_to(run), stream) for entry, stream in container.streams(files)
        )
        columns = reader(log.format).functions().read_run(inside, name)
    if isinstance(container, Folder):
        if not request.grows:
            columns = with_outputs(columns, Path(log.key))
        sidecars = file_sidecars(Path(log.key), container.path, [entry.key for entry in files])
        container.notes.extend(_outside_links(container.path, sidecars.files))
    else:
        sidecars = member_sidecars(container, log.path, entries)
    other_names = list(
        dict.fromkeys(_name(other) for other in others if _name(other) != _name(log))
    )
    notes = [*_archive_notes(entries), *dict.fromkeys(container.notes)]
    if other_names:
        chosen = "the run of this folder" if run == PurePosixPath() else _name(log)
        unread = and_more(other_names, _MAX_NAMED_LOGS)
        notes = [f"chose {chosen} of {1 + len(other_names)} logs; not read: {unread}", *notes]
    columns = replace(columns, other_runs=_count_other_runs(log, others))
    paths = [*dict.fromkeys(container.hidden), *_unreadable_siblings(log, logs, entries)]
    if paths:
        hidden = _unread_paths(paths)
        columns = replace(columns, left_out=(*columns.left_out, hidden))
    keys = {entry.key for entry in files}
    views = _views(log, [other for other in others if other.key not in keys])
    siblings = views if run is not None else (*_siblings(container, log, others), *views)
    return replace(sidecars, events=[*map(note, notes), *sidecars.events]).attach(columns, siblings)


def with_unread_siblings(log: LoadedLog) -> LoadedLog:
    """Return a log that records which siblings were not read.

    Logs in other folders are separate runs, which a note names.
    """
    unread = [str(sibling.entry.path) for sibling in log.siblings if sibling.is_near]
    if not unread:
        return log
    entry = LeftOut(
        code=EventCode.LOGS_LEFT_OUT,
        message=f"{plural(len(unread), 'other log')}: {and_more(unread, _MAX_NAMED_LOGS)}",
        count=len(unread),
    )
    columns = replace(log.columns, left_out=(*log.columns.left_out, entry))
    return replace(log, columns=columns)


def _views(log: Log, others: Iterable[Log]) -> tuple[Sibling, ...]:
    """Return the other logs of the run in another format, or in texts of another name.

    They may belong to another run after all: one that failed. The smallest are read, up to the size
    of one log.
    """
    views = [
        other
        for other in others
        if (other.format != log.format or reader(log.format).text)
        and other.losses >= MIN_LOSSES
        and not other.is_evaluation
        and _name_without(other, _NUMBER_SUFFIX) != _name_without(log, _NUMBER_SUFFIX)
    ]
    views.sort(key=lambda view: view.size or 0)
    totals = accumulate(view.size or 0 for view in views)
    return tuple(
        Sibling(entry=view, is_view=True)
        for view, total in zip(views, totals, strict=True)
        if total <= MAX_FULL_READ
    )


def _unreadable_siblings(log: Log, logs: Sequence[Log], entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the files that are not readable, but certainly logs or named as the log is.

    A name differs in its number, or a packed file breaks off at its start. An empty file is the log
    of a run that logged nothing, but most ranks log nothing.
    """
    readable = {other.key for other in logs}
    for entry in entries:
        if entry.key in readable or entry.path.parent != log.path.parent:
            continue
        if entry.size and _STORE_NAME.search(entry.path.name) is not None:
            yield f"{entry.path} (not readable)"
        if log.path.suffix not in _TABLE_SUFFIXES:
            continue
        name, own_name = (without_numbers(path.name) for path in (entry.path, log.path))
        is_other = name == own_name and (entry.size or PROCESS.search(entry.path.name) is None)
        if is_other or _is_cut(entry, log):
            yield f"{entry.path} ({'not readable' if entry.size else 'empty'})"


def _is_cut(entry: Entry, log: Log) -> bool:
    """Return True if a packed file is named like a log, and breaks off before its first record."""
    name = entry.path.name
    is_packed = name != without_packed_suffix(name)
    return (
        is_packed and 0 < (entry.size or 0) < _SMALLEST_PACKED and is_similar(name, log.path.name)
    )


def _unread_paths(hidden: Sequence[str]) -> LeftOut:
    names = and_more(hidden, _MAX_NAMED_LOGS)
    return LeftOut(
        code=EventCode.LOGS_LEFT_OUT,
        message=f"{plural(len(hidden), 'path')} that may contain logs: {names}",
        count=len(hidden),
    )


def _siblings(container: Container, log: Log, others: Iterable[Log]) -> Iterator[Sibling]:
    """Yield the logs of other runs, ranks and attempts: logs of the same format with losses.

    Copies of the log in checkpoints and text logs with other names are excluded: they describe the
    same run.
    """
    is_text = reader(log.format).text
    for other in others:
        if other.format != log.format or other.losses < MIN_LOSSES or other.is_evaluation:
            continue
        if _name_without(other, _SNAPSHOT) == _name_without(log, _SNAPSHOT):
            continue
        if is_text and _name_without(other, _NUMBER_SUFFIX) != _name_without(log, _NUMBER_SUFFIX):
            continue
        is_near = container.is_archive or other.path.parent == log.path.parent
        is_rank = _name_without(other, PROCESS) == _name_without(log, PROCESS)
        yield Sibling(entry=other, is_near=is_near or is_rank)


def _name_without(log: Log, pattern: re.Pattern[str]) -> str:
    plain = without_packed_suffix(str(log.path))
    return "/".join(filter(None, pattern.sub("", plain).split("/")))


def only_log(
    container: Container, entry: Entry, entries: Sequence[Entry], request: ReadRequest
) -> LoadedLog:
    """Read a file of a container that is a log by its name, with its sidecars."""
    columns = _read_entry(container, entry, request)
    return member_sidecars(container, entry.path, entries).attach(columns)


def _read_entry(container: Container, entry: Entry, request: ReadRequest) -> Columns:
    with closing(container.streams([entry])) as streams:
        for _, stream in streams:
            return request.read(stream)
    raise NoUsableRecord("; ".join([f"{container.name}: cannot be read", *container.notes]))


def _find_ranks(
    container: Container, log: Log, logs: Sequence[Log], request: ReadRequest
) -> tuple[Log, Columns, frozenset[str]] | None:
    """Read the recorder's logs of all ranks of a job, if the log is one of them.

    Returns the log of the first rank, the joined columns, and the keys of all logs.
    """
    folder = {other.path.name: other for other in logs if other.path.parent == log.path.parent}
    first = folder.get(first_rank_name(log.path.name) or log.path.name)
    others = [] if first is None else rank_files(first.path.name, folder)
    if first is None or not others:
        return None
    columns = _read_entry(container, first, request)
    if not has_ranks(columns):
        return None
    joined = merge_ranks(columns, [_read_entry(container, other, request) for other in others])
    return first, joined, frozenset(entry.key for entry in (first, *others, log))


def _name(log: Log) -> str:
    return str(_run_folder(log) or log.path)


def _count_other_runs(log: Log, others: Iterable[Log]) -> int:
    """Return the number of other runs: logs of the same format at the same folder depth."""
    level = len(log.path.parts)
    peers = (x for x in others if x.format == log.format and len(x.path.parts) == level)
    runs = {_PART.sub("", _name(x)) for x in peers if x.losses and not x.is_evaluation}
    return len(runs - {_PART.sub("", _name(log))})


def _outside_links(folder: Path, files: Sequence[str]) -> Iterator[str]:
    """Yield a note about files that were read through links out of the folder."""
    root = folder.resolve()
    paths = ((Path(file), Path(file).resolve()) for file in files)
    outside = [
        f"{file.relative_to(folder)} to {real}"
        for file, real in paths
        if file.is_relative_to(folder) and not real.is_relative_to(root)
    ]
    if outside:
        yield f"followed links out of the folder: {and_more(outside)}"


def _archive_notes(entries: Iterable[Entry]) -> Iterator[str]:
    packed = [str(entry.path) for entry in entries if entry.path.name.lower().endswith(ARCHIVES)]
    if packed:
        yield f"did not search archives: {and_more(packed)}"


def _no_log_message(container: Container, entries: Sequence[Entry], format: str | None) -> str:
    if not isinstance(container, Folder):
        archive = describe_archive(container.name, [str(entry.path) for entry in entries])
        if archive is not None:
            return archive
    files = plural(len(entries), "file")
    kind = "a log" if format is None else f"a log in the format {format}"
    messages = [
        f"{container.name}: no file in it is {kind} (looked at {files})",
        *_archive_notes(entries),
    ]
    messages += dict.fromkeys(container.notes)
    return "; ".join([*messages, "`stabdiag formats` lists what can be read"])


def _run_folder(log: Log) -> PurePosixPath | None:
    """Return the folder of a run with several files; None if the log is a single file."""
    folder = log.path.parent
    if log.format == _TENSORBOARD:
        return folder.parent if log.is_curve or _RUN_SUBFOLDER.fullmatch(folder.name) else folder
    if log.format == _MLFLOW:
        above = [parent for parent in (folder, *folder.parents) if parent.name == "metrics"]
        return above[-1].parent if above else None
    if log.path.suffix == _TABLE_SUFFIX:
        above = [parent for parent in log.path.parents if parent.parts[-2:] == _METRICS_FOLDER]
        return above[0].parent.parent if above else None
    return None


def _run_files(
    run: PurePosixPath, log: Log, logs: Iterable[Log], entries: Iterable[Entry]
) -> Sequence[Entry]:
    if log.format == _TENSORBOARD:
        return [part for part in logs if part.format == _TENSORBOARD and _run_folder(part) == run]
    inside = {run / "metrics", run / "params"}
    if log.format != _MLFLOW:
        inside = {run.joinpath(*_METRICS_FOLDER)}
    return [
        entry
        for entry in entries
        if inside.intersection(entry.path.parents) or entry.path == run / MLFLOW_RUN_NAME
    ]
