"""Texts in UTF-16, as Excel and PowerShell write them, made UTF-8."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.readers.source import Stream

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def decoded(stream: Stream) -> Stream:
    """Return a stream of UTF-8 where the bytes are marked as UTF-16, or the stream itself."""
    encoding = _MARKS.get(stream.peek(2))
    if encoding is None:
        return stream
    stream.read(2)
    return stream.unpacked(_Utf8(stream, encoding))


class _Utf8:
    """The bytes of a stream, written anew."""

    def __init__(self, stream: Stream, encoding: str) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode
        self._ready = b""
        self._ended = False

    def read(self, size: int, /) -> bytes:
        while not self._ready and not self._ended:
            data = self._stream.read(max(size, 2))
            self._ended = not data
            self._ready = self._decode(data, final=self._ended).encode("utf-8", "replace")
        found, self._ready = self._ready[:size], self._ready[size:]
        return found
