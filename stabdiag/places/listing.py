"""What all places have in common: they list files by path, and open them as streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from stabdiag.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import PurePosixPath

    from stabdiag.readers.source import Stream

# How many files are listed, and how many levels deep.
MOST_FILES: Final = 10_000
DEEPEST: Final = 6

# Folders in which no run logs.
_NO_LOGS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "__MACOSX"})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file in a place.

    ``path`` is its path in the place, ``size`` its size in bytes and ``written`` when it was last
    written to, in seconds, where that is known. ``key`` is how the place itself knows it.
    """

    path: PurePosixPath
    size: int | None
    written: float | None
    key: str


class Place(Protocol):
    """A folder, an archive, or a folder behind a URL."""

    @property
    def name(self) -> str:
        """The name by which a report calls the place."""

    @property
    def notes(self) -> list[str]:
        """What was left out, and why."""

    def entries(self) -> Sequence[Entry]:
        """Return the files in the place."""

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other; each has to be read before the next is asked for."""


def opened(
    entries: Iterable[Entry], opening: Callable[[Entry], Stream], notes: list[str]
) -> Generator[tuple[Entry, Stream]]:
    """Open one file after the other; what cannot be opened is left out, with a note."""
    for entry in entries:
        try:
            stream = opening(entry)
        except LogError as error:
            notes.append(str(error))
            continue
        with stream:
            yield entry, stream


def is_skipped(folder: str) -> bool:
    """Tell whether a folder of this name holds neither logs nor Hydra's configuration."""
    return folder in _NO_LOGS or (folder.startswith(".") and folder != ".hydra")
