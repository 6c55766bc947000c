"""Inputs of a watch: a growing file, standard input, or any other container of a log."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeAlias

from stabdiag.errors import LogError, NoUsableRecord, unreadable
from stabdiag.model.events import Event, EventKind
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import detect_format, not_text
from stabdiag.readers.source import STANDARD_INPUT
from stabdiag.sources import (
    LoadedLog,
    ReadRequest,
    Sidecars,
    file_sidecars,
    read_source,
    sidecar_checkpoints,
)
from stabdiag.watch.grown import GrownLog
from stabdiag.watch.tail import Continuation, Tail

_HEAD: Final = 1 << 16
_READ_SIZE: Final = 1 << 16

# Checking the sizes of thousands of files uses at most this fraction of one processor.
_POLL_SHARE: Final = 0.02


def open_source(logs: Sequence[str], request: ReadRequest) -> Source:
    """Return the source for one or several log names.

    Raises:
        LogError: if a log cannot be watched, or the requested format is unknown.
    """
    if request.format is not None:
        reader(request.format)
    for log in logs:
        if "://" in log:
            raise LogError(f"{log}: a URL cannot be watched; give a file, a folder or -")
    if len(logs) > 1:
        if "-" in logs:
            raise LogError(
                "standard input cannot be watched together with files; give one or the other"
            )
        return WatchedContainer(logs, request)
    (log,) = logs
    if log == "-":
        pipe = sys.stdin.fileno()
        return Pipe(lambda: pipe, GrownLog(STANDARD_INPUT, request))
    return (
        WatchedContainer(logs, request) if Path(log).is_dir() else WatchedFile(Path(log), request)
    )


class WatchedFile:
    """A file with appended lines; a file of another format is read again in full.

    The path may turn out to be a named pipe or a folder. ``runs`` is the number of runs so far: a
    link may be changed to point to another run.
    """

    def __init__(self, path: Path, request: ReadRequest) -> None:
        """Watch ``path``, which does not have to exist yet."""
        self._path = path
        self._tail = Tail(path)
        self._grown = GrownLog(str(path), request)
        self._other: WatchedContainer | Pipe | None = None
        self._is_known = False
        self._events: list[Event] = []
        self._sidecars = Sidecars(files=[str(path)])
        self._changed: int | None = None
        self._request = request
        self.runs = 1

    @property
    def ended(self) -> bool:
        """Whether the input has ended."""
        return self._other is not None and self._other.ended

    def look(self) -> bool:
        """Read the appended bytes; return True if there are any."""
        if not self._is_known:
            self._detect_kind()
        if self._other is not None:
            return self._other.look()
        grew = False
        try:
            for event in self._tail.events():
                grew = True
                self._follow(event.begin)
                self._grown.add(event.data)
        except OSError as error:
            if self._grown.is_empty:
                raise LogError(
                    f"{self._path}: cannot be read ({error.strerror}); check the path"
                ) from error
            self._tail.close()  # a temporary error of a network file system does not end the watch
        if os.name == "nt":
            self._tail.close()  # Windows cannot rename an open file
        return grew

    def read(self, *, is_complete: bool) -> LoadedLog:
        """Return the log so far and its sidecar files.

        If ``is_complete``, an unfinished last line counts.

        Raises:
            LogError: if nothing can be read yet.
        """
        if self._other is not None:
            return self._other.read(is_complete=is_complete)
        if not self._path.exists() and self._grown.is_empty:
            raise NoUsableRecord(unreadable(self._path, FileNotFoundError()))
        columns = self._grown.columns(is_complete=is_complete)
        sidecars = self._find_sidecars()
        saved = sidecar_checkpoints(self._path, self._path.parent)  # new ones keep appearing
        events = [*self._events, *sidecars.events]
        return replace(sidecars, events=events, checkpoints=saved).attach(columns)

    def _find_sidecars(self) -> Sidecars:
        """Return the sidecar files, searched again if the folder has changed."""
        with suppress(OSError):
            changed = self._path.parent.stat().st_mtime_ns
            if changed != self._changed:
                self._sidecars = file_sidecars(self._path, self._path.parent, [str(self._path)])
                self._changed = changed
        return self._sidecars

    def close(self) -> None:
        """Close the file."""
        self._tail.close()
        self._grown.close()

    def _detect_kind(self) -> None:
        """Determine from the first bytes whether lines are appended to the file."""
        if self._path.is_fifo():
            self._other = Pipe(lambda: os.open(self._path, os.O_RDONLY), self._grown)
        elif self._path.is_dir():  # it did not exist when the watch began
            self._other = WatchedContainer([str(self._path)], self._request)
        self._is_known = self._other is not None
        if self._is_known or not self._path.is_file():
            return
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError:  # it may appear later; if it cannot be read, following it reports the error
            return
        is_whole = len(head) < _HEAD
        name = self._request.format or (detect_format(head, is_complete=is_whole) if head else None)
        if name is None and not_text(head) is None:
            self._is_known = not is_whole
            return
        if is_whole and _is_torn_object(head):
            return
        self._is_known = True
        if name is None or not reader(name).by_lines:
            self._other = WatchedContainer([str(self._path)], self._request)

    def _follow(self, begin: Continuation) -> None:
        if begin in (Continuation.RESTARTED, Continuation.OTHER):
            self._grown.forget()
            self._events = []
            self.runs += begin is Continuation.OTHER
        elif begin is Continuation.NEXT:
            self._grown.end_line()
            message = "the log was rotated; the run continues in the new file"
            self._events.append(Event(kind=EventKind.SOURCE, message=message))


def _is_torn_object(head: bytes) -> bool:
    """Return True for a part of a line with an object: a record, or a document to be completed."""
    if not head.startswith(b"{") or b"\n" in head:
        return False
    try:
        json.loads(head)
    except ValueError:
        return True
    return False


class Pipe:
    """Standard input or a named pipe."""

    runs = 1

    def __init__(self, opened: Callable[[], int], grown: GrownLog) -> None:
        """Read from the file descriptor returned by ``opened``.

        A thread reads it, because opening and reading a pipe block until another process writes.
        """
        self.ended = False
        self._grown = grown
        self._queue: SimpleQueue[bytes | OSError] = SimpleQueue()
        Thread(target=self._read, args=(opened,), daemon=True).start()

    def _read(self, opened: Callable[[], int]) -> None:
        try:
            pipe = opened()
            while data := os.read(pipe, _READ_SIZE):
                self._queue.put(data)
        except OSError as error:
            self._queue.put(error)
        self._queue.put(b"")

    def look(self) -> bool:
        """Read the new bytes; return True if there are any."""
        chunks = []
        while not self.ended and not self._queue.empty():
            data = self._queue.get()
            if isinstance(data, OSError):
                raise LogError(f"{self._grown.name}: reading failed ({data.strerror})") from data
            self.ended = not data
            chunks.append(data)
        self._grown.add(b"".join(chunks))
        return any(chunks)

    def read(self, *, is_complete: bool) -> LoadedLog:
        """Return the log so far."""
        return LoadedLog(columns=self._grown.columns(is_complete=is_complete))

    def close(self) -> None:
        """Discard the text; the thread still waits for the pipe."""
        self._grown.close()


class WatchedContainer:
    """Any other source of a log, read again in full when one of its files has changed."""

    ended = False
    runs = 1

    def __init__(self, logs: Sequence[str], request: ReadRequest) -> None:
        """Watch several names as one run."""
        self._logs = logs
        self._request = request
        self._seen: object = None
        self._pace = Pace(share=_POLL_SHARE)

    def look(self) -> bool:
        """Return True if a file was added, removed or changed."""
        if not self._pace.is_due:
            return False
        with self._pace.work():
            seen = [status for log in self._logs for status in _files(Path(log))]
        changed = seen != self._seen
        self._seen = seen
        return changed

    def read(self, *, is_complete: bool) -> LoadedLog:
        """Read the current content, without pipes, which would block."""
        for log in self._logs:
            if Path(log).is_fifo():
                raise LogError(f"{log}: a pipe cannot be watched together with other logs")
        return read_source(self._logs, replace(self._request, grows=not is_complete))

    def close(self) -> None:
        """Do nothing: no file is open."""


Source: TypeAlias = WatchedFile | Pipe | WatchedContainer
"""A log that may grow."""


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the name, size and time of a file, or of all files in a folder."""
    paths = [path]
    if path.is_dir():
        paths = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in paths:
        try:
            status = file.stat()
        except OSError:  # it has been removed
            continue
        if stat.S_ISREG(status.st_mode):
            yield str(file), status.st_size, status.st_mtime_ns


class Pace:
    """Limit repeated work to a fraction of one processor by measuring each piece."""

    def __init__(self, *, share: float) -> None:
        """Pause after each piece of work so that ``share`` is kept."""
        self._share = share
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last piece of work is over."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure the processor time of a piece of work in all threads."""
        start = time.process_time()
        yield
        spent = time.process_time() - start
        self._next = time.monotonic() + spent * (1 / self._share - 1)
