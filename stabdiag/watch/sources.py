"""What can be watched: a file that grows, standard input, and whatever else holds a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stabdiag.errors import LogError
from stabdiag.readers.registry import reader
from stabdiag.readers.source import STANDARD_INPUT
from stabdiag.watch.file import File
from stabdiag.watch.grown import Grown
from stabdiag.watch.pipe import Pipe
from stabdiag.watch.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.places import Asked, Found


class Source(Protocol):
    """A log that may grow."""

    @property
    def ended(self) -> bool:
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


def open_source(logs: Sequence[str], asked: Asked) -> Source:
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
        return Place(logs, asked)
    (log,) = logs
    if log == "-":
        pipe = sys.stdin.fileno()
        return Pipe(lambda: pipe, Grown(STANDARD_INPUT, asked))
    return Place(logs, asked) if Path(log).is_dir() else File(Path(log), asked)
