"""Bytes appended to a file, across rotation, truncation and overwriting."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Final

from stabdiag.model.frozen import frozen

_TAIL_READ_SIZE: Final = 1 << 22

# This many of the last bytes read are compared again to detect overwriting.
_FINGERPRINT: Final = 256

# Files are compared by their first lines; the first line alone may be a header.
_HEAD_LINES: Final = 2
_HEAD: Final = 1 << 16


class Continuation(Enum):
    """The relation of new bytes to the bytes before them."""

    ON = auto()
    """The bytes were appended to the same file."""
    NEXT = auto()
    """The log was rotated: the run continues in another file."""
    RESTARTED = auto()
    """The log was written again from its first line: earlier bytes no longer count."""
    OTHER = auto()
    """The watched link points to another run now."""


@frozen
class TailEvent:
    """New bytes of a log, and their relation to the bytes before them."""

    data: bytes = b""
    begin: Continuation = Continuation.ON


class Tail:
    """Follow a file by its name.

    A new file under the same name has another inode. An overwritten file no longer has the last
    bytes that were read. If the new content starts like the old log, the log was restarted (or cut
    back to a checkpoint). Otherwise it continues the log.
    """

    def __init__(self, path: Path) -> None:
        """Follow ``path``, which does not have to exist yet."""
        self._path = path
        self._file: BinaryIO | None = None
        self._identity: tuple[int, int] | None = None
        self._target: Path | None = None
        self._at = 0
        self._fingerprint = b""
        self._head = b""

    def events(self) -> Iterator[TailEvent]:
        """Yield the new bytes since the last call, first the end of a file that was moved away.

        Raises:
            OSError: if the file exists and cannot be read.
        """
        if self._file is not None:
            yield from self._appended(self._file)
        try:
            status = self._path.stat()
            if (status.st_dev, status.st_ino) == self._identity:
                return
            if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
                return  # reading a pipe or a terminal would block
            file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return
        target = self._path.resolve() if self._path.is_symlink() else None
        begin = self._classify(file)
        if target is not None and self._target is not None and target != self._target:
            begin = Continuation.OTHER
        if begin is None:
            file.close()
            return
        self._target = target
        self.close()
        if self._head:
            yield TailEvent(begin=begin)
        self._file, self._identity = file, (status.st_dev, status.st_ino)
        self._restart()
        yield from self._appended(file)

    def close(self) -> None:
        """Close the file; the next call opens it again and checks that it is the same log."""
        if self._file is not None:
            with suppress(OSError):  # a network file system may report a lost file again
                self._file.close()
        self._file = self._identity = None

    def _appended(self, file: BinaryIO) -> Iterator[TailEvent]:
        while True:
            file.seek(self._at - len(self._fingerprint))
            data = file.read(len(self._fingerprint) + _TAIL_READ_SIZE)
            if not data.startswith(self._fingerprint):
                begin = self._classify(file)
                if begin is None:
                    return
                self._restart()
                yield TailEvent(begin=begin)
                continue
            appended = data[len(self._fingerprint) :]
            if not appended:
                return
            self._at += len(appended)
            self._fingerprint = data[-_FINGERPRINT:]
            self._head = _head(self._head + appended)
            yield TailEvent(data=appended)

    def _restart(self) -> None:
        self._at, self._fingerprint, self._head = 0, b"", b""

    def _classify(self, file: BinaryIO) -> Continuation | None:
        """Return the relation of a file to the bytes read so far; None if it is too short."""
        file.seek(0)
        head = _head(file.read(_HEAD))
        if head.startswith(self._head):
            return Continuation.RESTARTED
        return None if self._head.startswith(head) else Continuation.NEXT


def _head(data: bytes) -> bytes:
    """Return the first lines of some bytes."""
    return b"".join(data[:_HEAD].splitlines(keepends=True)[:_HEAD_LINES])
