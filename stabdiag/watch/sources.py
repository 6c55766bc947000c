"""What can be watched: a file that grows, standard input, and whatever else holds a log."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final, Protocol

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.manifest import Manifest
from stabdiag.places import Found, beside_file, read_place
from stabdiag.readers import refusals
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import recognised
from stabdiag.readers.source import STANDARD_INPUT
from stabdiag.watch.grown import Grown
from stabdiag.watch.pace import Pace
from stabdiag.watch.tail import Begin, Tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.readers.columns import Wanted

_BITE: Final = 1 << 16
_HEAD: Final = 1 << 16

# Formats of lines that are appended to; any other text is a log of lines as well.
_NOT_APPENDED: Final = ("json", "trainer-state")

# Of a folder of thousands of files even the sizes take time to look up.
_SHARE_FOR_LOOKS: Final = 0.02


class Source(Protocol):
    """A log that may grow."""

    ended: bool
    """Whether nothing more can come."""

    def look(self) -> bool:
        """Take what is new, and return whether anything is."""

    def found(self, *, whole: bool) -> Found:
        """Return the log so far; ``whole`` says that a last line without its end counts.

        Raises:
            LogError: if nothing can be read yet.
        """

    def close(self) -> None:
        """Let go of whatever is open."""


def open_source(logs: Sequence[str], *, format: str | None, wanted: Wanted) -> Source:
    """Return the source that several names are together.

    Raises:
        LogError: if it is one that cannot be watched, or an unknown format is asked for.
    """
    if format is not None:
        reader(format)
    for log in logs:
        if "://" in log:
            raise LogError(f"{log}: a URL cannot be watched; give a file, a folder or -")
    if len(logs) > 1:
        if "-" in logs:
            raise LogError("standard input cannot be watched beside files; give one or the other")
        return Place(logs, format=format, wanted=wanted)
    (log,) = logs
    if log == "-":
        return Pipe(sys.stdin.fileno(), Grown(STANDARD_INPUT, format=format, wanted=wanted))
    path = Path(log)
    if path.is_fifo():
        pipe = os.open(path, os.O_RDONLY)
        return Pipe(pipe, Grown(log, format=format, wanted=wanted))
    if path.is_dir():
        return Place(logs, format=format, wanted=wanted)
    return File(path, format=format, wanted=wanted)


class File:
    """A file that is appended to, line by line; one that is not is read again as a whole."""

    ended = False

    def __init__(self, path: Path, *, format: str | None, wanted: Wanted) -> None:
        """Watch ``path``, which need not be there yet."""
        self._path = path
        self._format = format
        self._tail = Tail(path)
        self._grown = Grown(str(path), format=format, wanted=wanted)
        self._place: Place | None = None
        self._is_known = False
        self._events: list[Event] = []
        self._beside = _Beside(path)
        self._another = Place([str(path)], format=format, wanted=wanted)

    def look(self) -> bool:
        """Take what was appended."""
        if not self._is_known:
            self._tell()
        if self._place is not None:
            return self._place.look()
        grew = False
        try:
            for news in self._tail.news():
                grew = True
                self._follow(news.begin)
                self._grown.add(news.data)
        except OSError as error:
            if self._grown.is_empty:
                raise LogError(f"{self._path}: cannot be read ({error.strerror})") from error
            self._tail.let_go()  # a hiccup of a network file system ends no watch
        return grew

    def found(self, *, whole: bool) -> Found:
        """Return the log so far, and what lies beside it."""
        if self._place is not None:
            return self._place.found(whole=whole)
        if not self._path.exists() and self._grown.is_empty:
            raise NoUsableRecord(f"{self._path}: no such file; check the path")
        columns = self._grown.columns(whole=whole)
        manifest, events = self._beside.look()
        columns = replace(columns, events=(*self._events, *events, *columns.events))
        return Found(columns=columns, manifest=manifest)

    def close(self) -> None:
        """Let go of the file."""
        self._tail.let_go()
        self._grown.close()

    def _tell(self) -> None:
        """Tell by its first bytes whether the file is one to which lines are appended."""
        if self._path.is_dir():  # it was not there yet when the watch began
            self._is_known, self._place = True, self._another
            return
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError:  # it may come; if it cannot be read, following it says why
            return
        whole = len(head) < _HEAD
        name = self._format or (recognised(head, whole=whole) if head else None)
        if name is None and refusals.binary(head) is None:
            self._is_known = not whole
            return
        self._is_known = True
        if name is None or reader(name).binary or name in _NOT_APPENDED:
            self._place = self._another

    def _follow(self, begin: Begin) -> None:
        if begin is Begin.ANEW:
            self._grown.forget()
            self._events = []
        elif begin is Begin.NEXT:
            self._grown.end_line()
            told = "another file took the log's name: the run goes on in it"
            self._events.append(Event(kind=EventKind.PLACE, message=told))


class Pipe:
    """Standard input, or a pipe with a name."""

    def __init__(self, pipe: int, grown: Grown) -> None:
        """Read from a file descriptor, in a thread: reading waits for whoever writes."""
        self.ended = False
        self._grown = grown
        self._came: SimpleQueue[bytes | OSError] = SimpleQueue()
        Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: int) -> None:
        try:
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

    def found(self, *, whole: bool) -> Found:
        """Return the log so far."""
        return Found(columns=self._grown.columns(whole=whole))

    def close(self) -> None:
        """Let go of the text; the pipe is still waited for by its thread."""
        self._grown.close()


class Place:
    """Anything that holds a log, read again as a whole when a file of it has changed."""

    ended = False

    def __init__(self, logs: Sequence[str], *, format: str | None, wanted: Wanted) -> None:
        """Watch what these names stand for, as one run."""
        self._logs = logs
        self._format = format
        self._wanted = wanted
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

    def found(self, *, whole: bool) -> Found:
        """Read what is there now."""
        return read_place(self._logs, format=self._format, wanted=self._wanted)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class _Beside:
    """The manifest beside a log, looked for again when a file has come or gone there."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._changed: int | None = None
        self._last: tuple[Manifest, list[Event]] = (Manifest(), [])

    def look(self) -> tuple[Manifest, list[Event]]:
        try:
            changed = self._log.parent.stat().st_mtime_ns
        except OSError:
            return self._last
        if changed != self._changed:
            self._last = beside_file(self._log, self._log.parent)
            self._changed = changed
        return self._last


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
