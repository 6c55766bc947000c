"""A Dask cluster on this machine: a scheduler and two workers, each a process of its own."""

import json
import os
import socket
import time
from importlib.util import find_spec

import pytest

from stabdiag.scan.scan import scan
from tests.scan.conftest import THREADS, scanned, write_log

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs the extra dask")

ENDED = "kills the worker that reads it, or needs too much memory"


@pytest.fixture
def cluster(started, killing, tmp_path):
    """Return the address of a scheduler."""
    killing = {
        **killing,
        "DASK_DISTRIBUTED__WORKER__DAEMON": "False",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    }
    file = tmp_path / "scheduler.json"
    quiet = ("--no-dashboard", "--host", "127.0.0.1")
    scheduler = started(
        *("-m", "distributed.cli.dask_scheduler", "--port", 0, "--scheduler-file", file, *quiet),
        env=killing,
    )
    wait_for(lambda: file.exists() and file.read_text().strip(), scheduler)
    address = json.loads(file.read_text())["address"]
    workers = started(
        *("-m", "distributed.cli.dask_worker", address, "--nworkers", 2, "--nthreads", 1, *quiet),
        *("--local-directory", tmp_path / "scratch"),
        env=killing,
    )
    wait_for(lambda: len([*tmp_path.glob("scratch/*/worker-*/")]) == 2, workers)
    return address


def wait_for(ready, process):
    while not ready():
        assert process.poll() is None
        time.sleep(0.1)


def rows_of(rows):
    return {(row.path, row.outcome, row.action, row.reason) for row in rows}


def test_the_rows_are_those_of_this_machine(cluster, sweep, tmp_path):
    for number in range(10, 60):
        write_log(sweep / f"run{number}.jsonl", number)
    here = rows_of(scan(sweep, executor=THREADS, jobs=2).rows)
    write_log(sweep / "kills.jsonl")
    os.mkfifo(tmp_path / "waits.jsonl")
    pipe = tmp_path / "waits.jsonl"
    dask = ("--executor", "dask", "--scheduler", cluster)
    report, _ = scanned(sweep, pipe, *dask, "--timeout", 5, "-o", tmp_path / "rows")
    remote_rows = {
        (row["path"], row["outcome"], row["action"], row["reason"]) for row in report["rows"]
    }
    assert here < remote_rows
    assert remote_rows - here == {
        (str(sweep / "kills.jsonl"), "unread", "", ENDED),
        (str(pipe), "unread", "", "given up after 5 s"),
    }


def test_a_scheduler_that_does_not_answer(stabdiag, sweep, monkeypatch):
    monkeypatch.setattr("stabdiag.scan.executors._SCHEDULER_TIMEOUT", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        done = stabdiag("scan", sweep, "--executor", "dask", "--scheduler", address)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"stabdiag: {address}: no Dask scheduler answers (")
    assert done.err.count("\n") == 1
