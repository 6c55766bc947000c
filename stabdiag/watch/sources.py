"""What is watched: a file that grows, standard input, and whatever else holds a log."""

from __future__ import annotations

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

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.history import Event, EventKind
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
from stabdiag.watch.grown import Grown
from stabdiag.watch.tail import Begin, Tail

_HEAD: Final = 1 << 16
_BITE: Final = 1 << 16

# Looking up the sizes of thousands of files takes time: this share of one processor at most.
_SHARE_FOR_LOOKS: Final = 0.02


def open_source(logs: Sequence[str], asked: ReadRequest) -> Source:
    """Return the source that several names are together.

    Raises:
        LogError: if it is one that cannot be watched, or an unknown format is asked for.
    """
    if asked.format is not None:
        reader(asked.format)
    for log in logs:
        if "://" in log:
            raise LogError(f"{log}: a URL cannot be watched; give a file, a folder or -")
    if len(logs) > 1:
        if "-" in logs:
            raise LogError("standard input cannot be watched beside files; give one or the other")
        return Container(logs, asked)
    (log,) = logs
    if log == "-":
        pipe = sys.stdin.fileno()
        return Pipe(lambda: pipe, Grown(STANDARD_INPUT, asked))
    return Container(logs, asked) if Path(log).is_dir() else File(Path(log), asked)


class File:
    """A file that is appended to, line by line; one that is not is read again as a whole.

    It may prove to be a pipe with a name, or a folder. ``runs`` is how many runs it has led to: a
    link may come to lead to another one.
    """

    def __init__(self, path: Path, asked: ReadRequest) -> None:
        """Watch ``path``, which need not be there yet."""
        self._path = path
        self._tail = Tail(path)
        self._grown = Grown(str(path), asked)
        self._other: Container | Pipe | None = None
        self._is_known = False
        self._events: list[Event] = []
        self._beside = Sidecars(files=[str(path)])
        self._changed: int | None = None
        self._asked = asked
        self.runs = 1

    @property
    def ended(self) -> bool:
        """Whether nothing more can come."""
        return self._other is not None and self._other.ended

    def look(self) -> bool:
        """Take what was appended."""
        if not self._is_known:
            self._tell()
        if self._other is not None:
            return self._other.look()
        grew = False
        try:
            for news in self._tail.news():
                grew = True
                self._follow(news.begin)
                self._grown.add(news.data)
        except OSError as error:
            if self._grown.is_empty:
                raise LogError(
                    f"{self._path}: cannot be read ({error.strerror}); check the path"
                ) from error
            self._tail.let_go()  # a hiccup of a network file system ends no watch
        if os.name == "nt":
            self._tail.let_go()  # a file that is open cannot be renamed there
        return grew

    def found(self, *, whole: bool) -> LoadedLog:
        """Return the log so far, and what lies beside it.

        ``whole`` says that a last line without its end counts.

        Raises:
            LogError: if nothing can be read yet.
        """
        if self._other is not None:
            return self._other.found(whole=whole)
        if not self._path.exists() and self._grown.is_empty:
            raise NoUsableRecord(f"{self._path}: no such file; check the path")
        columns = self._grown.columns(whole=whole)
        beside = self._surroundings()
        saved = sidecar_checkpoints(self._path, self._path.parent)  # more come all the time
        events = [*self._events, *beside.events]
        return replace(beside, events=events, checkpoints=saved).attach(columns)

    def _surroundings(self) -> Sidecars:
        """Return what lies beside the log, looked for again when a file has come or gone there."""
        with suppress(OSError):
            changed = self._path.parent.stat().st_mtime_ns
            if changed != self._changed:
                self._beside = file_sidecars(self._path, self._path.parent, [str(self._path)])
                self._changed = changed
        return self._beside

    def close(self) -> None:
        """Let go of the file."""
        self._tail.let_go()
        self._grown.close()

    def _tell(self) -> None:
        """Tell by its first bytes whether the file is one to which lines are appended."""
        if self._path.is_fifo():
            self._other = Pipe(lambda: os.open(self._path, os.O_RDONLY), self._grown)
        elif self._path.is_dir():  # it was not there yet when the watch began
            self._other = Container([str(self._path)], self._asked)
        self._is_known = self._other is not None
        if self._is_known or not self._path.is_file():
            return
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError:  # it may come; if it cannot be read, following it says why
            return
        whole = len(head) < _HEAD
        name = self._asked.format or (detect_format(head, is_complete=whole) if head else None)
        if name is None and not_text(head) is None:
            self._is_known = not whole
            return
        self._is_known = True
        if name is None or not reader(name).by_lines:
            self._other = Container([str(self._path)], self._asked)

    def _follow(self, begin: Begin) -> None:
        if begin in (Begin.RESTARTED, Begin.OTHER):
            self._grown.forget()
            self._events = []
            self.runs += begin is Begin.OTHER
        elif begin is Begin.NEXT:
            self._grown.end_line()
            told = "another file took the log's name: the run goes on in it"
            self._events.append(Event(kind=EventKind.PLACE, message=told))


