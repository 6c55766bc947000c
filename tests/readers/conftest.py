"""What the tests of the readers share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def shell():
    """Return a function that runs a shell command in a folder, with this Python as ``python``."""

    def run(command: str, folder: Path) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    return run


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a text to a file, and returns its path."""

    def write(text: str, name: str = "run.log") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
