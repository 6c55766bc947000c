"""Logs of several processes as one: the norms of a sharded model are sums over its shards."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Each process writes these of its own shards.
_SHARD_NORMS = ("grad_norm", "weight_norm")
_FRACTIONS = ("moved_fraction", "update_ratio", "recorder/unchanged")


def merge_ranks(paths: Sequence[str | os.PathLike[str]]) -> list[dict[str, Any]]:
    """Return the rows of the first log with the norms of all of them, and mean fractions.

    No process of a job waits for another one to write, so each has the norms of its own shards.
    """
    logs = [_rows(Path(path)) for path in paths]
    return [
        {**row, **_merged([log[step] for log in logs if step in log])}
        for step, row in logs[0].items()
    ]


def _rows(path: Path) -> dict[int, dict[str, Any]]:
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {int(line["step"]): line for line in lines if "loss" in line}


def _merged(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    merged: dict[str, float] = {}
    for name in rows[0]:
        values = [row[name] for row in rows if name in row]
        if name.startswith(_SHARD_NORMS):
            merged[name] = math.sqrt(sum(value**2 for value in values))
        elif name.startswith(_FRACTIONS) or name == "loss":
            merged[name] = sum(values) / len(values)
    return merged
