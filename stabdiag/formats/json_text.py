"""Strict JSON: the one place where values and log text are made fit for it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeAlias

from stabdiag.formats.visible import ORDERS

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def dumps(value: Json, *, indent: int | None = 2) -> str:
    """Return a value as strict JSON, in ASCII, without a newline at its end.

    A CI server may take ``##[error]`` anywhere for an order; JSON can write it differently.
    """
    return ORDERS.sub(_sign, json.dumps(value, indent=indent, allow_nan=False))


def _sign(order: re.Match[str]) -> str:
    return f"\\u{ord(order.group()):04x}"


def escape(text: str) -> str:
    """Make a string safe to write as JSON.

    ``json.dumps`` escapes controls and all that is not ASCII; what is left is the lone surrogate,
    which it would write and which strict parsers refuse.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def scalar(value: object) -> Json:
    """Return a number or a text as JSON can hold it, what is not finite as a string."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return escape(value)
    # A numpy scalar that slipped into an answer: float64 is a float, the others are not.
    if not isinstance(value, float) and hasattr(value, "item"):
        return scalar(value.item())
    if not isinstance(value, float):
        return escape(str(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """Return named values as JSON can hold them, those that are not finite as strings."""
    return {escape(name): scalar(value) for name, value in values.items()}
