"""The text of a log that grows, and its columns."""

from __future__ import annotations

import io
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Final

from stabdiag.errors import LogError
from stabdiag.files import temporary_space
from stabdiag.readers import bare
from stabdiag.readers.blocks import NOT_ENDED, last_line_end
from stabdiag.readers.columns import Columns
from stabdiag.readers.reader import Growing
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import is_final, sniff
from stabdiag.readers.source import Stream
from stabdiag.sources import ReadRequest

# The format is decided on this many bytes. Until then the log is read again each time it grows,
# which takes a tenth of a second at most.
_SETTLED: Final = 1 << 22

# From then on blocks of this size are read once, and only what follows the last one each time.
_BLOCK: Final = 1 << 18

# A log that has to be read again each time is kept in memory up to here, on the disk beyond.
_IN_MEMORY: Final = 1 << 26


class Grown:
    """What a log holds so far. A last line without its end waits for the rest of it."""

    def __init__(self, name: str, asked: ReadRequest, *, settled: int = _SETTLED) -> None:
        """Begin with nothing; the format is settled when ``settled`` bytes have come."""
        self.name = name
        self._settled = settled
        self._asked = asked
        self._begin()

    def forget(self) -> None:
        """Begin again with nothing."""
        self.close()
        self._begin()

    def close(self) -> None:
        """Let go of the text."""
        self._text.close()

    def _begin(self) -> None:
        self._text = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._size = 0
        self._breaks_off = False
        self._settle_at = self._settled
        self._growing: Growing | None = None
        self._rest = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come yet."""
        return self._growing is None and not self._size

    def add(self, data: bytes) -> None:
        """Take what was appended."""
        if not data:
            return
        self._breaks_off = not data.endswith(b"\n")
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
        """End a line that broke off, so that what comes from another file is not its rest."""
        if self._breaks_off:
            self.add(b"\n")

    def columns(self, *, whole: bool) -> Columns:
        """Return the columns so far; ``whole`` says that a last line without its end counts.

        Raises:
            LogError: if nothing can be read yet.
        """
        if self._growing is None:
            return replace(self._asked, grows=not whole).read(self._stream())
        growing, nothing = self._growing.copy(), Stream(self.name, io.BytesIO())
        end = len(self._rest) if whole else last_line_end(self._rest)
        if end:
            growing.add(self._rest[:end])
        if self._rest[end:].strip():
            nothing.notes.append(NOT_ENDED)
        return growing.columns(nothing)

    def _stream(self) -> Stream:
        self._text.seek(0)
        return Stream(self.name, self._text)

    def _settle(self) -> None:
        """Read the log block by block from now on, if its format allows that."""
        self._settle_at *= 2
        stream = self._stream()
        if bare(stream) is not stream:
            return
        try:
            name = self._asked.format
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

    def _feed(self, growing: Growing, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= _BLOCK:
            end = data.rfind(b"\n", at, at + _BLOCK) + 1 or data.find(b"\n", at) + 1
            if not end:
                break
            growing.add(data[at:end])
            at = end
        self._rest = data[at:]
