"""Tar and ZIP archives. Their members are read as streams, never written under their names."""

from __future__ import annotations

import re
import shlex
import stat
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from stabdiag.errors import LogError
from stabdiag.model.text import plural
from stabdiag.readers.compressed import inflated, unpacked
from stabdiag.readers.source import Pieces, Stream
from stabdiag.sources.folder import DEEPEST, MOST_FILES, Container, Entry, is_skipped

# No tar header is longer, which may hold names and attributes, and none has a longer number; some
# versions of the library take time with the square of a number's length to read it.
_LONGEST: Final = 1 << 18
_LONG_NUMBER: Final = re.compile(rb"\d{100}")

# Where the header of a ZIP member has the lengths of its name and of its extra field.
_LENGTHS: Final = 26

_DAMAGED: Final = "the archive breaks off or is damaged"
_ODD: Final = "of the archive left out: links, devices, or paths that lead out of it"
_LOCKED: Final = "encrypted"
_RARE: Final = "rare compression"

# How many bytes of a member are read at a time.
_PIECE: Final = 1 << 16


@contextmanager
def open_archive(stream: Stream) -> Iterator[Container]:
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


# A member that is no folder, and why it cannot be read, if it cannot.
_Member = tuple[Entry, str]


def _member(number: int, name: str, size: int, written: float, obstacle: str) -> _Member:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or not path.parts:
        obstacle = _ODD
    return Entry(path=path, size=size, written=written, key=str(number)), obstacle


def _listed(members: Iterable[_Member], notes: list[str]) -> tuple[list[Entry], Counter[str]]:
    """Return the files that can be read, and how many were left out, by the obstacle."""
    found: list[Entry] = []
    left_out: Counter[str] = Counter()
    for entry, obstacle in members:
        if len(found) == MOST_FILES:
            notes.append(f"looked at the first {MOST_FILES} files only")
            break
        folders = entry.path.parts[:-1]
        is_near = len(folders) <= DEEPEST and not any(map(is_skipped, folders))
        if obstacle == _ODD or (obstacle and is_near):
            left_out[obstacle] += 1
        elif is_near:
            found.append(entry)
    if left_out[_ODD]:
        notes.append(f"{plural(left_out.pop(_ODD), 'member')} {_ODD}")
    return found, left_out


class Zip(Container):
    """The files in a ZIP archive."""

    is_archive = True

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        """Take the archive, opened."""
        super().__init__(name)
        self._archive = archive

    def entries(self) -> Sequence[Entry]:
        """Return the files that can be read."""
        found, left_out = _listed(self._members(), self.notes)
        if left_out[_LOCKED] and not found:
            raise LogError(
                f"{self.name}: encrypted; unpack it first: unzip {shlex.quote(self.name)}"
            )
        for why, count in left_out.items():
            self.notes.append(f"{plural(count, 'file')} left out ({why}); unpack it to read them")
        return found

    def _members(self) -> Iterator[_Member]:
        for number, one in enumerate(self._archive.infolist()):
            if one.filename.endswith("/"):
                continue
            obstacle = "" if one.compress_type in (0, zipfile.ZIP_DEFLATED) else _RARE
            if stat.S_IFMT(one.external_attr >> 16) not in (0, stat.S_IFREG):
                obstacle = _ODD
            elif one.flag_bits & 1:
                obstacle = _LOCKED
            try:
                written = datetime(*one.date_time, tzinfo=UTC).timestamp()
            except ValueError:
                written = 0.0
            yield _member(number, one.filename, one.file_size, written, obstacle)

    def open(self, entry: Entry) -> Stream:
        """Open a file.

        The standard library's file object verifies the checksum, and gives no bytes if it is wrong;
        but a log with one wrong byte is still a log.
        """
        member = self._archive.infolist()[int(entry.key)]
        packed = Stream(f"{self.name}/{entry.path}", Pieces(self._packed(member)))
        return inflated(packed) if member.compress_type else packed

    def _packed(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield a member's bytes as they lie in the archive, which is shared with other readers."""
        file: Any = self._archive.fp
        at = max(member.header_offset, 0) + _LENGTHS
        file.seek(at)
        name, extra = struct.unpack("<HH", file.read(4).ljust(4, b"\0"))
        at += 4 + name + extra
        end = at + member.compress_size
        while at < end:
            file.seek(at)
            found = file.read(min(_PIECE, end - at))
            if not found:
                return
            at += len(found)
            yield found


class Tar(Container):
    """The files in a tar archive, which is read once to list them and once to read some."""

    is_archive = True

    def __init__(self, name: str, path: Path) -> None:
        """Take the archive's name, and the file that it lies in."""
        super().__init__(name)
        self._path = path

    def entries(self) -> Sequence[Entry]:
        """Return the files that can be read."""
        members = (
            _member(
                number,
                one.name,
                one.size,
                one.mtime,
                "" if one.isreg() and not one.issparse() else _ODD,
            )
            for number, (one, _) in enumerate(self._members())
            if not one.isdir()
        )
        return _listed(members, self.notes)[0]

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other, in one pass."""
        wanted = {entry.key: entry for entry in entries}
        for number, (member, file) in enumerate(self._members()):
            entry = wanted.pop(str(number), None)
            if entry is not None:
                yield entry, _member_stream(f"{self.name}/{entry.path}", file, member.size)
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
                    self._break_off("no header where one is expected")
            except LogError:
                raise
            except Exception as error:  # noqa: BLE001 - versions differ in what they raise
                self._break_off(str(error))
            self.notes += packed.notes
            if packed.left_out:
                self._break_off("it is cut")

    def _break_off(self, why: str) -> None:
        self.notes.append(f"{_DAMAGED} ({why})")
        self.hidden.append("the rest of the archive")


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


def _member_stream(name: str, file: _Forward, size: int) -> Stream:
    """Return the stream of a member of a tar archive."""
    stream = Stream(name, Pieces(()))

    def break_off() -> None:
        stream.break_off(
            "the archive breaks off in this file", rest="everything before the cut was read"
        )

    return stream.rewritten(_contents(file, size, break_off))


def _contents(file: _Forward, size: int, break_off: Callable[[], None]) -> Iterator[bytes]:
    """Yield the bytes of a member of a tar archive, up to where it breaks off.

    If a part is missing, the standard library's file object gives nothing at all.
    """
    while size and (found := file.take(min(size, _PIECE))):
        size -= len(found)
        yield found
    if size:
        break_off()
