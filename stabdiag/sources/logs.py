"""Find the logs among the files of a container, and choose one.

1. Training logs take precedence over evaluation logs, and logs with losses over logs without.
2. Files of one format at the same folder depth, such as ``version_0/metrics.csv`` and
   ``version_1/metrics.csv``, are separate runs: the newest is chosen. Files written within a minute
   of it, as after a copy, are ordered by name: the one with the highest number is chosen, but the
   first of several ranks, and ``log.jsonl`` rather than the rotated ``log.jsonl.1``.
3. The remaining logs that were written within an hour of the newest are views of one run: the one
   with the most losses is chosen. A structured log with about as many losses takes precedence over
   text.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.text import word_list
from stabdiag.readers import as_written
from stabdiag.readers.columns import Columns
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import detect_format
from stabdiag.readers.source import Stream
from stabdiag.sources.curves import curve_folders
from stabdiag.sources.folder import Container, Entry, Folder
from stabdiag.sources.sidecars import is_manifest

# Maximum number of files inspected, bytes read of each, and maximum size of a file that is read in
# full if its format needs that.
_MAX_FILES: Final = 300
_LOG_HEAD_SIZE: Final = 1 << 18
MAX_FULL_READ: Final = 1 << 26

# If none of them is a log, this many are read further, up to this many bytes: a job may print its
# source code first.
_MAX_DEEP_READS: Final = 10
_DEEP_HEAD: Final = 1 << 24

# A log with fewer losses is a summary, if another has more.
MIN_LOSSES: Final = 2

# Two loss counts, estimated from the heads of files, count as equal above this ratio.
_SIMILAR_COUNT: Final = 0.8

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0

# Suffixes of files that are not logs: weights, arrays, images, code, archives, configurations.
_OTHER_SUFFIXES: Final = frozenset(
    """
    .bin .safetensors .pt .pth .ckpt .onnx .msgpack .h5 .hdf5 .keras .pb .tflite .gguf .distcp
    .npy .npz .pkl .pickle .joblib .model .arrow .idx .mmap .lock .pid .metadata
    .png .jpg .jpeg .gif .svg .webp .bmp .tif .tiff .pdf .mp4 .avi .wav .flac .mp3
    .py .pyc .ipynb .sh .md .rst .html .css .js .cpp .cu .h .so .o .patch .diff
    .tar .tgz .tbz .tbz2 .txz .tzst .zip .7z .rar .yaml .yml .toml .cfg .ini
    """.split()  # noqa: SIM905 - so that it can be read
)
# Words of names that any run may give to its log.
_LOG_WORDS: Final = frozenset(
    word_list(
        "train training trainer eval evaluation val valid validation test log logs metric metrics "
        "scalar scalars history progress loss losses result results output out err stdout stderr "
        "debug internal console event events state stats run raw main"
    )
)
# Pages that may be a log if all words of their name are log words: results.md. A notebook contains
# its printed output, so any name will do.
_NOTEBOOK_SUFFIX: Final = ".ipynb"
_PAGE_SUFFIXES: Final = frozenset(word_list(".ipynb .md .rst .html .yaml .yml .toml"))
_NUMBER_OF_PAGE: Final = lazy_pattern(r"\d+")
# With fewer losses, it shows the results of several runs.
_MIN_LOSSES_OF_PAGE: Final = 10
_PROMISING: Final = lazy_pattern(
    r"log|metric|train|loss|result|progress|history|scalars|tfevents|wandb|stdout|stderr|slurm"
    r"|\.(jsonl|ndjson|csv|tsv|parquet|out|err|wandb|db)(\.|$)",
    re.IGNORECASE,
)
_SUMMARY_FILE: Final = lazy_pattern(
    r"^(all|train|eval|test|predict)_results\.json$|summary\.json$"
    r"|^(experiment|basic-variant|searcher)[-_]state-[\d_-]+\.json$"  # Ray Tune
)
PROCESS: Final = lazy_pattern(r"(?:rank|gpu|node|worker|process|proc|host)[-_.]?\d+", re.IGNORECASE)
_ROTATED_FILE: Final = lazy_pattern(r"\.\d{1,3}(\.(gz|bz2|xz|zst))?$")

# The runs of a folder that one page or report can compare.
_MAX_COMPARED_RUNS: Final = 16

# The rank of a low-rank adapter is not the rank of a process.
RANK: Final = lazy_pattern(r"(?<![a-z])(?<!lora.)rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)


@frozen
class Log(Entry):
    """A file that is a log, with its format and an estimate of its number of training losses.

    ``is_curve`` is True if its folder has one curve of the run in the folder above.
    """

    format: str
    losses: float
    is_curve: bool = False

    @property
    def is_evaluation(self) -> bool:
        """Whether the file or its folder is named like an evaluation."""
        parts = (self.path.name, *self.path.parent.parts[-1:])
        return any(map(is_evaluation, parts)) and not any("train" in part for part in parts)


def find_logs(container: Container, entries: Sequence[Entry]) -> list[Log]:
    """Return the files that are logs, judged by their content."""
    candidates = [x for x in entries if x.size != 0 and may_be_log(x.path.name)]
    candidates.sort(key=_priority)
    if len(candidates) > _MAX_FILES:
        container.notes.append(f"inspected {_MAX_FILES} of {len(candidates)} files")
    logs: list[Log] = []
    for limit, size in ((_MAX_FILES, _LOG_HEAD_SIZE), (_MAX_DEEP_READS, _DEEP_HEAD)):
        if not logs:
            results = (
                _inspect(entry, stream, size)
                for entry, stream in container.streams(candidates[:limit])
            )
            logs = [log for log in results if log is not None]
    curves = curve_folders(entry.path for entry in entries)
    return [replace(log, is_curve=True) if log.path.parent in curves else log for log in logs]


def may_be_log(name: str) -> bool:
    """Return True if a file of this name may be a log, and not weights, an image or code."""
    name = name.lower()
    # An event file ends with the name of its host, such as login.sh.
    has_suffix = "." in name[1:] and not name.startswith("events.out.tfevents.")
    suffix = f".{name.rpartition('.')[2]}" if has_suffix else ""
    return (
        not name.startswith(".")
        and (suffix not in _OTHER_SUFFIXES or _is_page_of_log(name, suffix))
        and _SUMMARY_FILE.search(name) is None
        and not is_manifest(name)
    )


def has_generic_name(stem: str) -> bool:
    """Return True if each word of the name of a log is one that any run may use."""
    return {*filter(None, re.split(r"[-_. ]+", stem.lower()))} <= _LOG_WORDS


def is_page_without_log(path: PurePath, losses: float) -> bool:
    """Return True if a file is a page with too few losses for the log of a run."""
    return path.suffix.lower() in _PAGE_SUFFIXES and losses < _MIN_LOSSES_OF_PAGE


def count_losses(columns: Columns) -> int:
    """Return the number of values in the column of the loss."""
    loss = assign(columns.names).columns.get("loss")
    return 0 if loss is None else int(columns.load(loss).present.sum())


def _is_page_of_log(name: str, suffix: str) -> bool:
    stem = _NUMBER_OF_PAGE.sub("", name.removesuffix(suffix)).strip("-_. ")
    if suffix == _NOTEBOOK_SUFFIX:
        return True
    return suffix in _PAGE_SUFFIXES and stem != "" and has_generic_name(stem)


def _priority(entry: Entry) -> tuple[bool, int, float]:
    """Return a sort key: the most likely logs first, then the newest."""
    unlikely = _PROMISING.search(entry.path.name) is None
    return unlikely, len(entry.path.parts), -entry.written


def _inspect(entry: Entry, stream: Stream, size: int) -> Log | None:
    """Read the head of a file, or all of it if its format needs that; return it if it is a log.

    An unreadable log is returned too: if it is the only one, its reader reports the error.
    """
    log = _read_as_log(entry, stream, size)
    return None if log is not None and is_page_without_log(entry.path, log.losses) else log


def _read_as_log(entry: Entry, stream: Stream, size: int) -> Log | None:
    """Read a file as a log of the format that its head shows; see ``_inspect``."""
    name = None
    try:
        head = stream.peek(size)
        is_whole = len(head) < size
        unpacked = as_written(Stream(stream.name, io.BytesIO(head)))
        start = unpacked.peek(size)
        name = detect_format(start, is_complete=is_whole) if start else None
        if name is None:
            return None
        try:
            return _log(entry, name, reader(name).read(unpacked), len(head))
        except LogError:
            if is_whole or (entry.size or 0) > MAX_FULL_READ:
                raise
        return _log(entry, name, reader(name).read(as_written(stream)), entry.size or size)
    except LogError:
        return None if name is None else Log(**vars(entry), format=name, losses=0)


def _log(entry: Entry, name: str, columns: Columns, size: int) -> Log:
    losses = float(count_losses(columns))
    scale = max((entry.size or size) / size, 1.0)
    # A log with column names takes precedence over a log without.
    losses = min(losses, 1) if columns.unnamed else losses * scale
    return Log(**vars(entry), format=name, losses=losses)


def choose(logs: Sequence[Log]) -> tuple[Log, list[Log]]:
    """Choose a log by the rules above; return it and the others, newest first."""
    logs = _preferred(logs, lambda log: log.losses > 0)
    if not logs[0].losses:  # if a package is missing, let the reader say what to install
        logs = _preferred(logs, lambda log: bool(reader(log.format).missing))
    remaining = _preferred(logs, lambda log: not log.is_evaluation)
    remaining = _preferred(remaining, lambda log: log.losses >= MIN_LOSSES)
    levels: dict[tuple[int, str], list[Log]] = {}
    for log in remaining:
        levels.setdefault((len(log.path.parts), log.format), []).append(log)
    views = [_newest(runs) for runs in levels.values()]
    newest = max(log.written for log in views)
    views = [log for log in views if log.written >= newest - _HOUR]
    max_losses = max(log.losses for log in views)
    views = _preferred(
        views, lambda log: not reader(log.format).text and log.losses >= _SIMILAR_COUNT * max_losses
    )
    chosen = max(views, key=lambda log: (log.losses, log.written, -len(log.path.parts)))
    others = [log for log in logs if log is not chosen]
    return chosen, sorted(others, key=lambda log: (-log.written, natural(str(log.path))))


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts names by their numbers: ``version_2`` before ``version_10``."""
    pieces = re.findall(r"(\D*)(\d*)", name)
    return tuple((text.lower(), int(digits[:18] or -1)) for text, digits in pieces)


