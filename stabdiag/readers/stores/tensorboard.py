"""TensorBoard event files: scalars, and settings among the texts, in the frames of a TFRecord file.

A frame is the length of its content (8 bytes), a checksum of that length (4), the content, and a
checksum of the content (4). TensorBoard's own reader stops at the first damaged frame; this one
leaves it out and looks for the next.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from itertools import compress
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Bytes, Ints, Mask
from stabdiag.model.frozen import mutable
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import plural
from stabdiag.readers.columns import Columns
from stabdiag.readers.nested import parse_record
from stabdiag.readers.points import Points
from stabdiag.readers.source import Stream

_FRAME_BYTES: Final = 1 << 22
_FRAME_HEADER: Final = struct.Struct("<QI")
_FRAME_CHECKSUM_SIZE: Final = 4

# A scalar takes some fifty bytes. A picture or a graph is not checked: nothing is read from it.
_LARGEST_CHECKED: Final = 1 << 12

# No event with anything to read is larger: a frame beyond this size is skipped.
_MAX_RECORD_SIZE: Final = 1 << 26

# After damage the next head is usually near: the search uses growing ranges that start with this.
_STRETCH: Final = 1 << 9

# The polynomial of CRC-32C (Castagnoli), its lowest power first.
_POLYNOMIAL: Final = np.uint32(0x82F63B78)


def _table() -> AnyArray:
    """Return the checksums of single bytes; importing the table of TensorBoard is slow."""
    sums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums[:] = (sums >> 1) ^ (sums & 1) * _POLYNOMIAL
    return sums


_CRC_TABLE: Final = _table()


class Frames:
    """The contents of a stream's frames, and the problems found in them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._heads: set[bytes] = set()
        self._damaged = 0
        self._lost = 0
        self._cut = False

    def __iter__(self) -> Iterator[bytes]:
        """Return the sound contents, in their order."""
        data = b""
        while block := self._stream.read(_FRAME_BYTES):
            data += block
            spans, end = self._chain(data)
            sound = self._are_sound(data, spans).tolist()
            yield from (data[begin:stop] for begin, stop in compress(spans, sound))
            data = data[end:]
        self._cut = self._cut or bool(data)

    def notes(self) -> tuple[str, ...]:
        """Return the problems of the file, once all frames are read."""
        name = self._stream.name
        problems = []
        if self._damaged:
            records = plural(self._damaged, f"record of {name} is", f"records of {name} are")
            problems.append(f"{records} damaged (wrong checksum) and left out")
        if self._lost:
            problems.append(f"{self._lost} bytes of {name} are damaged: no record is found in them")
        if self._cut:
            problems.append(f"{name} breaks off inside a record; all before that is read")
        return tuple(problems)

    def _chain(self, data: bytes) -> tuple[list[tuple[int, int]], int]:
        """Return the spans of complete contents and the start of the next frame."""
        spans: list[tuple[int, int]] = []
        at = 0
        while at + _FRAME_HEADER.size <= len(data):
            head = data[at : at + _FRAME_HEADER.size]
            if head not in self._heads and not self._is_head(head):
                next_head = _next_head(data, at + 1)
                self._lost += next_head - at
                at = next_head
                continue
            begin = at + _FRAME_HEADER.size
            stop = begin + _FRAME_HEADER.unpack(head)[0]
            if stop + _FRAME_CHECKSUM_SIZE > len(data):
                if stop - begin > _MAX_RECORD_SIZE:
                    self._cut = not self._skip_bytes(stop + _FRAME_CHECKSUM_SIZE - len(data))
                    at = len(data)
                break
            spans.append((begin, stop))
            at = stop + _FRAME_CHECKSUM_SIZE
        return spans, at

    def _is_head(self, head: bytes) -> bool:
        """Check a head against its checksum, and remember it: there are few different lengths."""
        start, length = np.array([0]), np.array([8])
        if (
            _FRAME_HEADER.unpack(head)[1]
            != _checksums(np.frombuffer(head, np.uint8), start, length)[0]
        ):
            return False
        self._heads.add(head)
        return True

    def _skip_bytes(self, count: int) -> bool:
        while count > 0 and (skipped := self._stream.read(min(count, _FRAME_BYTES))):
            count -= len(skipped)
        return count == 0

    def _are_sound(self, data: bytes, spans: list[tuple[int, int]]) -> Mask:
        block = np.frombuffer(data, dtype=np.uint8)
        begins, stops = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        sizes = stops - begins
        good = sizes > _LARGEST_CHECKED
        small = np.flatnonzero(~good)
        good[small] = _checksums(block, begins[small], sizes[small]) == _words(block, stops[small])
        self._damaged += int(np.count_nonzero(~good))
        return good


