"""Group the files of a folder into runs by name, without opening them.

1. A log with a generic name, such as ``metrics.csv`` or ``train.log``, belongs to the run of its
   folder. All generic logs are views of that run, including logs in subfolders where a run
   keeps its logs, such as ``checkpoint-500`` or ``tensorboard``.
2. If two or more files of one format have specific names, each name is a run. Text files do not
   count if the folder has a structured log by rule 1: they are the output of its jobs.
3. All other files belong to the run of their folder.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, TypeAlias
from zlib import crc32

from stabdiag.errors import NoUsableRecord
from stabdiag.model.patterns import lazy_pattern
from stabdiag.sources.best import ARCHIVES
from stabdiag.sources.logs import RANK, has_generic_name, may_be_log
from stabdiag.sources.sidecars import is_manifest

# Subfolders for some of the logs of a run.
INNER: Final = lazy_pattern(
    r"logs?|tensorboard|tb|events|csv|metrics|stats|vis_data|runs|files|train|training|val|valid"
    r"|validation|eval|test|plots|params|(checkpoint|ckpt|epoch|step|global_step)[-_]?\d+.*"
    r"|rank[-_]?\d+|\d{9,11}\.\d+|(?P<start>[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.+)",
)

# Names of files in the store of a scan, which are not logs.
STORE_PART: Final = lazy_pattern(r"stabdiag-\d+-[0-9a-f]+\.parquet")

# The profiles next to the rows of the same name; readers of a folder of Parquet skip these names.
PROFILES: Final = lazy_pattern(r"_stabdiag-\d+-[0-9a-f]+\.profiles")

_STRUCTURED: Final = frozenset(
    {".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq", ".wandb", ".tfevents"}
)
_PACKED: Final = lazy_pattern(r"(\.(gz|bz2|xz|zst|lz4))?$", re.IGNORECASE)
_ROTATION_NUMBER: Final = lazy_pattern(r"(\.[a-z]\w{1,7})\.\d{1,3}$", re.IGNORECASE)
_ATTEMPT: Final = lazy_pattern(r"(attempt|restart|retry|part)[-_.]?\d{1,4}(?!\d)", re.IGNORECASE)
# The longest etag in a row of the store.
_MAX_ETAG: Final = 200
_EVENT_FILE: Final = "tfevents"


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """A file in a folder: its relative path, size, time of last change, and etag."""

    path: str
    size: int | None
    written: float | None
    etag: str | None = None

    def in_folder(self, name: str) -> File:
        """Return the file with its path relative to the parent folder."""
        return replace(self, path=f"{name}/{self.path}")


def local_file(path: str, status: os.stat_result) -> File:
    """Return a file on this machine.

    Its etag is the time of the last change of the file or its attributes. A program that keeps the
    size and sets the time of the content back does not set this one.
    """
    return File(path, status.st_size, status.st_mtime, f"{status.st_ctime_ns:x}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """A run to read, or an archive of runs, identified by file names.

    Attributes:
        key: The identifier in the next scan.
        root: The folder or its URL; empty if the user named the file.
        run: The display name.
        logs: The files to read.
        sidecars: Configuration files next to the logs.
        is_certain: Whether the name shows for certain that it is a log.
        attempts: Whether the files are attempts at one run, to be read in order.
    """

    key: str
    root: str
    run: str
    logs: tuple[File, ...]
    sidecars: tuple[File, ...] = ()
    is_certain: bool = True
    attempts: bool = False

    @property
    def size(self) -> int | None:
        """The total size of its logs in bytes; None if unknown."""
        sizes = [file.size for file in self.logs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def modified(self) -> float | None:
        """The time of the last change of its logs and sidecar files."""
        return max((f.written for f in (*self.logs, *self.sidecars) if f.written), default=None)

    @property
    def etag(self) -> str | None:
        """The tags of its logs and sidecar files, joined; a checksum if they are long."""
        tags = " ".join(f.etag for f in (*self.logs, *self.sidecars) if f.etag)
        return (tags if len(tags) <= _MAX_ETAG else f"{crc32(tags.encode()):08x}") or None


class UnreadReason(StrEnum):
    """The reason why a file or folder that may contain a run was not read."""

    LINK_TO_FOLDER = "a link to a folder; to scan it, name it"
    BROKEN_LINK = "a broken link"
    HIDDEN = "a hidden folder that may contain logs; to scan it, name it"
    OF_A_PROGRAM = "a folder of a program that may contain logs; to scan it, name it"
    HIDDEN_FILE = "a hidden file that may be a log; to scan it, name it"
    TOO_DEEP = "a folder nested too deeply"
    UNLISTED = "a folder that cannot be listed"
    CLOSED_ARCHIVE = "an archive of a kind that cannot be opened; unpack it first"
    CLOSED_HISTORY = "values of a kind that is not opened; export them as CSV or JSON"
    INCOMPLETE_DOWNLOAD = "a download that is not complete"
    FAILED_OUTPUT = "an output that reports a failure, without a loss in it"
    UNKNOWN_RECORDS = "an output with records, without a known loss in them"
    CUT_ARCHIVE = "a truncated or damaged archive"


@dataclass
class SkippedEntries:
    """Files and folders that were skipped: a count and an example for each reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def skip(self, reason: str, path: str, times: int = 1) -> None:
        """Count a skipped path, or several with ``path`` as the example."""
        self.counts[reason] += times
        self.examples.setdefault(reason, path)

    def merge(self, other: SkippedEntries) -> None:
        """Add the entries that another part of the scan skipped."""
        for reason, times in other.counts.items():
            self.skip(reason, other.examples[reason], times)

    def no_log_error(self, source: str) -> NoUsableRecord:
        """Return the error for a source that contains no run."""
        messages = [f"{source}: no log of a run found", *self.messages()]
        return NoUsableRecord("; ".join([*messages, "stabdiag formats lists what can be read"]))

    def messages(self) -> list[str]:
        """Return one line for each reason."""
        return [self._line(reason, count) for reason, count in self.counts.most_common()]

    def unread_messages(self) -> list[str]:
        """Return one line for each reason why something that may contain a run was not read."""
        return [
            self._line(reason, count)
            for reason, count in self.counts.most_common()
            if isinstance(reason, UnreadReason)
        ]

    def _line(self, reason: str, count: int) -> str:
        others = f" and {count - 1} more" if count > 1 else ""
        return f"skipped, {reason}: {self.examples[reason]}{others}"


