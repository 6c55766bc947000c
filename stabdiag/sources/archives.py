"""Tar and ZIP archives. Members are read as streams and never extracted to disk."""

from __future__ import annotations

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
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.source import Pieces, Stream
from stabdiag.readers.unwrapping.compressed import inflated, unpacked
from stabdiag.sources.folder import MAX_DEPTH, MAX_FILES, Container, Entry, is_skipped

# Limits of a tar header: its size, including long names and attributes, and the digits of a number.
# Some versions of tarfile parse a number in time quadratic in its length.
_MAX_HEADER: Final = 1 << 18
_LONG_NUMBER: Final = lazy_pattern(rb"\d{100}")

# Offset in the header of a ZIP member of the lengths of its name and its extra field.
_LENGTHS_OFFSET: Final = 26

_DAMAGED: Final = "the archive is truncated or damaged"
_UNSAFE: Final = "of the archive left out: links, devices, or paths outside the archive"
_ENCRYPTED: Final = "encrypted"
_UNSUPPORTED: Final = "unsupported compression"

# Bytes of a member read at a time.
_MEMBER_CHUNK: Final = 1 << 16


@contextmanager
def open_archive(stream: Stream) -> Iterator[Container]:
    """Open an archive as a container.

    Raises:
        LogError: if a ZIP archive is truncated or damaged.
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
                f"{stream.name}: the ZIP archive is truncated or damaged ({error}); its table of"
                " contents is at its end, so download it again"
            ) from error
        with archive:
            yield Zip(stream.name, archive)


# A file in an archive, and the reason why it cannot be read, if any.
_Member = tuple[Entry, str]


def _member(number: int, name: str, size: int, written: float, obstacle: str) -> _Member:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or not path.parts:
        obstacle = _UNSAFE
    return Entry(path=path, size=size, written=written, key=str(number)), obstacle


def _readable_entries(
    members: Iterable[_Member], notes: list[str]
) -> tuple[list[Entry], Counter[str]]:
    """Return the readable files, and the number left out for each reason."""
    entries: list[Entry] = []
    left_out: Counter[str] = Counter()
    for entry, obstacle in members:
        if len(entries) == MAX_FILES:
            notes.append(f"looked at the first {MAX_FILES} files only")
            break
        folders = entry.path.parts[:-1]
        is_searched = len(folders) <= MAX_DEPTH and not any(map(is_skipped, folders))
        if obstacle == _UNSAFE or (obstacle and is_searched):
            left_out[obstacle] += 1
        elif is_searched:
            entries.append(entry)
    if left_out[_UNSAFE]:
        notes.append(f"{plural(left_out.pop(_UNSAFE), 'member')} {_UNSAFE}")
    return entries, left_out


class Zip(Container):
    """The files in a ZIP archive."""

    is_archive = True

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        """Create a container for an open archive."""
        super().__init__(name)
        self._archive = archive

    def entries(self) -> Sequence[Entry]:
        """Return the readable files."""
        entries, left_out = _readable_entries(self._members(), self.notes)
        if left_out[_ENCRYPTED] and not entries:
            raise LogError(
                f"{self.name}: encrypted; unpack it first: unzip {shlex.quote(self.name)}"
            )
        for reason, count in left_out.items():
            self.notes.append(
                f"{plural(count, 'file')} left out ({reason}); unpack it to read them"
            )
        return entries

    def _members(self) -> Iterator[_Member]:
        for number, member in enumerate(self._archive.infolist()):
            if member.filename.endswith("/"):
                continue
            obstacle = "" if member.compress_type in (0, zipfile.ZIP_DEFLATED) else _UNSUPPORTED
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
                obstacle = _UNSAFE
            elif member.flag_bits & 1:
                obstacle = _ENCRYPTED
            try:
                written = datetime(*member.date_time, tzinfo=UTC).timestamp()
            except ValueError:
                written = 0.0
            yield _member(number, member.filename, member.file_size, written, obstacle)

    def open(self, entry: Entry) -> Stream:
        """Open a file.

        This bypasses zipfile's file object, which returns no bytes if the checksum is wrong: a log
        with one wrong byte is still usable.
        """
        member = self._archive.infolist()[int(entry.key)]
        packed = Stream(f"{self.name}/{entry.path}", Pieces(self._packed(member)))
        return inflated(packed) if member.compress_type else packed

    def _packed(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the compressed bytes of a member; other readers may move the file position."""
        file: Any = self._archive.fp
        at = max(member.header_offset, 0) + _LENGTHS_OFFSET
        file.seek(at)
        name, extra = struct.unpack("<HH", file.read(4).ljust(4, b"\0"))
        at += 4 + name + extra
        end = at + member.compress_size
        while at < end:
            file.seek(at)
            data = file.read(min(_MEMBER_CHUNK, end - at))
            if not data:
                return
            at += len(data)
            yield data


