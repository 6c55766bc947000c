"""Archives: tar, packed or not, and ZIP. Their members are streams, never files by their names."""

from __future__ import annotations

import io
import shlex
import stat
import tarfile
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import LogError
from stabdiag.places.listing import DEEPEST, MOST_FILES, Entry, is_skipped
from stabdiag.readers.bombs import Gauge
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

# What a tar header takes, and where in it the format is named.
_BLOCK: Final = 512
_USTAR: Final = slice(257, 262)

_READABLE: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_tar(head: bytes) -> bool:
    """Tell whether the head of a file is that of a tar archive, packed or not."""
    plain = unpacked(Stream("", io.BytesIO(head)))
    return plain.peek(_BLOCK)[_USTAR] == b"ustar"


def is_zip(head: bytes) -> bool:
    """Tell whether the head of a file is that of a ZIP archive."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


class Tar:
    """The files in a tar archive; it is gone through once to list them, and once to read some."""

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
            path = _inside(member.name)
            if member.isreg() and not member.issparse() and path is not None:
                if _is_wanted(path):
                    found.append(_entry(path, member.size, member.mtime, str(number)))
            elif not member.isdir():
                odd += 1
        if odd:
            self.notes.append(_left_out(odd))
        return found

    def streams(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Stream]]:
        """Open one file after the other, in one pass."""
        wanted = {entry.key: entry for entry in entries}
        for number, (member, archive) in enumerate(self._members()):
            entry = wanted.pop(str(number), None)
            raw = archive.extractfile(member) if entry is not None else None
            if entry is not None and raw is not None:
                name = f"{self.name}/{entry.path}"
                yield entry, Stream(name, _Member(name, raw.read, self.notes))
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
            except (tarfile.TarError, EOFError, ValueError) as error:
                self.notes.append(f"the archive breaks off or is damaged ({error})")
            self.notes += packed.notes


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
        for number, member in enumerate(self._archive.infolist()[:MOST_FILES]):
            path = _inside(member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                continue
            if path is None or kind not in (0, stat.S_IFREG):
                odd += 1
            elif not _is_wanted(path):
                continue
            elif member.flag_bits & 1:
                locked += 1
            elif member.compress_type not in _READABLE:
                packed += 1
            else:
                written = _zip_time(member.date_time)
                found.append(_entry(path, member.file_size, written, str(number)))
        if locked and not found:
            raise LogError(
                f"{self.name}: encrypted; unpack it first: unzip {shlex.quote(self.name)}"
            )
        if odd:
            self.notes.append(_left_out(odd))
        for count, what in ((locked, "encrypted"), (packed, "packed by a rare method")):
            if count:
                self.notes.append(f"{count} of its files left out: {what}; unpack it to read them")
        return found

    def streams(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Stream]]:
        """Open one file after the other."""
        members = self._archive.infolist()
        for entry in entries:
            name = f"{self.name}/{entry.path}"
            member = members[int(entry.key)]
            try:
                raw = self._archive.open(member)
            except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
                self.notes.append(f"{entry.path} could not be opened ({error})")
                continue
            with raw:
                gauge = Gauge(name, packed=member.compress_size)
                yield entry, Stream(name, _Member(name, raw.read, self.notes, gauge))


class _Member:
    """The bytes of a member, up to where it breaks off."""

    def __init__(
        self,
        name: str,
        read: Callable[[int], bytes],
        notes: list[str],
        gauge: Gauge | None = None,
    ) -> None:
        self._name = name
        self._read = read
        self._notes = notes
        self._gauge = gauge

    def read(self, size: int, /) -> bytes:
        try:
            # A ZIP member of 64 kB may make 64 MB: never more at a time than is asked for.
            found = self._read(min(size, 1 << 20))
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            self._notes.append(f"{self._name} breaks off or is damaged ({error})")
            self._read = lambda _size: b""
            return b""
        return found if self._gauge is None else self._gauge.gave(found)


def open_zip(name: str, path: Path) -> zipfile.ZipFile:
    """Open a ZIP archive that lies in a file."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise LogError(
            f"{name}: a ZIP archive that is cut off or damaged ({error}); its table of"
            " contents stands at its end, so fetch it anew"
        ) from error


def _inside(name: str) -> PurePosixPath | None:
    """Return the path of a member, or None for one that leads out of the archive."""
    path = PurePosixPath(name.replace("\\", "/"))
    leads_out = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive
    return None if leads_out or not path.parts else path


def _is_wanted(path: PurePosixPath) -> bool:
    return len(path.parts) <= DEEPEST + 1 and not any(map(is_skipped, path.parts[:-1]))


def _entry(path: PurePosixPath, size: int, written: float | None, key: str) -> Entry:
    return Entry(path=path, size=size, written=written, key=key)


def _zip_time(when: tuple[int, ...]) -> float | None:
    try:
        return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def _left_out(count: int) -> str:
    members = "1 member" if count == 1 else f"{count} members"
    return f"{members} of the archive left out: links, devices, or paths that lead out of it"
