"""What is appended to a file, across rotation, truncation and being written anew."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Final

from stabdiag.model.frozen import frozen

_BITE: Final = 1 << 22

# This many of the last bytes read are checked again: are they still there?
_SEAL: Final = 256

# Two files are compared by their first lines: the first may be only a header.
_HEAD_LINES: Final = 2
_HEAD: Final = 1 << 16


class Begin(Enum):
    """How bytes follow those before them."""

    ON = auto()
    """They were appended to the same file."""
    NEXT = auto()
    """They are those of another file, in which the run goes on: the log was rotated."""
    RESTARTED = auto()
    """They are the same log once more from its first line on: those before count no more."""
    OTHER = auto()
    """They are those of another run: the link that is watched leads elsewhere now."""


@frozen
class TailEvent:
    """Bytes that a log has gained, and how they follow those before them."""

    data: bytes = b""
    begin: Begin = Begin.ON


class Tail:
    """Follows a file by its name.

    The file is told from another that takes its name by its number on the disk, and from one that
    is written over by the bytes that were read last, which are no longer there. What comes then
    begins as the log did, and so is the log written anew (or cut back to a checkpoint), or it does
    not, and goes on.
    """

    def __init__(self, path: Path) -> None:
        """Follow ``path``, which need not be there yet."""
        self._path = path
        self._file: BinaryIO | None = None
        self._identity: tuple[int, int] | None = None
        self._target: Path | None = None
        self._at = 0
        self._seal = b""
        self._head = b""

    def news(self) -> Iterator[TailEvent]:
        """Yield what came since the last call, the end of a file that was moved away first.

        Raises:
            OSError: if the file cannot be read; it not being there is no error.
        """
        if self._file is not None:
            yield from self._appended(self._file)
        try:
            status = self._path.stat()
            if (status.st_dev, status.st_ino) == self._identity:
                return
            if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
                return  # to read a pipe or a terminal waits for whoever writes
            file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return
        target = self._path.resolve() if self._path.is_symlink() else None
        begin = self._begin_of(file)
        if target is not None and self._target is not None and target != self._target:
            begin = Begin.OTHER
        if begin is None:
            file.close()
            return
        self._target = target
        self.let_go()
        if self._head:
            yield TailEvent(begin=begin)
        self._file, self._identity = file, (status.st_dev, status.st_ino)
        self._from_its_start()
        yield from self._appended(file)

    def let_go(self) -> None:
        """Close the file; the next call opens it again, and tells whether it is the same log."""
        if self._file is not None:
            with suppress(OSError):  # a network file system that had lost it says so once more
                self._file.close()
        self._file = self._identity = None

    def _appended(self, file: BinaryIO) -> Iterator[TailEvent]:
        while True:
            file.seek(self._at - len(self._seal))
            found = file.read(len(self._seal) + _BITE)
            if not found.startswith(self._seal):
                begin = self._begin_of(file)
                if begin is None:
                    return
                self._from_its_start()
                yield TailEvent(begin=begin)
                continue
            data = found[len(self._seal) :]
            if not data:
                return
            self._at += len(data)
            self._seal = found[-_SEAL:]
            self._head = _head(self._head + data)
            yield TailEvent(data=data)

    def _from_its_start(self) -> None:
        self._at, self._seal, self._head = 0, b"", b""

    def _begin_of(self, file: BinaryIO) -> Begin | None:
        """Return how a file follows what was read; None while it holds too little to tell."""
        file.seek(0)
        head = _head(file.read(_HEAD))
        if head.startswith(self._head):
            return Begin.RESTARTED
        return None if self._head.startswith(head) else Begin.NEXT


def _head(data: bytes) -> bytes:
    """Return the first lines."""
    return b"".join(data[:_HEAD].splitlines(keepends=True)[:_HEAD_LINES])
