"""A folder on a disk."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from stabdiag.errors import LogError
from stabdiag.places.listing import DEEPEST, MOST_FILES, Entry, is_skipped, opened
from stabdiag.readers.source import open_stream

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from stabdiag.readers.source import Stream


class Folder:
    """The files in a folder and in the folders below it, some levels deep."""

    def __init__(self, path: Path) -> None:
        """Take the folder; it is listed when it is asked what it holds."""
        self.path = path
        self.name = str(path)
        self.notes: list[str] = []

    def entries(self) -> Sequence[Entry]:
        """Return the files, those of the upper levels first."""
        found: list[Entry] = []
        seen: set[tuple[int, int]] = set()
        level = [self.path]
        for _ in range(DEEPEST):
            below: list[Path] = []
            for folder in level:
                found += self._files(folder, below, seen, MOST_FILES - len(seen))
            level = below
        if len(seen) == MOST_FILES:
            self.notes.append(f"only the first {MOST_FILES} files and folders were looked at")
        return found

    def _files(
        self, folder: Path, below: list[Path], seen: set[tuple[int, int]], most: int
    ) -> list[Entry]:
        """Return the files of one folder, and put the folders in it to those below."""
        try:
            with os.scandir(folder) as listed:
                # W&B's latest-run and its like come after the folder that they lead to.
                there = sorted(islice(listed, most), key=lambda one: (one.is_symlink(), one.name))
        except OSError as error:
            if folder == self.path:
                raise LogError(
                    f"{self.name}: cannot be opened ({error.strerror}); check the path"
                ) from error
            self.notes.append(f"{folder} could not be opened ({error.strerror})")
            return []
        found: list[Entry] = []
        for one in there:
            try:
                status = one.stat()
            except OSError:  # a link to nowhere
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
            if S_ISDIR(status.st_mode) and not is_skipped(one.name):
                below.append(Path(one.path))
            elif S_ISREG(status.st_mode):
                found.append(self._entry(Path(one.path), status))
        return found

    def _entry(self, path: Path, status: os.stat_result) -> Entry:
        return Entry(
            path=PurePosixPath(path.relative_to(self.path).as_posix()),
            size=status.st_size,
            written=status.st_mtime,
            key=str(path),
        )

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other."""
        return opened(entries, lambda entry: open_stream(entry.key), self.notes)
