"""Logs to put into places."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def lines() -> Callable[..., str]:
    """Return a function that makes JSON lines of a loss that falls from step to step."""

    def text(first: int, last: int, **more: object) -> str:
        records = ({"step": n, "loss": 4 - n / 1000, **more} for n in range(first, last))
        return "".join(f"{json.dumps(record)}\n" for record in records)

    return text


@pytest.fixture
def cells() -> Callable[[int, int], str]:
    """Return a function that makes CSV of the same loss."""

    def text(first: int, last: int) -> str:
        rows = (f"{n},{4 - n / 1000}\n" for n in range(first, last))
        return f"step,loss\n{''.join(rows)}"

    return text


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file, folders and all, some seconds ago."""

    def write(name: str, content: str | bytes, ago: float = 0) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        when = 1_760_000_000 - ago
        os.utime(path, (when, when))
        return path

    return write