def _next_head(data: bytes, start: int) -> int:
    """Return the position of the next head, or of a possible head that the data cuts off."""
    block = np.frombuffer(data, dtype=np.uint8)
    last = len(data) - _FRAME_HEADER.size + 1
    stretch = _STRETCH
    while start < last:
        places = np.arange(start, min(start + stretch, last))
        sums = _checksums(block, places, np.full(len(places), 8))
        matches = np.flatnonzero(sums == _words(block, places + 8))
        if len(matches):
            return int(places[matches[0]])
        start += len(places)
        stretch *= 4
    return start


def _checksums(block: Bytes, starts: Ints, lengths: Ints) -> AnyArray:
    """Return the masked CRC-32C of many stretches of a block, in parallel byte by byte."""
    order = np.argsort(-lengths, kind="stable")
    begins, sizes = starts[order], lengths[order]
    sums = np.full(len(starts), 0xFFFFFFFF, dtype=np.uint32)
    longer = np.searchsorted(-sizes, -np.arange(int(sizes.max(initial=0))), side="left")
    for place, count in enumerate(longer.tolist()):
        part = sums[:count]
        part[:] = _CRC_TABLE[(part ^ block[begins[:count] + place]) & 0xFF] ^ (part >> 8)
    sums ^= np.uint32(0xFFFFFFFF)
    masked = np.empty_like(sums)
    masked[order] = ((sums >> 15) | (sums << 17)) + np.uint32(0xA282EAD8)
    return masked


def _words(block: Bytes, starts: Ints) -> AnyArray:
    words: AnyArray = block[starts[:, np.newaxis] + np.arange(4)].view("<u4")[:, 0]
    return words


# A longer text is prose or a sample from the model, no setting.
_LONGEST_VALUE: Final = 200

_SUFFIX: Final = "/text_summary"
_CODE_BLOCK: Final = lazy_pattern(r"\A\s*```\w*\n(.*)\n\s*```\s*\Z", re.DOTALL)


def _settings(value: Any) -> Mapping[str, object]:
    """Return the settings in a summary value of the plugin ``text`` or ``hparams``."""
    content = value.metadata.plugin_data.content
    if value.metadata.plugin_data.plugin_name == "hparams":
        return _hyper_parameters(content)
    if len(value.tensor.string_val) != 1:
        return {}
    text = value.tensor.string_val[0].decode("utf-8", "replace")
    return _of_text(value.tag.removesuffix(_SUFFIX), text)


def _hyper_parameters(content: bytes) -> Mapping[str, object]:
    from google.protobuf.message import DecodeError
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    try:
        started = HParamsPluginData.FromString(content).session_start_info
    except DecodeError:
        return {}
    return {
        name: getattr(value, kind)
        for name, value in started.hparams.items()
        if (kind := value.WhichOneof("kind")) in ("number_value", "string_value", "bool_value")
    }


def _of_text(name: str, text: str) -> Mapping[str, object]:
    """Read a JSON object of settings, or a text that is the value of one setting."""
    code = _CODE_BLOCK.match(text)
    text = (code.group(1) if code else text).strip()
    if text.startswith("{"):
        return parse_record(text)
    return {name: text} if len(text) <= _LONGEST_VALUE and "\n" not in text else {}


