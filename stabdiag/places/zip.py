"""ZIP archives. Their members are read as streams, never written by their names."""

from __future__ import annotations

import shlex
import stat
import struct
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import LogError
from stabdiag.places.archives import inside, is_wanted, left_out
from stabdiag.places.listing import MOST_FILES, Entry
from stabdiag.readers.compressed import inflated
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

# Where the header of a member has the lengths of its name and of its extra field.
_LENGTHS: Final = 26

_READABLE: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_zip(name: str, path: Path) -> zipfile.ZipFile:
    """Open a ZIP archive that lies in a file."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise LogError(
            f"{name}: a ZIP archive that is cut off or damaged ({error}); its table of"
            " contents stands at its end, so download it again"
        ) from error


class Zip:
    """The files in a ZIP archive."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        """Take the archive, opened."""
        self.name = name
        self.notes: list[str] = []
        self._archive = archive

    def entries(self) -> Sequence[Entry]:
        """Return the files whose paths lie inside the archive and that can be read."""
        found: list[Entry] = []
        odd = locked = packed = 0
        members = self._archive.infolist()
        if len(members) > MOST_FILES:
            self.notes.append(f"only the first {MOST_FILES} files were looked at")
        for number, member in enumerate(members[:MOST_FILES]):
            path = inside(member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.filename.endswith("/"):
                continue
            if path is None or kind not in (0, stat.S_IFREG):
                odd += 1
            elif not is_wanted(path):
                continue
            elif member.flag_bits & 1:
                locked += 1
            elif member.compress_type not in _READABLE:
                packed += 1
            else:
                written = _time(member.date_time)
                found.append(
                    Entry(path=path, size=member.file_size, written=written, key=str(number))
                )
        if locked and not found:
            raise LogError(
                f"{self.name}: encrypted; unpack it first: unzip {shlex.quote(self.name)}"
            )
        if odd:
            self.notes.append(left_out(odd))
        for count, what in ((locked, "encrypted"), (packed, "packed by a rare method")):
            if count:
                self.notes.append(f"{count} of its files left out: {what}; unpack it to read them")
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


def _time(when: tuple[int, ...]) -> float | None:
    try:
        return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]
    except ValueError:
        return None
