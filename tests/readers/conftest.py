"""Fixtures for the reader tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stabdiag.readers import read_stream
from stabdiag.readers.source import open_stream


def read_columns(source, *, format=None):
    """Return the columns of a log, or of standard input for ``-``."""
    with open_stream(source) as stream:
        return read_stream(stream, format=format)


@pytest.fixture
def shell():
    """Return a function that runs a shell command in a folder, with this Python as ``python``."""

    def run(command, folder):
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
    """Return a function that writes a text, or JSON, to a file, and returns its path."""

    def write(content, name="run.log"):
        path = tmp_path / name
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def log(put, request):
    """Return a function that writes a log, named as the file of tests says, and reads it."""

    def written(content, name=request.module.NAME, **options):
        return read_columns(put(content, name), **options)

    return written