def _newest(logs: Sequence[Log]) -> Log:
    last = max(log.written for log in logs)
    fresh = [log for log in logs if log.written >= last - _MINUTE]
    names = {str(log.path) for log in fresh}
    # A file named like another plus a number is an older, rotated part of it.
    fresh = _preferred(
        fresh, lambda log: _ROTATED_FILE.sub("", name := str(log.path)) not in names - {name}
    )
    fresh.sort(key=lambda log: natural(str(log.path)))
    # Usually only rank 0 logs; if several ranks do, the log with the most losses is the main one.
    if all(PROCESS.search(str(log.path)) for log in fresh):
        return max(fresh, key=lambda log: log.losses)
    return fresh[-1]


def _preferred(logs: Iterable[Log], condition: Callable[[Log], bool]) -> list[Log]:
    """Return the logs that meet a condition; all of them if none does."""
    logs = list(logs)
    return [log for log in logs if condition(log)] or logs


def parse_rank(name: str) -> int | None:
    """Return the last rank in a name, such as 3 in ``job/run.rank3.jsonl``, or None."""
    ranks = RANK.findall(name)
    return int(ranks[-1]) if ranks else None


def are_ranks_of_one_job(ranks: Collection[int | None]) -> bool:
    """Return True if numbers are the ranks of one job: all different, including rank 0.

    Other numbers called a rank may be anything, such as a matrix rank in a sweep.
    """
    return 0 in ranks and None not in ranks and 1 < len(ranks) == len(set(ranks))