# Lists the files in a folder and the names of its subfolders.
Lister: TypeAlias = "Callable[[str, SkippedEntries], tuple[list[File], list[str]]]"


@dataclass(frozen=True, slots=True, eq=False)
class _LogName:
    """The properties of a log that its name shows.

    ``is_generic`` is True for names such as ``metrics``, which belong to the run of the folder.
    """

    file: File
    stem: str
    suffix: str
    is_generic: bool
    is_structured: bool
    is_attempt: bool


def folder_jobs(root: str, run: str, files: Sequence[File]) -> Iterator[Job]:
    """Yield the runs among the files of a folder and of the subfolders for logs."""
    sidecars: dict[str | None, list[File]] = {}  # by the stem of their log; None: for all logs
    logs = []
    for file in files:
        if file.path.lower().endswith(ARCHIVES):
            key = f"{root}/{file.path}"
            yield Job(key=key, root=root, run=_joined(run, file.path), logs=(file,))
        elif may_be_log(file.path.rpartition("/")[2]):
            log = _named(file)
            # An empty structured log is a run that ended early; other empty files are ignored.
            if file.size or log.is_structured:
                logs.append(log)
        stem = file.path.removesuffix(".manifest.json")
        if stem != file.path or is_manifest(file.path.rpartition("/")[2]):
            sidecars.setdefault(stem if stem != file.path else None, []).append(file)
    logs.sort(key=lambda log: (log.stem, log.suffix, log.file.path))
    run_stems = _run_stems(logs)
    others = [log for log in logs if log.stem not in run_stems]
    groups = [list(group) for stem, group in groupby(logs, lambda g: g.stem) if stem in run_stems]
    for group in [*groups, others] if others else groups:
        yield _job(root, run, group, sidecars, is_separate=group is not others)


def _run_stems(logs: list[_LogName]) -> set[str]:
    """Return the names of the separate runs in one folder."""
    is_run = any(log.is_generic and log.is_structured for log in logs)
    specific = [log for log in logs if not log.is_generic]
    kinds = {(log.suffix, log.stem) for log in specific if log.is_structured or not is_run}
    has_several = len(kinds) > len({suffix for suffix, _ in kinds})
    return {log.stem for log in specific if has_several}


def _job(
    root: str,
    run: str,
    logs: list[_LogName],
    sidecars: Mapping[str | None, list[File]],
    *,
    is_separate: bool,
) -> Job:
    are_attempts = all(log.is_attempt for log in logs) and len({log.suffix for log in logs}) == 1
    name = logs[0].file.path if len(logs) == 1 else logs[0].stem if is_separate else ""
    stems = set()
    for log in logs:
        folder, slash, file = log.file.path.rpartition("/")
        stems |= {
            f"{folder}{slash}{part[0]}" for part in (file.rpartition("."), file.partition("."))
        }
    return Job(
        key=f"{root}/{name}" if name else root,
        root=root,
        run=run if run and all(log.is_generic for log in logs) else _joined(run, name),
        logs=tuple(log.file for log in logs),
        sidecars=tuple(file for stem in [*sorted(stems), None] for file in sidecars.get(stem, ())),
        is_certain=any(log.is_structured for log in logs),
        attempts=are_attempts and len(logs) > 1,
    )


def _joined(run: str, name: str) -> str:
    return "/".join(filter(None, (run, name))) or "."


def _named(file: File) -> _LogName:
    folder, _, name = file.path.rpartition("/")
    if name.startswith("events.out") or (
        _EVENT_FILE in name and not name.endswith(f".{_EVENT_FILE}")
    ):
        start = next((p for p in folder.split("/") if (m := INNER.match(p)) and m["start"]), "")
        return _LogName(file, start, _EVENT_FILE, not start, not start, is_attempt=False)
    base = _ROTATION_NUMBER.sub(r"\1", _PACKED.sub("", name))
    stem, dot, suffix = base.rpartition(".")
    stem, suffix = (stem, f".{suffix.lower()}") if dot and stem else (base, "")
    if suffix[1:].isdigit():  # lr0.001 is a name without a suffix
        stem, suffix = base, ""
    bare = _ATTEMPT.sub("", RANK.sub("", stem)).strip("-_. ")
    is_generic = has_generic_name(bare)
    is_structured = suffix in _STRUCTURED or (is_generic and suffix == ".json")
    is_attempt = _ATTEMPT.search(stem) is not None
    return _LogName(file, bare or stem, suffix, is_generic, is_structured, is_attempt)
