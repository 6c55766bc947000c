"""The base class of containers of logs, and the container for a folder on disk.

A container lists its files by path and opens them as streams.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Final

from stabdiag.errors import LogError, unreadable
from stabdiag.model.events import Event, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest import Manifest
from stabdiag.readers import read_stream
from stabdiag.readers.columns import ColumnFilter, Columns, every_column
from stabdiag.readers.source import Stream, open_stream
from stabdiag.sources.unopened import (
    NO_LOGS,
    VIRTUAL_ENVIRONMENT,
    hides_logs,
    is_closed_archive,
    is_hidden_log,
    is_incomplete_download,
    looks_like_log,
)

# Limits of a listing: the number of files, and the levels of folders.
MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 6


@frozen
class Entry:
    """A file in a container.

    Attributes:
        path: Its path in the container.
        size: Its size in bytes, None if unknown.
        written: The time of its last change in seconds, 0 if unknown.
        key: The identifier that the container opens.
    """

    path: PurePosixPath
    size: int | None
    written: float
    key: str


@frozen
class Sibling:
    """A log of another run, rank or attempt that was not read.

    ``is_near`` is True if it could be mistaken for the log that was read: it is in the same folder
    or archive, or belongs to another rank. Logs in other folders are separate runs. A log that
    ``is_view`` seems to show the same run.
    """

    entry: Entry
    is_near: bool = False
    is_view: bool = False


@frozen
class LoadedLog:
    """The columns of a log, the manifest next to it, and the checkpoints by unit.

    ``siblings`` are logs of other runs, ranks or attempts in the same container that were not read.
    """

    columns: Columns
    manifest: Manifest = field(default_factory=Manifest)
    checkpoints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    siblings: tuple[Sibling, ...] = ()


@frozen
class ReadRequest:
    """How to read a log: its columns and its format (detected by default).

    If the log still ``grows``, an unfinished last line is not read. ``run_id`` selects a run of a
    database that holds several. ``judged`` are the identities of the other logs that are judged,
    None if this holds for all logs next to this one: they do not count as left out.
    """

    format: str | None = None
    is_required: ColumnFilter = every_column
    grows: bool = False
    run_id: str | None = None
    judged: frozenset[str] | None = frozenset()

    def read(self, stream: Stream) -> Columns:
        """Read a log with these options."""
        return read_stream(
            stream,
            format=self.format,
            is_required=self.is_required,
            grows=self.grows,
            run_id=self.run_id,
        )


class Container:
    """A folder, an archive, or a folder behind a URL.

    Attributes:
        name: The name in reports.
        notes: What was left out, and why.
        hidden: Paths that may contain logs but were not searched, each with the reason.
    """

    is_archive = False

    def __init__(self, name: str) -> None:
        """Create a container without files."""
        self.name = name
        self.notes: list[str] = []
        self.hidden: list[str] = []

    def entries(self) -> Sequence[Entry]:
        """Return the files, upper levels first."""
        return ()

    def open(self, entry: Entry) -> Stream:
        """Open a file."""
        return open_stream(entry.key)

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open the files one after the other; read each before requesting the next.

        Files that cannot be opened are skipped with a note.
        """
        for entry in entries:
            try:
                stream = self.open(entry)
            except LogError as error:
                self.notes.append(str(error))
                self.hidden.append(f"{entry.path} (cannot be opened)")
                continue
            with stream:
                yield entry, stream


def list_by_level(
    root: str, list_files: Callable[[str, list[str]], Iterable[Entry]]
) -> list[Entry]:
    """Return the files in a folder and below, upper levels first.

    ``list_files`` returns the files of one folder and appends its subfolders to a list.
    """
    entries: list[Entry] = []
    level = [root]
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for folder in level:
            entries += list_files(folder, below)
        level = below
    return entries


def note(message: str) -> Event:
    """Return an event about a source."""
    return Event(kind=EventKind.SOURCE, message=message)


def is_skipped(folder: str) -> bool:
    """Return True if a folder of this name is not searched; it has no Hydra configuration."""
    return folder in NO_LOGS or (folder.startswith(".") and folder != ".hydra")


class Folder(Container):
    """The files in a folder and its subfolders, a few levels deep."""

    def __init__(self, path: Path) -> None:
        """Create the container without listing the folder."""
        super().__init__(str(path))
        self.path = path

    def entries(self) -> Sequence[Entry]:
        """Return the files in the folder."""
        seen: set[tuple[int, int]] = set()
        entries = list_by_level(self.name, partial(self._files, seen))
        if len(seen) == MAX_FILES:
            self.notes.append(f"looked at the first {MAX_FILES} files and folders only")
        return entries

    def _files(self, seen: set[tuple[int, int]], folder: str, below: list[str]) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as listed:
                # W&B's latest-run and similar links are sorted after the folders they point to.
                items = sorted(
                    islice(listed, MAX_FILES - len(seen)),
                    key=lambda item: (item.is_symlink(), item.name),
                )
        except OSError as error:
            if folder == self.name:
                raise LogError(unreadable(self.name, error)) from error
            self.notes.append(f"{folder} could not be opened ({error.strerror})")
            self.hidden.append(f"{folder} (cannot be opened)")
            return
        if any(item.name == VIRTUAL_ENVIRONMENT for item in items):
            return
        for item in items:
            try:
                status = item.stat()
            except OSError:
                self._note_broken_link(seen, item)
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
            path = Path(item.path)
            if S_ISDIR(status.st_mode):
                if not is_skipped(item.name):
                    below.append(str(path))
                elif hides_logs(path):
                    kind = "hidden folder" if item.name.startswith(".") else "folder of a program"
                    self.hidden.append(f"{path} (a {kind})")
            elif S_ISREG(status.st_mode):
                reason = _why_hidden(item.name) if status.st_size else ""
                if reason:
                    self.hidden.append(f"{path} ({reason})")
                inside = PurePosixPath(path.relative_to(self.path).as_posix())
                size, written = status.st_size, status.st_mtime
                yield Entry(path=inside, size=size, written=written, key=str(path))

    def _note_broken_link(self, seen: set[tuple[int, int]], item: os.DirEntry[str]) -> None:
        """Note a link that leads nowhere and has the name of a log."""
        try:
            link = item.stat(follow_symlinks=False)
        except OSError:  # deleted since it was listed, or an open file of this process
            return
        if looks_like_log(item.name) and (link.st_dev, link.st_ino) not in seen:
            seen.add((link.st_dev, link.st_ino))
            self.hidden.append(f"{item.path} (a broken link)")


def _why_hidden(name: str) -> str:
    """Return the reason that a file may contain a log that is not read, or ""."""
    if is_hidden_log(name):
        return "a hidden file"
    if is_closed_archive(name):
        return "cannot be opened"
    return "not complete" if is_incomplete_download(name) else ""
