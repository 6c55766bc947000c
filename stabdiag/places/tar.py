"""Tar archives, packed or not. Their members are read as streams, never written by their names."""

from __future__ import annotations

import re
import tarfile
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import LogError
from stabdiag.places.archives import inside, is_wanted, left_out
from stabdiag.places.listing import MOST_FILES, Entry
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

# No header is longer, which may hold names and attributes, and none has a longer number; some
# versions of the library take the square of a number's length to read it.
_LONGEST: Final = 1 << 18
_LONG_NUMBER: Final = re.compile(rb"\d{100}")

_DAMAGED: Final = "the archive breaks off or is damaged"


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
        for number, (member, file) in enumerate(self._members()):
            entry = wanted.pop(str(number), None)
            if entry is not None:
                yield entry, _member(f"{self.name}/{entry.path}", file, member.size)
            if not wanted:
                return

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, _Forward]]:
        """Yield member after member, up to the cut where the archive breaks off."""
        with Stream(self.name, self._path.open("rb", buffering=0)) as packed:
            file: Any = _Forward(unpacked(packed))
            archive: Any  # the type stubs keep quiet about its members
            try:
                with tarfile.open(fileobj=file, mode="r:") as archive:
                    while (member := archive.next()) is not None:
                        yield member, file
                        archive.members.clear()  # it keeps them all, and there may be millions
                # Some versions of the library take a header that they cannot read for the end.
                if file.last.strip(b"\0"):
                    self.notes.append(f"{_DAMAGED} (no header where one is expected)")
            except LogError:
                raise
            except Exception as error:  # noqa: BLE001 - versions differ in what they raise
                self.notes.append(f"{_DAMAGED} ({error})")
            self.notes += packed.notes


class _Forward:
    """As much of a file as the standard library asks for, forward only and never past its end.

    Its own way to read a stream goes on where that has ended, as far as a header claims it to be.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._at = 0
        self.last = b""

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        while self._at < to and self.take(min(to - self._at, _LONGEST)):
            pass

    def read(self, size: int) -> bytes:
        """Return bytes of a header, which are kept as the last ones."""
        if size > _LONGEST:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self.take(size)
        if _LONG_NUMBER.search(self.last):
            raise tarfile.ReadError("a header with a number that no computer holds")
        return self.last

    def take(self, size: int) -> bytes:
        """Return bytes, up to so many."""
        found = self._stream.read(size)
        self._at += len(found)
        return found


def _member(name: str, file: _Forward, size: int) -> Stream:
    """Return the stream of the member that comes next in the file of a tar archive."""
    raw = _Member(file, size)
    stream = Stream(name, raw)
    stream.notes = raw.notes
    return stream


class _Member:
    """The bytes of a member of a tar archive, up to where it breaks off.

    If a part is missing, the standard library's file object gives nothing at all.
    """

    def __init__(self, file: _Forward, size: int) -> None:
        self._file = file
        self._left = size
        self.notes: list[str] = []

    def read(self, size: int, /) -> bytes:
        found = self._file.take(min(size, self._left))
        self._left -= len(found)
        if not found and self._left:
            self.notes.append("the archive breaks off in this file; everything before was read")
            self._left = 0
        return found
