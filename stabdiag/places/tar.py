"""Tar archives, packed or not. Their members are read as streams, never written by their names."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

from stabdiag.places.archives import inside, is_wanted, left_out
from stabdiag.places.listing import MOST_FILES, Entry
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path


class Tar:
    """The files in a tar archive, which is read once to list them and once to read some."""

    def __init__(self, name: str, path: Path) -> None:
        """Take the archive's name, and the file that it lies in."""
        self.name = name
        self.notes: list[str] = []
        self._path = path

    def entries(self) -> Sequence[Entry]:
        """Return the regular files whose paths lie inside the archive."""
        found: list[Entry] = []
        odd = 0
        for number, (member, _) in enumerate(self._members()):
            if len(found) == MOST_FILES:
                self.notes.append(f"only the first {MOST_FILES} files were looked at")
                break
            path = inside(member.name)
            if member.isreg() and not member.issparse() and path is not None:
                if is_wanted(path):
                    found.append(
                        Entry(path=path, size=member.size, written=member.mtime, key=str(number))
                    )
            elif not member.isdir():
                odd += 1
        if odd:
            self.notes.append(left_out(odd))
        return found

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other, in one pass."""
        wanted = {entry.key: entry for entry in entries}
        for number, (member, archive) in enumerate(self._members()):
            entry = wanted.pop(str(number), None)
            if entry is not None:
                yield entry, _member(f"{self.name}/{entry.path}", archive.fileobj, member.size)
            if not wanted:
                return

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
        """Yield member after member, up to the cut where the archive breaks off."""
        with Stream(self.name, self._path.open("rb", buffering=0)) as packed:
            plain: Any = unpacked(packed)
            archive: Any  # the type stubs keep quiet about its members
            try:
                with tarfile.open(fileobj=plain, mode="r|") as archive:
                    for member in archive:
                        yield member, archive
                        archive.members.clear()  # it keeps them all, and there may be millions
            except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
                self.notes.append(f"the archive breaks off or is damaged ({error})")
            self.notes += packed.notes


def _member(name: str, file: Any, size: int) -> Stream:
    """Return the stream of the member that comes next in the file of a tar archive."""
    raw = _Member(file, size)
    stream = Stream(name, raw)
    stream.notes = raw.notes
    return stream


class _Member:
    """The bytes of a member of a tar archive, up to where it breaks off.

    If a part is missing, the standard library's file object gives nothing at all.
    """

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size
        self.notes: list[str] = []

    def read(self, size: int, /) -> bytes:
        found: bytes = self._file.read(min(size, self._left))
        self._left -= len(found)
        if not found and self._left:
            self.notes.append("the archive breaks off in this file; everything before was read")
            self._left = 0
        return found
