"""What all places have in common, and the nearest of them: a folder on a disk.

A place lists its files by path, and opens them as streams.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Final

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventKind
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import names_in
from stabdiag.readers import read_stream
from stabdiag.readers.columns import Columns, Wanted, every_column
from stabdiag.readers.source import Stream, open_stream

# How many files are listed, and how many levels deep.
MOST_FILES: Final = 10_000
DEEPEST: Final = 6

# Folders in which no run logs.
_NO_LOGS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "__MACOSX"})

# A folder that holds this file is a virtual environment of Python: no run logs in it.
VIRTUAL_ENVIRONMENT: Final = "pyvenv.cfg"


@frozen
class Entry:
    """A file in a place.

    ``path`` is its path in the place, ``size`` its size in bytes, where that is known, and
    ``written`` the time of its last change in seconds, 0 where that is not. ``key`` is how the
    place itself finds it.
    """

    path: PurePosixPath
    size: int | None
    written: float
    key: str


@frozen
class Sibling:
    """A log of another run, rank or attempt that was not read.

    ``is_near`` says that it may be taken for the log that was read: it is in the same folder or
    archive, or of another rank. Logs of other folders are runs of their own.
    """

    entry: Entry
    is_near: bool


@frozen
class LoadedLog:
    """A log's columns, the manifest that lies beside it, and the checkpoints, by their unit.

    ``siblings`` are logs of other runs, ranks or attempts in the same place, which were not read.
    """

    columns: Columns
    manifest: Manifest = field(default_factory=Manifest)
    checkpoints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    siblings: tuple[Sibling, ...] = ()


@frozen
class ReadRequest:
    """How to read a log: which columns, and in which format unless that is recognized.

    Of a log that still ``grows``, an unfinished last line is left out.
    """

    format: str | None = None
    wanted: Wanted = every_column
    grows: bool = False

    def read(self, stream: Stream) -> Columns:
        """Read a log so."""
        return read_stream(stream, format=self.format, wanted=self.wanted, grows=self.grows)


class Container:
    """A folder, an archive, or a folder behind a URL.

    ``name`` is what a report calls it; ``notes`` say what was left out, and why. ``hidden`` are
    paths that may hold logs and were not looked into, each with the reason.
    """

    is_archive = False

    def __init__(self, name: str) -> None:
        """Take the name."""
        self.name = name
        self.notes: list[str] = []
        self.hidden: list[str] = []

    def entries(self) -> Sequence[Entry]:
        """Return the files in the place, those of the upper levels first."""
        return ()

    def open(self, entry: Entry) -> Stream:
        """Open a file."""
        return open_stream(entry.key)

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other; each has to be read before the next is asked for.

        What cannot be opened is left out, with a note.
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


def by_levels(root: str, listed: Callable[[str, list[str]], Iterable[Entry]]) -> list[Entry]:
    """Return the files in a folder and in those below it, those of the upper levels first.

    ``listed`` returns the files of one folder, and adds the folders in it to a list.
    """
    found: list[Entry] = []
    level = [root]
    for _ in range(DEEPEST):
        below: list[str] = []
        for folder in level:
            found += listed(folder, below)
        level = below
    return found


def note(message: str) -> Event:
    """Return an event about a place."""
    return Event(kind=EventKind.PLACE, message=message)


def is_skipped(folder: str) -> bool:
    """Tell whether a folder of this name holds neither logs nor Hydra's configuration."""
    return folder in _NO_LOGS or (folder.startswith(".") and folder != ".hydra")


# Hidden folders of tools: no run logs in them.
_OF_TOOLS: Final = frozenset(
    names_in(
        ".git .hg .svn .github .gitlab .venv .env .tox .nox .cache .mypy_cache .ruff_cache "
        ".pytest_cache .hypothesis .ipynb_checkpoints .idea .vscode .eggs .npm .cargo .config "
        ".local .ssh .dvc .aim .neptune .guild .hydra .terraform .conda .Trash .snapshot"
    )
)

# How many files of a hidden folder are looked at, by their names alone.
_MOST_HIDDEN: Final = 1000

# Files with these names are logs of a run, whatever else they are called.
_LOGS: Final = re.compile(
    r"\.(?:jsonl|ndjson|csv|tsv|parquet|log|wandb)(?:\.(?:gz|bz2|xz|zst))?$|tfevents",
    re.IGNORECASE,
)


def looks_like_log(name: str) -> bool:
    """Return True if a file is a log by its name alone."""
    return _LOGS.search(name) is not None


def hides_logs(folder: Path) -> bool:
    """Return True if a hidden folder, which is not read, holds files that are logs by their names.

    Caches and settings of tools do not.
    """
    if folder.name in _OF_TOOLS or folder.name in _NO_LOGS:
        return False
    looked = 0
    for _, folders, names in os.walk(folder):
        if VIRTUAL_ENVIRONMENT in names:
            return False
        if any(map(looks_like_log, names)):
            return True
        folders[:] = [name for name in folders if name not in _OF_TOOLS | _NO_LOGS]
        looked += len(names) + len(folders)
        if looked > _MOST_HIDDEN:
            break
    return False


class Folder(Container):
    """The files in a folder and in the folders below it, some levels deep."""

    def __init__(self, path: Path) -> None:
        """Take the folder; it is not listed yet."""
        super().__init__(str(path))
        self.path = path

    def entries(self) -> Sequence[Entry]:
        """Return the files in the folder."""
        seen: set[tuple[int, int]] = set()
        found = by_levels(self.name, partial(self._files, seen))
        if len(seen) == MOST_FILES:
            self.notes.append(f"looked at the first {MOST_FILES} files and folders only")
        return found

    def _files(self, seen: set[tuple[int, int]], folder: str, below: list[str]) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as listed:
                # W&B's latest-run and similar links come after the folders that they lead to.
                there = sorted(
                    islice(listed, MOST_FILES - len(seen)),
                    key=lambda one: (one.is_symlink(), one.name),
                )
        except OSError as error:
            if folder == self.name:
                raise LogError(
                    f"{self.name}: cannot be opened ({error.strerror}); check the path"
                ) from error
            self.notes.append(f"{folder} could not be opened ({error.strerror})")
            self.hidden.append(f"{folder} (cannot be opened)")
            return
        if any(one.name == VIRTUAL_ENVIRONMENT for one in there):
            return
        for one in there:
            try:
                status = one.stat()
            except OSError:  # a link to nowhere
                link = one.stat(follow_symlinks=False)
                if looks_like_log(one.name) and (link.st_dev, link.st_ino) not in seen:
                    seen.add((link.st_dev, link.st_ino))
                    self.hidden.append(f"{one.path} (a link to nowhere)")
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
            path = Path(one.path)
            if S_ISDIR(status.st_mode):
                if not is_skipped(one.name):
                    below.append(str(path))
                elif hides_logs(path):
                    self.hidden.append(f"{path} (a hidden folder)")
            elif S_ISREG(status.st_mode):
                inside = PurePosixPath(path.relative_to(self.path).as_posix())
                size, written = status.st_size, status.st_mtime
                yield Entry(path=inside, size=size, written=written, key=str(path))
