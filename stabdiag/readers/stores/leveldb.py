"""The records of W&B files, which use the block format of LevelDB."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from stabdiag.model.text import plural
from stabdiag.readers.source import Stream

_BLOCK_SIZE: Final = 1 << 15
_FRAGMENT_HEADER: Final = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = range(1, 5)
_SUMS: Final = {kind: zlib.crc32(bytes([kind])) for kind in (_WHOLE, _FIRST, _MIDDLE, _LAST)}


class LevelDbRecords:
    """The records of a stream, and the problems found in them.

    ``header`` bytes at the start of the file are the caller's; they count in the first block.
    """

    def __init__(self, stream: Stream, *, header: int) -> None:
        self._stream = stream
        self._header = header
        self._parts: list[bytes] = []
        self._damaged = 0
        self._cut = False

    def __iter__(self) -> Iterator[bytes]:
        """Return the sound records, in their order."""
        at = self._header
        block = self._stream.read(_BLOCK_SIZE)
        while block:
            following = self._stream.read(_BLOCK_SIZE) if len(block) == _BLOCK_SIZE else b""
            yield from self._of_block(block, at, last=not following)
            block, at = following, 0
        self._cut = self._cut or bool(self._parts)

    def notes(self) -> tuple[str, ...]:
        """Return the problems of the file, once all records are read."""
        name = self._stream.name
        problems = []
        if self._damaged:
            places = plural(self._damaged, "place")
            problems.append(f"{name} is damaged in {places}: the records there are lost")
        if self._cut:
            problems.append(f"{name} breaks off inside a record; all before that is read")
        return tuple(problems)

    def _of_block(self, block: bytes, at: int, *, last: bool) -> Iterator[bytes]:
        # The end of a block that is too short for a head is padding.
        while at < len(block) and at + _FRAGMENT_HEADER.size <= _BLOCK_SIZE:
            fragment = _fragment(block, at)
            if fragment is None:
                self._parts = []
                if last and _is_cut(block, at):
                    self._cut = True
                    return
                self._damaged += 1
                at = _end(block, at)
                # The length may be what is damaged.
                if _fragment(block, at) is None:
                    return
                continue
            kind, content = fragment
            at += _FRAGMENT_HEADER.size + len(content)
            if kind == _WHOLE:
                self._parts = []
                yield content
            elif kind == _FIRST:
                self._parts = [content]
            elif self._parts:  # its first part may be lost
                self._parts.append(content)
                if kind == _LAST:
                    yield b"".join(self._parts)
                    self._parts = []


def _fragment(block: bytes, at: int) -> tuple[int, bytes] | None:
    """Return kind and content of a sound fragment, or None where there is none."""
    if at + _FRAGMENT_HEADER.size > len(block):
        return None
    checksum, _, kind = _FRAGMENT_HEADER.unpack_from(block, at)
    content = block[at + _FRAGMENT_HEADER.size : _end(block, at)]
    if kind not in _SUMS or zlib.crc32(content, _SUMS[kind]) != checksum:
        return None
    return kind, content


def _end(block: bytes, at: int) -> int:
    """Return the end of a fragment by its length, or the end of the block if its head is cut."""
    if at + _FRAGMENT_HEADER.size > len(block):
        return _BLOCK_SIZE
    return at + _FRAGMENT_HEADER.size + int(_FRAGMENT_HEADER.unpack_from(block, at)[1])


def _is_cut(block: bytes, at: int) -> bool:
    """Return True if a fragment is cut by the end of the file, or was never written."""
    return len(block) < _end(block, at) <= _BLOCK_SIZE or not any(block[at:])


_PROTO_PACKAGE: Final = "stabdiag_wandb"

_TEXT: Final = FieldDescriptorProto.TYPE_STRING
_INT64: Final = FieldDescriptorProto.TYPE_INT64
_INT32: Final = FieldDescriptorProto.TYPE_INT32

# Name, number and type of each field; a list means a repeated field, a name a message.
_ITEM: Final = (("key", 1, _TEXT), ("nested_key", 2, [_TEXT]), ("value_json", 16, _TEXT))
MESSAGES: Final = {
    "Record": (
        ("history", 2, "HistoryRecord"),
        ("config", 5, "ConfigRecord"),
        ("output_raw", 13, "OutputRawRecord"),
        ("run", 17, "RunRecord"),
        ("exit", 18, "RunExitRecord"),
    ),
    "HistoryRecord": (("item", 1, ["HistoryItem"]), ("step", 2, "HistoryStep")),
    "HistoryItem": _ITEM,
    "HistoryStep": (("num", 1, _INT64),),
    "ConfigRecord": (("update", 1, ["ConfigItem"]),),
    "ConfigItem": _ITEM,
    "OutputRawRecord": (("line", 3, _TEXT),),
    "RunRecord": (("config", 4, "ConfigRecord"), ("display_name", 8, _TEXT)),
    "RunExitRecord": (("exit_code", 1, _INT32),),
}


@cache
def record_class() -> Any:
    """Return the class of a record."""
    file = FileDescriptorProto(name="stabdiag/wandb.proto", package=_PROTO_PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            repeated = isinstance(kind, list)
            of = kind[0] if isinstance(kind, list) else kind
            message.field.add(
                name=field,
                number=number,
                label=FieldDescriptorProto.LABEL_REPEATED
                if repeated
                else FieldDescriptorProto.LABEL_OPTIONAL,
                type=FieldDescriptorProto.TYPE_MESSAGE if isinstance(of, str) else of,
                type_name=f".{_PROTO_PACKAGE}.{of}" if isinstance(of, str) else None,
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PROTO_PACKAGE}.Record"))
