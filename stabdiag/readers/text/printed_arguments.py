"""The arguments of a program, as it prints them above its records: ``fp16 = True``."""

from __future__ import annotations

import json
import re
from typing import Final

# 'fp16': True, bf16=False, mixed_precision: bf16: how programs print their arguments.
_PRECISION: Final = (
    rb"(?<![\w.-])(fp16|bf16|mixed_precision)[\"']?(?: = |=|: ?)[\"']?"
    rb"(True|False|true|false|no|fp16|bf16)(?![\w.])"
)


def find_arguments(data: bytes, pattern: bytes | None) -> dict[str, object]:
    """Return the values of the arguments in a text, by name.

    ``pattern`` is the form of the arguments of a framework. The precision is found in any form.
    """
    arguments = {} if pattern is None else _find(data, pattern)
    return {**_find(data, _PRECISION), **arguments}


def _find(data: bytes, pattern: bytes) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for name, value in re.findall(pattern, data):
        key = name.decode("utf-8", "replace").strip()
        arguments.setdefault(key, _value(value.decode("utf-8", "replace")))
    return arguments


def _value(text: str) -> object:
    text = text.strip().rstrip(",").strip("'\"")
    if text in ("True", "False", "None"):
        return {"True": True, "False": False}.get(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float | bool) else text