def find_rank_logs(source: str | os.PathLike[str]) -> list[Path]:
    """Return the logs of the ranks in a folder, in order; empty if there are fewer than two.

    Raises:
        LogError: if the folder cannot be opened, or contains the ranks of several jobs.
    """
    folder = Path(source)
    if not folder.is_dir():
        return []
    container = Folder(folder)
    jobs: dict[str, dict[int, list[Log]]] = {}
    for log in find_logs(container, container.entries()):
        path = str(log.path)
        for last in list(RANK.finditer(path))[-1:]:  # the ranks of a job share the path before it
            job = jobs.setdefault(path[: last.start()], {})
            job.setdefault(int(last[1]), []).append(log)
    ranks = _only_job(jobs, container.name)
    return [Path(choose(logs)[0].key) for _, logs in sorted(ranks.items())]


def find_run_logs(source: str | os.PathLike[str]) -> list[Path]:
    """Return a log for each run in a folder, in the order of their names; empty if there is one.

    Runs are the logs of one format in the folder itself, or its subfolders that contain logs.

    Raises:
        LogError: if the folder cannot be opened, or contains too many runs to compare.
    """
    folder = Path(source)
    if not folder.is_dir():
        return []
    container = Folder(folder)
    runs: dict[str, list[Log]] = {}
    logs = [log for log in find_logs(container, container.entries()) if log.losses > 0]
    direct = [log for log in logs if len(log.path.parts) == 1 and log.format != "tensorboard"]
    for log in direct or logs:
        runs.setdefault(log.path.parts[0], []).append(log)
    if direct:
        frequent, _ = Counter(log.format for log in direct).most_common(1)[0]
        runs = {name: logs for name, logs in runs.items() if logs[0].format == frequent}
    if len(runs) > _MAX_COMPARED_RUNS:
        raise LogError(
            f"{container.name}: contains {len(runs)} runs, too many to compare; name some of them, "
            "or diagnose all with stabdiag scan"
        )
    if len(runs) < 2:
        return []
    return [Path(choose(runs[name])[0].key) for name in sorted(runs, key=natural)]


def _only_job(jobs: dict[str, dict[int, list[Log]]], name: str) -> dict[int, list[Log]]:
    """Return the logs of the only job, by rank; each node may have its own folder."""
    several = [ranks for ranks in jobs.values() if are_ranks_of_one_job(ranks)]
    if len(several) > 1:
        shown = ", ".join(repr(job) for job in list(jobs)[:3])
        raise LogError(
            f"{name}: contains the ranks of several jobs ({shown}, …); name the folder of one job"
        )
    if several:
        return several[0]
    items = [item for ranks in jobs.values() for item in ranks.items()]
    return dict(items) if are_ranks_of_one_job([rank for rank, _ in items]) else {}
