"""Text in UTF-16, as Excel and PowerShell write it, turned into UTF-8."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.readers.source import Stream

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_PIECE = 1 << 20


def decoded(stream: Stream) -> Stream:
    """Return the stream in UTF-8 if it begins with a byte order mark of UTF-16, else itself."""
    encoding = _MARKS.get(stream.peek(2))
    if encoding is None:
        return stream
    stream.read(2)
    return stream.rewritten(_as_utf8(stream, encoding))


def _as_utf8(stream: Stream, encoding: str) -> Iterator[bytes]:
    decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode
    while data := stream.read(_PIECE):
        yield decode(data).encode("utf-8", "replace")
    yield decode(b"", final=True).encode("utf-8", "replace")
