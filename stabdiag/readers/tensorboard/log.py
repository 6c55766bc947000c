"""TensorBoard event files: scalars, and settings among the texts."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from stabdiag.readers.nested import record_in
from stabdiag.readers.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream

# A longer text is prose or a sample from the model, no setting.
_LONGEST_VALUE: Final = 200

_SUFFIX: Final = "/text_summary"
_CODE: Final = re.compile(r"\A\s*```\w*\n(.*)\n\s*```\s*\Z", re.DOTALL)


def told(value: Any) -> Mapping[str, object]:
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
        name: getattr(one, kind)
        for name, one in started.hparams.items()
        if (kind := one.WhichOneof("kind")) in ("number_value", "string_value", "bool_value")
    }


def _of_text(name: str, text: str) -> Mapping[str, object]:
    """Read a JSON object of settings, or a text that is the value of one setting."""
    code = _CODE.match(text)
    text = (code.group(1) if code else text).strip()
    if text.startswith("{"):
        return record_in(text)
    return {name: text} if len(text) <= _LONGEST_VALUE and "\n" not in text else {}


# The first event of every file tells the version of the format.
_VERSION: Final = b"brain.Event:"

_FLOAT32: Final = 1
_SINGLE: Final = struct.Struct("<f")

# The plugins whose tensors are scalars; some writers name none.
_SCALARS: Final = frozenset({"", "scalars"})
_CONFIGURATION: Final = frozenset({"text", "hparams"})


def recognises(head: bytes, *, whole: bool) -> bool:
    """Return whether the head of a file is that of an event file."""
    return _VERSION in head[:64]


def read(stream: Stream) -> Columns:
    """Read an event file."""
    return read_files([(PurePosixPath(), stream)], stream.name)


def read_files(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns:
    """Read the event files of one run, each with its path in the run's folder, in any order.

    They are sorted by the times of their first events. Tags from a folder below, such as ``train``
    and ``validation`` by Keras, get the name of that folder as a prefix.
    """
    parts = [(_prefix(path), _read(stream)) for path, stream in files]
    parts.sort(key=lambda part: part[1].begun)
    points = Points()
    config: dict[str, object] = {}
    for prefix, part in parts:
        points.extend(part.points, prefix)
        config |= part.config
    notes = tuple(note for _, part in parts for note in part.notes)
    return points.columns(source=name, format="tensorboard", notes=notes, config=config)


def _prefix(path: PurePosixPath) -> str:
    folder = path.parent.as_posix()
    return "" if folder == "." else f"{folder}/"


@dataclass(kw_only=True)
class _Part:
    """What one event file holds; ``begun`` is when its first event was written."""

    points: Points = field(default_factory=Points)
    config: dict[str, object] = field(default_factory=dict)
    begun: float = math.inf
    notes: tuple[str, ...] = ()
    plugins: dict[str, str] = field(default_factory=dict)

    def take(self, event: Any) -> None:
        """Take what an event tells."""
        for value in event.summary.value:
            if value.HasField("simple_value"):
                self._take_number(event, value, value.simple_value)
            elif value.HasField("tensor") or value.HasField("metadata"):
                self._take_tensor(event, value)

    def _take_number(self, event: Any, value: Any, number: float) -> None:
        self.points.add(value.tag, event.step, number, clock=event.wall_time)

    def _take_tensor(self, event: Any, value: Any) -> None:
        # Only the first value of a tag has to say which plugin it belongs to.
        named = value.metadata.plugin_data.plugin_name
        plugin = self.plugins.setdefault(value.tag, named)
        if plugin in _SCALARS:
            number = _number(value.tensor)
            if number is not None:
                self._take_number(event, value, number)
        elif plugin in _CONFIGURATION:
            self.config |= told(value)


def _read(stream: Stream) -> _Part:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    from stabdiag.readers.tensorboard.tfrecord import Frames

    part = _Part()
    frames = Frames(stream)
    foreign = 0
    for content in frames:
        try:
            event = Event.FromString(content)
        except DecodeError:
            foreign += 1
            continue
        part.begun = min(part.begun, event.wall_time)
        part.take(event)
    more = f"{foreign} of the records of {stream.name} cannot be parsed: left out"
    part.notes = (*stream.notes, *frames.notes(), *([more] if foreign else []))
    return part


def _number(tensor: Any) -> float | None:
    """Return the number in a tensor of one element, or None for anything else."""
    if tensor.dtype == _FLOAT32:  # nearly all; the library takes long to import
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
