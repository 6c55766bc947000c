"""The arguments of a program, as it prints them above its records: ``fp16 = True``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from stabdiag.readers.text.lines.grammar import Grammar

# 'fp16': True, bf16=False, mixed_precision: bf16: how programs print their arguments.
_PRECISION: Final = (
    rb"(?<![\w.-])(fp16|bf16|mixed_precision)[\"']?(?: = |=|: ?)[\"']?"
    rb"(True|False|true|false|no|fp16|bf16)(?![\w.])"
)
_PRECISION_NAMES: Final = (b"fp16", b"bf16", b"mixed_precision")


def find_arguments(data: bytes, grammar: Grammar) -> dict[str, object]:
    """Return the values of the arguments in a text, by name.

    They have the form of the grammar. The precision is found in any form.
    """
    precision = _find(data, _PRECISION, _PRECISION_NAMES)
    if grammar.config is None:
        return precision
    return {**precision, **_find(data, grammar.config, grammar.config_texts)}


def _find(data: bytes, pattern: bytes, texts: Sequence[bytes]) -> dict[str, object]:
    """Return the arguments of a form, each of which has one of the texts, if there are any."""
    # The search for a fixed text is much faster than that for a pattern.
    if texts and not any(text in data for text in texts):
        return {}
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
