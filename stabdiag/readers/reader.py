"""A row of the table of formats: how to detect and read one format."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from enum import Enum, auto
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from stabdiag.readers.text.lines.grammar import Grammar


class GrowingLog(Protocol):
    """The part of a growing log that was read so far."""

    def add(self, block: bytes) -> object:
        """Read one more block."""

    def copy(self) -> GrowingLog:
        """Return a copy for trial additions."""

    def columns(self, stream: Stream) -> Columns:
        """Return the columns of all blocks, under the name of their stream."""


class SniffPriority(Enum):
    """When a format is tried.

    EARLY formats are detected by a few lines. TEXT logs are tried on a longer head, as they may
    begin with megabytes of other lines. LATE text formats are tried after those, as their lines may
    be part of logs of other formats. A LAST resort is tried when no other format is detected.
    """

    EARLY = auto()
    TEXT = auto()
    LATE = auto()
    LAST = auto()


@frozen
class Reader:
    """A format.

    Attributes:
        title: a short description.
        module: the module that reads it.
        starts: what a file begins with, after blanks; others do not wait for the import of the
            module. Empty if it varies.
        detected_by: a description of how it is detected.
        part: the object in ``module`` that reads it, if the module reads several formats.
        suffixes: files with these suffixes have the format even if their first line is damaged.
        extra: the optional extra that installs the ``packages``.
        packages: the import names of the packages that read it.
        not_read: a description of the content that is not read.
        example: an example of a line.
        binary: it is tried on bytes that are not text.
        document: each update rewrites the whole text; lines are not appended.
        priority: when it is tried.
    """

    name: str
    title: str
    module: str
    detected_by: str
    part: str = ""
    starts: tuple[bytes, ...] = ()
    suffixes: tuple[str, ...] = ()
    extra: str | None = None
    packages: tuple[str, ...] = ()
    not_read: str = ""
    example: str = ""
    binary: bool = False
    document: bool = False
    priority: SniffPriority = SniffPriority.EARLY

    @property
    def text(self) -> bool:
        """Whether the format is printed for people."""
        return self.priority is not SniffPriority.EARLY

    @property
    def by_lines(self) -> bool:
        """Whether a log of this format grows line by line."""
        return not (self.binary or self.document)

    def functions(self) -> Any:
        """Import the module of the format and return the object with its functions."""
        module = import_module(self.module)
        return getattr(module, self.part) if self.part else module

    def sniff(self, head: bytes, *, is_complete: bool) -> bool:
        """Return True if the head of a file has this format."""
        if self.starts and not head.removeprefix(BOM_UTF8).lstrip().startswith(self.starts):
            return False
        sniff: Callable[..., bool] = self.functions().sniff
        return sniff(head, is_complete=is_complete)

    @property
    def missing(self) -> tuple[str, ...]:
        """The required packages that are not installed."""
        return tuple(package for package in self.packages if not _is_installed(package))

    def growing(self) -> GrowingLog | None:
        """Return a reader of growing logs, or None if a log has to be re-read each time."""
        make: Callable[[], GrowingLog] | None
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
    """A format of text logs, read with the grammar that is its part or its module's GRAMMAR.

    ``grows`` means that it can be read block by block. If a grammar is not enough, the module has
    its own ``read`` or ``sniff``.
    """

    priority: SniffPriority = SniffPriority.TEXT
    grows: bool = True

    def grammar(self) -> Grammar | None:
        """Import the grammar, or return None if the module reads the format in another way."""
        from stabdiag.readers.text.lines.grammar import Grammar

        functions = self.functions()
        grammar = getattr(functions, "GRAMMAR", functions)
        return grammar if isinstance(grammar, Grammar) else None

    def sniff(self, head: bytes, *, is_complete: bool) -> bool:
        """Return True if the head of a file has a line that only this framework writes."""
        grammar = self.grammar()
        if grammar is None:
            return super().sniff(head, is_complete=is_complete)
        from stabdiag.readers.text.lines.clean import cleaned

        return grammar.sniff(cleaned(head))

    def growing(self) -> GrowingLog | None:
        """Return a reader of growing logs, or None if a log has to be re-read each time."""
        grammar = self.grammar()
        if grammar is None or not self.grows:
            return None
        from stabdiag.readers.text.log import TextLog

        return TextLog(self.name, grammar)

    def read(self, stream: Stream) -> Columns:
        """Read a stream."""
        grammar = self.grammar()
        if grammar is None or hasattr(self.functions(), "read"):
            return super().read(stream)
        from stabdiag.readers.text.log import read_log

        return read_log(stream, self.name, grammar)
