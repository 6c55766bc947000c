"""Text in Arrow, which has six types for it."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types

# The type stubs of pyarrow do not know that a struct flattens or that NumPy takes a buffer.
Array: TypeAlias = Any


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of text, or of bytes that may be text."""
    return any(
        test(kind)
        for test in (
            types.is_string,
            types.is_binary,
            types.is_large_string,
            types.is_large_binary,
            types.is_string_view,
            types.is_binary_view,
        )
    )


def as_text(array: Array) -> Array:
    """View texts or bytes as texts without a check: not all bytes in a log are UTF-8."""
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary()).view(pa.large_string())
    wide = types.is_large_string(kind) or types.is_large_binary(kind)
    return array.view(pa.large_string() if wide else pa.string())


def texts_of(array: Array) -> list[str | None]:
    """Return texts as ``str``, with a replacement character for bytes that are not UTF-8."""
    text = as_text(array)
    try:
        found: list[str | None] = text.to_pylist()
    except UnicodeDecodeError:
        plain = pa.large_binary() if types.is_large_string(text.type) else pa.binary()
        raw: list[bytes | None] = text.view(plain).to_pylist()
        found = [None if one is None else one.decode("utf-8", "replace") for one in raw]
    return found