class Tar(Container):
    """The files in a tar archive, which is read once to list files and once to read them."""

    is_archive = True

    def __init__(self, name: str, path: Path) -> None:
        """Create a container for the archive in a file."""
        super().__init__(name)
        self._path = path

    def entries(self) -> Sequence[Entry]:
        """Return the readable files."""
        members = (
            _member(
                number,
                member.name,
                member.size,
                member.mtime,
                "" if member.isreg() and not member.issparse() else _UNSAFE,
            )
            for number, (member, _) in enumerate(self._members())
            if not member.isdir()
        )
        return _readable_entries(members, self.notes)[0]

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open the files one after the other, in one pass."""
        remaining = {entry.key: entry for entry in entries}
        for number, (member, file) in enumerate(self._members()):
            entry = remaining.pop(str(number), None)
            if entry is not None:
                yield entry, _member_stream(f"{self.name}/{entry.path}", file, member.size)
            if not remaining:
                return

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, _Forward]]:
        """Yield the members, up to the point where the archive is truncated."""
        with Stream(self.name, self._path.open("rb", buffering=0)) as packed:
            file: Any = _Forward(unpacked(packed))
            archive: Any  # the type stubs omit ``members``
            try:
                with tarfile.open(fileobj=file, mode="r:") as archive:
                    while (member := archive.next()) is not None:
                        yield member, file
                        archive.members.clear()  # tarfile would keep every member in memory
                # Some versions of tarfile treat an unreadable header as the end of the archive.
                if file.last.strip(b"\0"):
                    self._break_off("no header where one is expected")
            except LogError:
                raise
            except Exception as error:  # noqa: BLE001 - versions differ in what they raise
                self._break_off(str(error))
            self.notes += packed.notes
            if packed.left_out:
                self._break_off("truncated")

    def _break_off(self, reason: str) -> None:
        self.notes.append(f"{_DAMAGED} ({reason})")
        self.hidden.append("the rest of the archive")


class _Forward:
    """A forward-only file object for tarfile that stops at the end of the stream.

    The stream class of tarfile would continue past the end, up to the size that a header claims.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._at = 0
        self.last = b""

    def tell(self) -> int:
        return self._at

    def seek(self, target: int) -> None:
        while self._at < target and self.take(min(target - self._at, _MAX_HEADER)):
            pass

    def read(self, size: int) -> bytes:
        """Return the bytes of a header, and keep them in ``last``."""
        if size > _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self.take(size)
        if _LONG_NUMBER.search(self.last):
            raise tarfile.ReadError("a header with a number too large to be valid")
        return self.last

    def take(self, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        data = self._stream.read(size)
        self._at += len(data)
        return data


def _member_stream(name: str, file: _Forward, size: int) -> Stream:
    """Return the stream of a member of a tar archive."""
    stream = Stream(name, Pieces(()))

    def break_off() -> None:
        stream.break_off(
            "the archive is truncated in this file", read_part="everything before was read"
        )

    return stream.rewritten(_contents(file, size, break_off))


def _contents(file: _Forward, size: int, break_off: Callable[[], None]) -> Iterator[bytes]:
    """Yield the bytes of a member of a tar archive, up to a truncation.

    The file object of tarfile returns no bytes if the last ones are missing.
    """
    while size and (data := file.take(min(size, _MEMBER_CHUNK))):
        size -= len(data)
        yield data
    if size:
        break_off()
