"""The parts of W&B's records that are read, declared for protobuf.

W&B's package declares them all, and has no reader; its import takes longer than most runs to read.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE: Final = "stabdiag_wandb"

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
    "RunRecord": (("config", 4, "ConfigRecord"),),
    "RunExitRecord": (("exit_code", 1, _INT32),),
}


@cache
def record_class() -> Any:
    """Return the class of a record."""
    file = FileDescriptorProto(name="stabdiag/wandb.proto", package=_PACKAGE, syntax="proto3")
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
                type_name=f".{_PACKAGE}.{of}" if isinstance(of, str) else None,
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Record"))
