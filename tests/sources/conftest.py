"""Logs to put into places."""

import json
import os

import pytest


@pytest.fixture
def lines():
    """Return a function that makes JSON lines of a loss that falls from step to step."""

    def text(first, last, **fields):
        records = ({"step": n, "loss": 4 - n / 1000, **fields} for n in range(first, last))
        return "".join(f"{json.dumps(record)}\n" for record in records)

    return text


@pytest.fixture
def cells():
    """Return a function that makes CSV of the same loss."""

    def text(first, last):
        rows = (f"{n},{4 - n / 1000}\n" for n in range(first, last))
        return f"step,loss\n{''.join(rows)}"

    return text


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a file, folders and all, some seconds ago."""

    def write(name, content, ago=0):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        when = 1_760_000_000 - ago
        os.utime(path, (when, when))
        return path

    return write
