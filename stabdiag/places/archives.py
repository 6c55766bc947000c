"""Tar and ZIP archives. Their members are read as streams, never written under their names."""

from __future__ import annotations

import re
import shlex
import stat
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.model.text import plural
from stabdiag.places.folder import DEEPEST, MOST_FILES, Entry, is_skipped
from stabdiag.readers.compressed import inflated, unpacked
from stabdiag.readers.source import Stream

# No tar header is longer, which may hold names and attributes, and none has a longer number; some
# versions of the library take time with the square of a number's length to read it.
_LONGEST: Final = 1 << 18
_LONG_NUMBER: Final = re.compile(rb"\d{100}")

# Where the header of a ZIP member has the lengths of its name and of its extra field.
_LENGTHS: Final = 26

_DAMAGED: Final = "the archive breaks off or is damaged"
_ODD: Final = "of the archive left out: links, devices, or paths that lead out of it"
_LOCKED: Final = "encrypted"


@contextmanager
def open_archive(stream: Stream) -> Iterator[Tar | Zip]:
    """Open an archive, known by its head, as a place.

    Raises:
        LogError: if a ZIP archive is cut off or damaged.
    """
    is_zip = stream.peek(2) == b"PK"
    with stream.on_disk() as path:
        if not is_zip:
            yield Tar(stream.name, path)
            return
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise LogError(
                f"{stream.name}: a ZIP archive that is cut off or damaged ({error}); its table of"
                " contents is at its end, so download it again"
            ) from error
        with archive:
            yield Zip(stream.name, archive)


@frozen
class _Member:
    """What an archive says of a member; ``obstacle`` is why it cannot be read."""

    name: str
    is_folder: bool
    is_file: bool
    size: int
    written: float | None
    obstacle: str = ""


def _listed(members: Iterable[_Member], notes: list[str]) -> tuple[list[Entry], Counter[str]]:
    """Return the regular files whose paths lie inside the archive, and how many were left out."""
    found: list[Entry] = []
    left_out: Counter[str] = Counter()
    for number, member in enumerate(members):
        if len(found) == MOST_FILES:
            notes.append(f"looked at the first {MOST_FILES} files only")
            break
        if member.is_folder:
            continue
        path = PurePosixPath(member.name.replace("\\", "/"))
        leads_out = path.is_absolute() or ".." in path.parts or PureWindowsPath(member.name).drive
        if leads_out or not path.parts or not member.is_file:
            left_out[_ODD] += 1
        elif len(path.parts) > DEEPEST + 1 or any(map(is_skipped, path.parts[:-1])):
            continue
        elif member.obstacle:
            left_out[member.obstacle] += 1
        else:
            size, written = member.size, member.written
            found.append(Entry(path=path, size=size, written=written, key=str(number)))
    if left_out[_ODD]:
        notes.append(f"{plural(left_out.pop(_ODD), 'member')} {_ODD}")
    return found, left_out


class Zip:
    """The files in a ZIP archive."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        """Take the archive, opened."""
        self.name = name
        self.notes: list[str] = []
        self._archive = archive

    def entries(self) -> Sequence[Entry]:
        """Return the files that can be read."""
        found, left_out = _listed(map(_zip_member, self._archive.infolist()), self.notes)
        if left_out[_LOCKED] and not found:
            raise LogError(
                f"{self.name}: encrypted; unpack it first: unzip {shlex.quote(self.name)}"
            )
        for why, count in left_out.items():
            self.notes.append(f"{plural(count, 'file')} left out ({why}); unpack it to read them")
        return found

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other."""
        members = self._archive.infolist()
        for entry in entries:
            member = members[int(entry.key)]
            packed = Stream(f"{self.name}/{entry.path}", self._packed(member))
            yield entry, inflated(packed) if member.compress_type else packed

    def _packed(self, member: zipfile.ZipInfo) -> _Slice:
        """Return a member's bytes as they lie in the archive.

        The standard library's file object verifies the checksum, and gives no bytes if it is wrong;
        but a log with one wrong byte is still a log.
        """
        file: Any = self._archive.fp
        header = max(member.header_offset, 0)
        file.seek(header + _LENGTHS)
        name, extra = struct.unpack("<HH", file.read(4).ljust(4, b"\0"))
        begin = header + _LENGTHS + 4 + name + extra
        return _Slice(file, begin, member.compress_size)


def _zip_member(member: zipfile.ZipInfo) -> _Member:
    obstacle = "" if member.compress_type in (0, zipfile.ZIP_DEFLATED) else "rare compression"
    try:
        written = datetime(*member.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        written = None
    return _Member(
        name=member.filename,
        is_folder=member.filename.endswith("/"),
        is_file=stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG),
        size=member.file_size,
        written=written,
        obstacle=_LOCKED if member.flag_bits & 1 else obstacle,
    )


class _Slice:
    """A stretch of a file that is shared with other readers."""

    def __init__(self, file: Any, begin: int, size: int) -> None:
        self._file = file
        self._at = begin
        self._end = begin + size

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._at)
        found: bytes = self._file.read(min(size, self._end - self._at))
        self._at += len(found)
        return found


class Tar:
    """The files in a tar archive, which is read once to list them and once to read some."""

    def __init__(self, name: str, path: Path) -> None:
        """Take the archive's name, and the file that it lies in."""
        self.name = name
        self.notes: list[str] = []
        self._path = path

    def entries(self) -> Sequence[Entry]:
        """Return the files that can be read."""
        return _listed((_tar_member(one) for one, _ in self._members()), self.notes)[0]

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other, in one pass."""
        wanted = {entry.key: entry for entry in entries}
        for number, (member, file) in enumerate(self._members()):
            entry = wanted.pop(str(number), None)
            if entry is not None:
                raw = _Contents(file, member.size)
                stream = Stream(f"{self.name}/{entry.path}", raw)
                stream.notes = raw.notes
                yield entry, stream
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


def _tar_member(member: tarfile.TarInfo) -> _Member:
    return _Member(
        name=member.name,
        is_folder=member.isdir(),
        is_file=member.isreg() and not member.issparse(),
        size=member.size,
        written=member.mtime,
    )


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


class _Contents:
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