class Pipe:
    """Standard input, or a pipe with a name."""

    runs = 1

    def __init__(self, opened: Callable[[], int], grown: Grown) -> None:
        """Read from the file descriptor that is ``opened``.

        That is done in a thread: to open a pipe waits for whoever writes, and so does to read it.
        """
        self.ended = False
        self._grown = grown
        self._came: SimpleQueue[bytes | OSError] = SimpleQueue()
        Thread(target=self._read, args=(opened,), daemon=True).start()

    def _read(self, opened: Callable[[], int]) -> None:
        try:
            pipe = opened()
            while data := os.read(pipe, _BITE):
                self._came.put(data)
        except OSError as error:
            self._came.put(error)
        self._came.put(b"")

    def look(self) -> bool:
        """Take what came."""
        came = []
        while not self.ended and not self._came.empty():
            data = self._came.get()
            if isinstance(data, OSError):
                raise LogError(f"{self._grown.name}: reading failed ({data.strerror})") from data
            self.ended = not data
            came.append(data)
        self._grown.add(b"".join(came))
        return any(came)

    def found(self, *, whole: bool) -> LoadedLog:
        """Return the log so far."""
        return LoadedLog(columns=self._grown.columns(whole=whole))

    def close(self) -> None:
        """Let go of the text; the pipe is still waited for by its thread."""
        self._grown.close()


class Container:
    """Anything that holds a log, read again as a whole when a file of it has changed."""

    ended = False
    runs = 1

    def __init__(self, logs: Sequence[str], asked: ReadRequest) -> None:
        """Watch what these names stand for, as one run."""
        self._logs = logs
        self._asked = asked
        self._seen: object = None
        self._pace = Pace(share=_SHARE_FOR_LOOKS)

    def look(self) -> bool:
        """Return whether a file is there that was not, is gone, or was written to."""
        if not self._pace.is_due:
            return False
        with self._pace.work():
            seen = [one for log in self._logs for one in _files(Path(log))]
        changed = seen != self._seen
        self._seen = seen
        return changed

    def found(self, *, whole: bool) -> LoadedLog:
        """Read what is there now; to read a pipe would wait for whoever writes."""
        for log in self._logs:
            if Path(log).is_fifo():
                raise LogError(f"{log}: a pipe is watched alone, and from its start on")
        return read_source(self._logs, replace(self._asked, grows=not whole))

    def close(self) -> None:
        """Do nothing: no file stays open."""


Source: TypeAlias = File | Pipe | Container
"""A log that may grow."""


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of a file, or of every file in a folder."""
    paths = [path]
    if path.is_dir():
        paths = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for one in paths:
        try:
            status = one.stat()
        except OSError:  # it has gone again
            continue
        if stat.S_ISREG(status.st_mode):
            yield str(one), status.st_size, status.st_mtime_ns


class Pace:
    """Work that is to take no more than a share of one processor; each piece of it is measured."""

    def __init__(self, *, share: float) -> None:
        """Leave after each piece of work as long a pause as the share asks for."""
        self._share = share
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last piece of work is over."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure a piece of work, by the time that all threads of this process spend on it."""
        begun = time.process_time()
        yield
        spent = time.process_time() - begun
        self._next = time.monotonic() + spent * (1 / self._share - 1)
