"""A row of the table of formats: how one is recognised and read."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammar import Grammar


class Growing(Protocol):
    """A log of lines that grows, as far as it was read."""

    def add(self, block: bytes) -> object:
        """Read one more block."""

    def copy(self) -> Growing:
        """Return the same, to which more can be added on trial."""

    def columns(self, stream: Stream) -> Columns:
        """Return the columns of all blocks, under the name of their stream."""


class Turn(Enum):
    """When a format is tried.

    QUICK formats come first: a few lines tell them. A TEXT log may begin with megabytes of other
    lines, so that it is tried on a longer head. The lines of a PATIENT text format may stand in the
    log of another one, so that it is tried after those. A LAST resort is tried when no other format
    is recognised.
    """

    QUICK = auto()
    TEXT = auto()
    PATIENT = auto()
    LAST = auto()


@frozen
class Reader:
    """A format.

    ``title`` says what it is, ``suffixes`` how files of it are named that may be damaged from their
    first line on, ``recognised`` how it is recognised, ``loses`` what is not read from
    it, and ``example`` shows a line. ``module`` reads it, or if that reads several formats, what is
    called ``part`` in it. ``extra`` is the optional extra that installs the ``packages``
    (by their import names) that read it. A ``binary`` format is tried on bytes that are no text; a
    ``document`` is a text that is written anew each time, and no log that lines are appended to;
    ``turn`` says when it is tried.
    """

    name: str
    title: str
    module: str
    recognised: str
    part: str = ""
    suffixes: tuple[str, ...] = ()
    extra: str | None = None
    packages: tuple[str, ...] = ()
    loses: str = ""
    example: str = ""
    binary: bool = False
    document: bool = False
    turn: Turn = Turn.QUICK

    @property
    def text(self) -> bool:
        """Whether such a log was printed for people."""
        return self.turn is not Turn.QUICK

    @property
    def by_lines(self) -> bool:
        """Whether such a log is appended to, line by line."""
        return not (self.binary or self.document)

    def functions(self) -> Any:
        """Return what has the format's functions; imports its module."""
        module = import_module(self.module)
        return getattr(module, self.part) if self.part else module

    def recognises(self, head: bytes, *, whole: bool) -> bool:
        """Return whether the head of a file is of this format."""
        recognises: Callable[..., bool] = self.functions().recognises
        return recognises(head, whole=whole)

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are needed and are not installed."""
        return tuple(package for package in self.packages if not _is_installed(package))

    def growing(self) -> Growing | None:
        """Return what reads such a log as it grows; None if it has to be read anew each time."""
        make: Callable[[], Growing] | None
        make = getattr(self.functions(), "growing", None)
        return None if make is None else make()

    def read(self, stream: Stream) -> Columns:
        """Read a stream.

        Raises:
            LogError: If it cannot be read, or the packages for it are not installed.
        """
        if self.missing:
            raise LogError(
                f"{stream.name}: {self.title}; to read it, install {' and '.join(self.missing)}:"
                f" pip install 'stabdiag[{self.extra}]'"
            )
        read: Callable[[Stream], Columns] = self.functions().read
        return read(stream)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


@frozen
class TextReader(Reader):
    """A format of text logs: its ``grammar`` stands here, or is its part of a module.

    ``grows`` says that it can be read block by block. A module with functions of its own reads, or
    even recognises, what a grammar cannot.
    """

    module: str = "stabdiag.readers.text.log"
    turn: Turn = Turn.TEXT
    grammar: Grammar | None = None
    grows: bool = True

    def _grammar(self) -> Grammar | None:
        if self.grammar is not None:
            return self.grammar
        functions = self.functions()
        found = getattr(functions, "GRAMMAR", functions)
        return found if isinstance(found, Grammar) else None

    def recognises(self, head: bytes, *, whole: bool) -> bool:
        """Return whether the head of a file has a line that only this framework writes."""
        grammar = self._grammar()
        if grammar is None:
            return super().recognises(head, whole=whole)
        from stabdiag.readers.text.clean import cleaned

        return grammar.recognises(cleaned(head))

    def growing(self) -> Growing | None:
        """Return what reads such a log as it grows; None if it has to be read anew each time."""
        grammar = self._grammar()
        if grammar is None or not self.grows:
            return None
        from stabdiag.readers.text.log import TextLog

        return TextLog(self.name, grammar)

    def read(self, stream: Stream) -> Columns:
        """Read a stream."""
        grammar = self._grammar()
        if grammar is None or hasattr(self.functions(), "read"):
            return super().read(stream)
        from stabdiag.readers.text.log import read_log

        return read_log(stream, self.name, grammar)
