"""Streams of bytes, from a file or standard input; each way to fail has its own message."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import FileIO
from pathlib import Path
from typing import Protocol

from stabdiag.errors import LogError, unreadable
from stabdiag.files import temporary_space
from stabdiag.model.events import Event, EventCode, LeftOut
from stabdiag.readers.columns import ColumnFilter, every_column

STANDARD_INPUT = "standard input"

MLFLOW_RUN_NAME = "tags/mlflow.runName"
"""The file with the name of a run, in the folder where MLflow stores the run."""

_LINES_OF_A_HEAD = 20

_PIECE = 1 << 21

# The maximal size of a temporary copy of a pipe or URL, and at most half of the free space.
_LARGEST_COPY = 1 << 34

_watcher: ContextVar[Callable[[int], object] | None] = ContextVar("_watcher", default=None)


class RawStream(Protocol):
    """A source of bytes, which returns no bytes at its end."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes."""


class Stream:
    """Bytes that can be looked at before they are read.

    If the lines of the log are a field of JSON records, ``under`` is the key of the field.
    ``run_id`` is the run to read if there are several; None means the newest.
    """

    def __init__(self, name: str, raw: RawStream, *, path: Path | None = None) -> None:
        """Read from ``raw``; ``path`` is the path of a file with exactly these bytes, if any."""
        self.name = name
        self.path = path
        self.notes: list[str] = []
        self.left_out: list[LeftOut] = []
        self.omissions: list[Event] = []
        self.is_required: ColumnFilter = every_column
        self.under = ""
        self.run_id: str | None = None
        self._raw = raw
        self._ahead = b""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        close = getattr(self._raw, "close", None)
        if close is not None:
            close()

    def peek(self, size: int) -> bytes:
        """Return the next bytes, up to ``size``, without using them up."""
        parts = [self._ahead] if self._ahead else []
        missing = size - len(self._ahead)
        while missing > 0 and (data := self._more(missing)):
            parts.append(data)
            missing -= len(data)
        self._ahead = b"".join(parts)
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """Return the next bytes, up to ``size``; fewer only at the end."""
        data = self.peek(size)
        self._ahead = self._ahead[size:]
        return data

    def read_lines(self, size: int) -> bytes:
        """Return the next bytes, up to ``size``, to the end of a line if that is known in advance.

        The end is known in files whose lines are not very long. A later cut would copy the bytes.
        """
        raw = self._raw
        if self._ahead or self.path is None or not isinstance(raw, FileIO) or not raw.seekable():
            return self.read(size)
        start, tail = raw.tell(), size // 8
        try:
            raw.seek(start + size - tail)
            end = raw.read(tail).rfind(b"\n") + 1
        except OSError:  # the next read reports it
            end = 0
        raw.seek(start)
        return self._more(size - tail + end) if end else self.read(size)

    def head(self) -> tuple[bytes, bool]:
        """Return the first lines without using them up, and whether they are all there is.

        A line of 10,000 columns takes some 300 kB: where there are few lines, more is read.
        """
        for size in (1 << 16, 1 << 22):
            head = self.peek(size)
            if len(head) < size or head.count(b"\n") >= _LINES_OF_A_HEAD:
                break
        return head, len(head) < size

    def push_back(self, data: bytes) -> None:
        """Take back bytes that were read too far."""
        self._ahead = data + self._ahead

    def read_all(self) -> bytes:
        """Return all bytes that are left."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes that are left, piece by piece."""
        return iter(lambda: self.read(_PIECE), b"")

    def break_off(self, why: str, *, read_part: str) -> None:
        """Note why the bytes end too early, and the part that was read."""
        self.notes.append(f"{why}; {read_part}")
        self.left_out.append(LeftOut(code=EventCode.BYTES_LEFT_OUT, message=why))

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Give the path of a file that holds the bytes, for libraries that need one.

        It is the log itself if it is an uncompressed file, else a copy that is deleted when
        the context ends.
        """
        if self.path is not None:
            yield self.path
            return
        from tempfile import TemporaryDirectory

        with temporary_space():
            folder = TemporaryDirectory(prefix="stabdiag-", ignore_cleanup_errors=True)
        with folder as name:
            copy = Path(name) / "log"
            with temporary_space():
                self._keep(copy)
            yield copy

    def _keep(self, copy: Path) -> None:
        """Write all remaining bytes to a file, if the disk has room."""
        import shutil

        room = min(_LARGEST_COPY, shutil.disk_usage(copy.parent).free // 2)
        with copy.open("wb") as file:
            for piece in self.pieces():
                room -= len(piece)
                if room < 0:
                    raise LogError(
                        f"{self.name}: larger than {_LARGEST_COPY >> 30} GB, or than half of what"
                        f" is free in {copy.parent.parent}; unpack it and give the log"
                    )
                file.write(piece)

    def rewritten(self, pieces: Iterable[bytes]) -> Stream:
        """Return a stream like this one that gives other bytes, such as its own unpacked."""
        inner = Stream(self.name, Pieces(pieces, self.__exit__))
        inner.notes = self.notes
        inner.left_out = self.left_out
        inner.omissions = self.omissions
        inner.is_required = self.is_required
        return inner

    def _more(self, size: int) -> bytes:
        try:
            data = self._raw.read(size) or b""
        except OSError as error:
            raise LogError(f"{self.name}: reading failed ({_reason(error)})") from error
        if self.path is not None and (tell := _watcher.get()) is not None:
            tell(len(data))
        return data


@contextmanager
def watched(tell: Callable[[int], object]) -> Iterator[None]:
    """Call ``tell`` with the number of bytes of each piece that is read from a file."""
    token = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(token)


def open_stream(source: str | os.PathLike[str]) -> Stream:
    """Open a file, or standard input for ``-``."""
    name = os.fspath(source)
    if name == "-":  # which is not ours to close
        return Stream(STANDARD_INPUT, Pieces(iter(lambda: sys.stdin.buffer.read(_PIECE), b"")))
    path = Path(name)
    try:
        raw = _raw(name)
        # A named pipe cannot be opened a second time, as the Parquet reader does with a file.
        return Stream(name, raw, path=path if path.is_file() else None)
    except (OSError, ValueError) as error:
        raise LogError(unreadable(name, error)) from error


def _raw(name: str) -> RawStream:
    """Open a file so that opening and reading it do not wait forever.

    Opening a named pipe waits for a writer, and reading a system file that claims to be empty waits
    for data.
    """

    def opened(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)

    raw = open(name, "rb", buffering=0, opener=opened)  # noqa: SIM115 - closed by Stream
    status = os.fstat(raw.fileno())
    if stat.S_ISFIFO(status.st_mode):
        return _NamedPipe(raw)
    if os.name != "nt" and not (stat.S_ISREG(status.st_mode) and not status.st_size):
        os.set_blocking(raw.fileno(), True)
    return raw


class _NamedPipe:
    """A pipe that was opened without waiting for a writer.

    Without a writer, a read returns the end of the file; with a silent writer, no bytes yet.
    """

    # The seconds to wait for a writer, and the polling interval.
    _PATIENCE = 10.0
    _INTERVAL = 0.05

    def __init__(self, raw: FileIO) -> None:
        self.close = raw.close
        self._raw = raw
        self._had_writer = False

    def read(self, size: int, /) -> bytes:
        import select

        until = time.monotonic() + self._PATIENCE
        while True:
            data = self._raw.read(size)
            if data is None:  # nothing yet
                self._had_writer = True
                select.select([self._raw], [], [])
            elif data or self._had_writer:
                self._had_writer = True
                return data
            elif time.monotonic() > until:
                raise OSError(errno.EPIPE, f"nothing wrote to the pipe for {self._PATIENCE:g} s")
            else:
                time.sleep(self._INTERVAL)


class Pieces:
    """Bytes that arrive in pieces of any length, and are read in pieces of another length."""

    def __init__(self, pieces: Iterable[bytes], close: Callable[[], object] = lambda: None) -> None:
        """Create a stream of pieces, which ``close`` closes."""
        self.close = close
        self._pieces = filter(None, pieces)
        self._ready = b""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes."""
        ready = self._ready or next(self._pieces, b"")
        self._ready = ready[size:]
        return ready[:size]


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0]
