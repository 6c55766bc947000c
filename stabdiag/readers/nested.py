"""Flatten records of nested objects: ``{"train": {"loss": 1}}`` has the column ``train/loss``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

# No logger nests deeper: deeper levels are left out.
MAX_RECORD_DEPTH: Final = 50

Record = dict[str, object]

# The keys of the name of a measurement.
_NESTED_NAME_KEYS: Final = ("name", "metric", "key", "tag")

# A list of two is a name and its value.
_NAME_AND_VALUE: Final = 2

# The keys of a level in order of first appearance; None marks a value at that level.
Tree = dict[str | None, "Tree"]


def parse_record(text: str | bytes) -> Record:
    """Return the JSON object in a text, or an empty object.

    In a damaged database, the text may be a number.
    """
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def flattened(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Return flat records and their columns, the members of one object next to each other.

    If a record has a name twice, as in ``{"a/b": 1, "a": {"b": 2}}``, the last value counts.
    """
    tree: Tree = {}
    flat = [dict(_members(record, "", tree)) for record in records]
    return flat, list(dict.fromkeys(_names(tree, "")))


def _members(
    record: Record, prefix: str, tree: Tree, depth: int = 0
) -> Iterator[tuple[str, object]]:
    if depth == MAX_RECORD_DEPTH:
        return
    for key, value in record.items():
        below = tree.setdefault(key, {})
        measurements = named_values(value) if isinstance(value, list) else {}
        if isinstance(value, dict):
            yield from _members(value, f"{prefix}{key}/", below, depth + 1)
        elif measurements:
            yield from _members(measurements, f"{prefix}{key}/", below, depth + 1)
        else:
            below[None] = {}
            yield prefix + key, value


def named_values(items: list[object]) -> Record:
    """Return the values of a list of measurements by name; empty for other lists.

    ``[{"name": "loss", "value": 2.31}, {"name": "lr", "value": 0.0003}]``, or ``[["loss", 2.31]]``.
    """
    values: Record = {}
    for item in items:
        if isinstance(item, list) and len(item) == _NAME_AND_VALUE and isinstance(item[0], str):
            values[item[0]] = item[1]
            continue
        if not isinstance(item, dict) or "value" not in item:
            return {}
        name = next(
            (item[key] for key in _NESTED_NAME_KEYS if isinstance(item.get(key), str)), None
        )
        if name is None:
            return {}
        values[name] = item["value"]
    return values


def _names(tree: Tree, prefix: str) -> Iterator[str]:
    for key, below in tree.items():
        if key is None:
            yield prefix[:-1]
        else:
            yield from _names(below, f"{prefix}{key}/")
