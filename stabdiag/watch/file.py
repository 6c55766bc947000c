"""A file that is watched, and what lies beside it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.history import Event, EventKind
from stabdiag.places import Beside, Found, beside_file
from stabdiag.readers import refusals
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import recognised
from stabdiag.watch.grown import Grown
from stabdiag.watch.pipe import Pipe
from stabdiag.watch.place import Place
from stabdiag.watch.tail import Begin, Tail

if TYPE_CHECKING:
    from pathlib import Path

    from stabdiag.places import Asked

_HEAD: Final = 1 << 16


class File:
    """A file that is appended to, line by line; one that is not is read again as a whole.

    It may prove to be a pipe with a name, or a folder.
    """

    def __init__(self, path: Path, asked: Asked) -> None:
        """Watch ``path``, which need not be there yet."""
        self._path = path
        self._tail = Tail(path)
        self._grown = Grown(str(path), asked)
        self._other: Place | Pipe | None = None
        self._is_known = False
        self._events: list[Event] = []
        self._beside = _Surroundings(path)
        self._asked = asked

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
        return grew

    def found(self, *, whole: bool) -> Found:
        """Return the log so far, and what lies beside it."""
        if self._other is not None:
            return self._other.found(whole=whole)
        if not self._path.exists() and self._grown.is_empty:
            raise NoUsableRecord(f"{self._path}: no such file; check the path")
        columns = self._grown.columns(whole=whole)
        beside = self._beside.look()
        columns = replace(
            columns,
            events=(*self._events, *beside.events, *columns.events),
            files=(str(self._path), *beside.files),
        )
        return Found(columns=columns, manifest=beside.manifest)

    def close(self) -> None:
        """Let go of the file."""
        self._tail.let_go()
        self._grown.close()

    def _tell(self) -> None:
        """Tell by its first bytes whether the file is one to which lines are appended."""
        if self._path.is_fifo():
            self._other = Pipe(lambda: os.open(self._path, os.O_RDONLY), self._grown)
        elif self._path.is_dir():  # it was not there yet when the watch began
            self._other = Place([str(self._path)], self._asked)
        self._is_known = self._other is not None
        if self._is_known or not self._path.is_file():
            return
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError:  # it may come; if it cannot be read, following it says why
            return
        whole = len(head) < _HEAD
        name = self._asked.format or (recognised(head, whole=whole) if head else None)
        if name is None and refusals.binary(head) is None:
            self._is_known = not whole
            return
        self._is_known = True
        if name is None or not reader(name).by_lines:
            self._other = Place([str(self._path)], self._asked)

    def _follow(self, begin: Begin) -> None:
        if begin is Begin.ANEW:
            self._grown.forget()
            self._events = []
        elif begin is Begin.NEXT:
            self._grown.end_line()
            told = "another file took the log's name: the run goes on in it"
            self._events.append(Event(kind=EventKind.PLACE, message=told))


class _Surroundings:
    """What lies beside a log, looked for again when a file has come or gone there."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._changed: int | None = None
        self._last = Beside()

    def look(self) -> Beside:
        try:
            changed = self._log.parent.stat().st_mtime_ns
        except OSError:
            return self._last
        if changed != self._changed:
            self._last = beside_file(self._log, self._log.parent)
            self._changed = changed
        return self._last