# The first event of every file contains the version of the format.
_VERSION_PREFIX: Final = b"brain.Event:"

_DT_FLOAT: Final = 1
_SINGLE: Final = struct.Struct("<f")

# The plugins whose tensors are scalars; some writers name none.
_SCALARS: Final = frozenset({"", "scalars"})
_CONFIGURATION_PLUGINS: Final = frozenset({"text", "hparams"})


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a file starts like an event file."""
    return _VERSION_PREFIX in head[:64]


def read(stream: Stream) -> Columns:
    """Read an event file."""
    return read_run([(PurePosixPath(), stream)], stream.name)


def read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the event files of one run, each with its path in the run's folder, in any order.

    They are sorted by the times of their first events. Tags from a folder below, such as ``train``
    and ``validation`` by Keras, get the name of that folder as a prefix. The tag ``loss`` in the
    folder ``loss_train``, which ``add_scalars`` of PyTorch writes, becomes ``loss/train``.
    """
    parts = [(path.parent, _read(stream)) for path, stream in files]
    parts.sort(key=lambda part: part[1].start_time)
    points = Points()
    config: dict[str, object] = {}
    for folder, part in parts:
        points.extend(part.points, partial(_tag_of_run, folder))
        config |= part.config
    notes = tuple(note for _, part in parts for note in part.notes)
    return points.columns(source=name, format="tensorboard", notes=notes, config=config)


def _tag_of_run(folder: PurePosixPath, tag: str) -> str:
    """Return the name in the run of a tag in one of its folders."""
    if folder == PurePosixPath():
        return tag
    curve = folder.name.removeprefix(f"{tag.replace('/', '_')}_")
    return f"{folder}/{tag}" if curve == folder.name else f"{tag}/{curve}"


@mutable
class _EventFile:
    """The contents of one event file; ``start_time`` is the time of its first event."""

    points: Points = field(default_factory=Points)
    config: dict[str, object] = field(default_factory=dict)
    start_time: float = math.inf
    notes: tuple[str, ...] = ()
    plugins: dict[str, str] = field(default_factory=dict)

    def take(self, event: Any) -> None:
        """Add the values of an event."""
        for value in event.summary.value:
            number = None
            if value.HasField("simple_value"):
                number = value.simple_value
            elif value.HasField("tensor") or value.HasField("metadata"):
                # Only the first value of a tag has to say which plugin it belongs to.
                named = value.metadata.plugin_data.plugin_name
                plugin = self.plugins.setdefault(value.tag, named)
                if plugin in _CONFIGURATION_PLUGINS:
                    self.config |= _settings(value)
                elif plugin in _SCALARS:
                    number = _number(value.tensor)
            if number is not None:
                self.points.add(value.tag, event.step, number, clock=event.wall_time)


def _read(stream: Stream) -> _EventFile:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    part = _EventFile()
    frames = Frames(stream)
    foreign = 0
    for content in frames:
        try:
            event = Event.FromString(content)
        except DecodeError:
            foreign += 1
            continue
        part.start_time = min(part.start_time, event.wall_time)
        part.take(event)
    note = f"{foreign} of the records of {stream.name} cannot be parsed: left out"
    part.notes = (*stream.notes, *frames.notes(), *([note] if foreign else []))
    return part


def _number(tensor: Any) -> float | None:
    """Return the number in a tensor of one element, or None for anything else."""
    if tensor.dtype == _DT_FLOAT:  # nearly all; the library takes long to import
        if len(tensor.float_val) == 1:
            return float(tensor.float_val[0])
        if len(tensor.tensor_content) == _SINGLE.size:
            return float(_SINGLE.unpack(tensor.tensor_content)[0])
    if any(dimension.size != 1 for dimension in tensor.tensor_shape.dim):
        return None
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(tensor).item())
    except (TypeError, ValueError):
        return None
