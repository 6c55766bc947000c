"""The text of a growing log, and its columns."""

from __future__ import annotations

import io
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Final

from stabdiag.errors import LogError
from stabdiag.files import temporary_space
from stabdiag.readers import as_written
from stabdiag.readers.blocks import NOT_ENDED, last_line_end
from stabdiag.readers.columns import Columns
from stabdiag.readers.reader import GrowingLog
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import is_final, sniff
from stabdiag.readers.source import Stream
from stabdiag.sources import ReadRequest

# The format is fixed after this many bytes. Until then the log is read again each time it grows,
# which takes at most a tenth of a second.
_SETTLED: Final = 1 << 22

# Then blocks of this size are read once, and only the bytes after the last block each time.
_GROWN_BLOCK: Final = 1 << 18

# A log that is read again each time is kept in memory up to this size, and on disk beyond it.
_IN_MEMORY: Final = 1 << 26


class GrownLog:
    """The content of a log so far. An unfinished last line waits until it is complete."""

    def __init__(self, name: str, request: ReadRequest, *, settled: int = _SETTLED) -> None:
        """Start empty; the format is fixed after ``settled`` bytes."""
        self.name = name
        self._settled = settled
        self._request = request
        self._begin()

    def forget(self) -> None:
        """Start again, empty."""
        self.close()
        self._begin()

    def close(self) -> None:
        """Discard the text."""
        self._text.close()

    def _begin(self) -> None:
        self._text = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._size = 0
        self._is_line_open = False
        self._settle_at = self._settled
        self._growing: GrowingLog | None = None
        self._pending = b""

    @property
    def is_empty(self) -> bool:
        """Whether the log is empty."""
        return self._growing is None and not self._size

    def add(self, data: bytes) -> None:
        """Add appended bytes."""
        if not data:
            return
        self._is_line_open = not data.endswith(b"\n")
        if self._growing is not None:
            self._feed(self._growing, data)
            return
        with temporary_space():
            self._text.seek(self._size)
            self._text.write(data)
        self._size += len(data)
        if self._size >= self._settle_at:
            self._settle()

    def end_line(self) -> None:
        """End an unfinished line, so that the next file does not continue it."""
        if self._is_line_open:
            self.add(b"\n")

    def columns(self, *, is_complete: bool) -> Columns:
        """Return the columns so far; if ``is_complete``, an unfinished last line counts.

        Raises:
            LogError: if nothing can be read yet.
        """
        if self._growing is None:
            return replace(self._request, grows=not is_complete).read(self._stream())
        growing, stream = self._growing.copy(), Stream(self.name, io.BytesIO())
        end = len(self._pending) if is_complete else last_line_end(self._pending)
        if end:
            growing.add(self._pending[:end])
        if self._pending[end:].strip():
            stream.notes.append(NOT_ENDED)
        return growing.columns(stream)

    def _stream(self) -> Stream:
        self._text.seek(0)
        return Stream(self.name, self._text)

    def _settle(self) -> None:
        """Read the log in blocks from now on, if its format allows it."""
        self._settle_at *= 2
        stream = self._stream()
        if as_written(stream) is not stream:
            return
        try:
            name = self._request.format
            chosen = sniff(stream) if name is None else reader(name)
        except LogError:
            return
        growing = chosen.growing()
        if growing is not None and (name is not None or is_final(chosen, stream)):
            stream = self._stream()
            while data := stream.read(1 << 22):
                self._feed(growing, data)
            self._growing = growing
            self._text.close()

    def _feed(self, growing: GrowingLog, data: bytes) -> None:
        data = self._pending + data
        at = 0
        while len(data) - at >= _GROWN_BLOCK:
            end = data.rfind(b"\n", at, at + _GROWN_BLOCK) + 1 or data.find(b"\n", at) + 1
            if not end:
                break
            growing.add(data[at:end])
            at = end
        self._pending = data[at:]
