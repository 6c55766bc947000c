"""Standard input, or a pipe with a name, that is watched."""

from __future__ import annotations

import os
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.places import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.watch.grown import Grown

_BITE: Final = 1 << 16


class Pipe:
    """Standard input, or a pipe with a name."""

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

    def found(self, *, whole: bool) -> Found:
        """Return the log so far."""
        return Found(columns=self._grown.columns(whole=whole))

    def close(self) -> None:
        """Let go of the text; the pipe is still waited for by its thread."""
        self._grown.close()
