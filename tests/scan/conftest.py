"""Folders of small logs, and scans as processes of their own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import program
from tests.scan import killer

# Quicker to start than processes; that any executor gives the same rows has its own test.
THREADS = "concurrent.futures:ThreadPoolExecutor"


def write_log(path, number=0, steps=30):
    """Write a log that is healthy, or of an odd number one that ends with NaN, and its manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    last = "NaN" if number % 2 else "1.0"
    losses = [*(str(3 - n / 100 + number / 1e6) for n in range(steps - 1)), last]
    lines = [f'{{"step": {n}, "loss": {loss}}}\n' for n, loss in enumerate(losses)]
    path.write_text("".join(lines))
    manifest = {"lr": 0.001 * (number % 5 + 1), "dropout": 0.1, "dtype": "bf16"}
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture
def sweep(tmp_path):
    """Return a folder with ten logs, half of them of runs that failed."""
    for number in range(10):
        write_log(tmp_path / "sweep" / f"run{number}.jsonl", number)
    return tmp_path / "sweep"


@pytest.fixture
def killing(tmp_path):
    """Return an environment where a process dies if it opens a file with the deadly name."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(Path(killer.__file__).read_text() + "deadly()\n")
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": paths}


@pytest.fixture
def started():
    """Return a function that starts a process; the end of the test kills it."""
    processes = []

    def start(*command, **options):
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **options,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with suppress(ProcessLookupError):  # its children, too
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def scanned(*arguments, **options):
    """Run a scan as a process of its own, and return its rows and what it said."""
    done = program("scan", *arguments, "-f", "json", timeout=600, **options)
    assert done.returncode in (0, 1, 2), done.stderr
    return json.loads(done.stdout), done.stderr


def unread(overview):
    """Return the runs that could not be read, each with the reason."""
    return [(row.run, row.reason) for row in overview.rows if row.outcome == "unread"]
