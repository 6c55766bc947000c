"""A place that is watched: a folder, several files, or a file that is not appended to."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.places import Found, read_place
from stabdiag.watch.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.places import Asked

# Of a folder of thousands of files even the sizes take time to look up.
_SHARE_FOR_LOOKS: Final = 0.02


class Place:
    """Anything that holds a log, read again as a whole when a file of it has changed."""

    ended = False

    def __init__(self, logs: Sequence[str], asked: Asked) -> None:
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

    def found(self, *, whole: bool) -> Found:
        """Read what is there now; to read a pipe would wait for whoever writes."""
        for log in self._logs:
            if Path(log).is_fifo():
                raise LogError(f"{log}: a pipe is watched alone, and from its start on")
        asked = self._asked
        return read_place(self._logs, format=asked.format, wanted=asked.wanted, grows=not whole)

    def close(self) -> None:
        """Do nothing: no file stays open."""


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
