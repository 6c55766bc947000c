"""Decode UTF-16, and unpack gzip, bzip2, xz and Zstandard, up to the cut of a truncated file.

Files that unpack to far more than any log are refused, so that they do not fill the memory.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from stabdiag.errors import LogError
from stabdiag.model.text import plural
from stabdiag.readers.source import Stream

# Usual logs shrink to a tenth. A log whose lines only differ in their counters (a million lines of
# Megatron-LM, at the highest level) shrinks 49, 94, 271 and 142 times; a far higher ratio means
# repeated content, which would take minutes to read. ZIP archives compress like gzip.
RATIOS: Final = {"gzip": 100, "packed": 100, "bzip2": 200, "xz": 600, "Zstandard": 300}

# A job that printed one line for hours is read up to this size in any case.
_FROM: Final = 1 << 26

# A constant column takes no space in Parquet, and is read immediately.
_FROM_PARQUET: Final = 1 << 28
_RATIO_PARQUET: Final = 500


class Bomb(LogError):
    """A compressed file unpacks to more than any log does."""


class Gauge:
    """Compares unpacked and packed sizes, and raises an error if the file cannot be a log."""

    def __init__(self, name: str, packing: str) -> None:
        """Measure the unpacking of the file of this name."""
        self._name = name
        self._ratio = RATIOS[packing]
        self._packed = 0
        self._unpacked = 0

    def count_packed(self, data: bytes) -> bytes:
        """Count packed bytes, and return them."""
        self._packed += len(data)
        return data

    def count_unpacked(self, data: bytes) -> bytes:
        """Count unpacked bytes, and return them."""
        self._unpacked += len(data)
        if self._unpacked > max(_FROM, self._ratio * self._packed):
            raise Bomb(f"{self._name}: {_description(self._ratio)}; if it is one, unpack it first")
        return data


def refuse_bomb(name: str, packed: int, unpacked: int) -> None:
    """Raise an error if the metadata of a Parquet file shows that it unpacks to too much."""
    if unpacked > max(_FROM_PARQUET, _RATIO_PARQUET * packed):
        description = _description(_RATIO_PARQUET)
        raise Bomb(f"{name}: {description}; if it is one, write it again without compression")


def _description(ratio: int) -> str:
    return f"unpacks to more than {ratio} times its size, as no log does"


_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


# Text in UTF-16 without a mark, as Windows appends it: this share of the high bytes are NUL.
_MIN_NUL_SHARE: Final = 0.9
_MIN_NUL_BYTES: Final = 16


def decoded(stream: Stream) -> Stream:
    """Return the stream in UTF-8 if it is text in UTF-16, else itself."""
    encoding = _BYTE_ORDER_MARKS.get(stream.peek(2))
    if encoding is not None:
        stream.read(2)
    else:
        encoding = _unmarked_encoding(stream.peek(_TEXT_HEAD))
    if encoding is None:
        return _without_nul_bytes(stream) if stream.peek(1) == b"\0" else stream
    texts = codecs.iterdecode(stream.pieces(), encoding, "replace")
    return stream.rewritten(text.encode("utf-8", "replace") for text in texts)


def _unmarked_encoding(head: bytes) -> str | None:
    """Return the encoding of text in UTF-16 without a byte order mark, else None."""
    halves = head[::2], head[1::2]
    for encoding, low, high in (("utf-16-le", *halves), ("utf-16-be", *halves[::-1])):
        if b"\0" not in low and high.count(b"\0") >= max(
            _MIN_NUL_BYTES, _MIN_NUL_SHARE * len(high)
        ):
            return encoding
    return None


# Limits: the NUL bytes at the head of a file, and the bytes of text after them that are checked.
_MAX_NUL_BYTES: Final = 1 << 26
_TEXT_HEAD: Final = 1 << 12


def _without_nul_bytes(stream: Stream) -> Stream:
    """Return the stream of a text after NUL bytes at its head, else the stream itself.

    A log that is truncated while its program keeps writing begins with NUL bytes of the removed
    length.
    """
    size = _TEXT_HEAD
    while size < _MAX_NUL_BYTES and not stream.peek(size).strip(b"\0"):
        if len(stream.peek(size)) < size:
            return stream
        size *= 4
    head = stream.peek(2 * size)
    holes = len(head) - len(head.lstrip(b"\0"))
    if holes == len(head) or b"\0" in head[holes : holes + _TEXT_HEAD]:
        return stream
    stream.read(holes)
    stream.notes.append(
        f"{plural(holes, 'NUL byte')} at the head left out: the log was truncated while it was"
        " being written"
    )
    return stream.rewritten(stream.pieces())


COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")

# Bytes read at a time, and bytes unpacked at a time: bzip2 can make a gigabyte from 64 kB.
_PACKED_READ_SIZE: Final = 1 << 16
_UNPACK_SIZE: Final = 1 << 20

# xz -9 needs 65 MB; a header can ask for 4 GB.
_XZ_MEMORY: Final = 1 << 28


_BEFORE_THE_CUT: Final = "everything before the cut was read"


def unpacked(stream: Stream) -> Stream:
    """Return the stream of unpacked bytes, or the stream itself if it is not packed."""
    head = stream.peek(6)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return stream.rewritten(_zstandard(stream))
    for magic, packing, make in _PACKINGS:
        if head.startswith(magic):
            return stream.rewritten(_members(stream, packing, make))
    return stream


def inflated(stream: Stream) -> Stream:
    """Return the stream of the bytes that a member of a ZIP archive unpacks to."""
    return stream.rewritten(_members(stream, "packed", partial(_zlib, -15)))


def _zlib(wbits: int) -> Any:
    import zlib

    return zlib.decompressobj(wbits)


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


_PACKINGS: Final[tuple[tuple[bytes, str, Callable[[], Any]], ...]] = (
    (b"\x1f\x8b", "gzip", partial(_zlib, 31)),
    (b"BZh", "bzip2", _bzip2),
    (b"\xfd7zXZ\x00", "xz", _xz),
)


def _members(stream: Stream, packing: str, make: Callable[[], Any]) -> Iterator[bytes]:
    """Unpack the packed streams of one file, one after the other.

    The file objects of the standard library drop their buffer if a file breaks off; using the
    decompressors directly keeps every byte before the cut.
    """
    gauge = Gauge(stream.name, packing)
    member, unpacked, waiting = make(), b"", b""
    while member is not None:
        if len(unpacked) == _UNPACK_SIZE:
            # The last input has more output; zlib returns the unused part.
            packed = getattr(member, "unconsumed_tail", b"")
        else:
            packed, waiting = waiting or gauge.count_packed(stream.read(_PACKED_READ_SIZE)), b""
            if not packed:
                stream.break_off(f"the {packing} stream breaks off", read_part=_BEFORE_THE_CUT)
                return
        try:
            unpacked = member.decompress(packed, _UNPACK_SIZE)
        except Exception as error:  # noqa: BLE001 - zlib, bz2 and lzma share no base of errors
            stream.break_off(
                f"the {packing} stream is damaged ({error})",
                read_part="everything before the damage was read",
            )
            return
        yield gauge.count_unpacked(unpacked)
        if member.eof:
            waiting = member.unused_data.lstrip(b"\0")
            waiting = waiting or gauge.count_packed(stream.read(_PACKED_READ_SIZE))
            member, unpacked = (make() if waiting else None), b""


def _zstandard(stream: Stream) -> Iterator[bytes]:
    """Unpack Zstandard by way of Arrow, since the standard library of Python 3.11 has none."""
    import pyarrow as pa

    gauge = Gauge(stream.name, "Zstandard")
    try:
        file = pa.PythonFile(_File(stream, gauge), mode="r")
        packed: Any = pa.CompressedInputStream(file, "zstd")
    except (NotImplementedError, pa.ArrowException) as error:
        raise LogError(
            f"{stream.name}: pyarrow cannot unpack Zstandard here; unpack it first: zstd -d"
        ) from error
    count = 1
    while count:
        # Arrow writes into this buffer even when it then fails at a cut: nonzero bytes
        # are from before the cut, and a log does not end in zeros.
        buffer = bytearray(_PACKED_READ_SIZE)
        try:
            count = packed.readinto(buffer)
        except (OSError, ValueError):
            stream.break_off("the Zstandard stream breaks off", read_part=_BEFORE_THE_CUT)
            yield bytes(buffer.rstrip(b"\0"))
            return
        yield gauge.count_unpacked(bytes(buffer[:count]))


class _File(io.RawIOBase):
    """As much of a file object as Arrow asks for."""

    def __init__(self, stream: Stream, gauge: Gauge) -> None:
        self._stream = stream
        self._gauge = gauge

    def read(self, size: int = -1, /) -> bytes:
        return self._gauge.count_packed(self._stream.read(size))

    def readable(self) -> bool:
        return True
