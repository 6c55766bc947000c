"""Logs that end or hold the worker that reads them cost no other log its row."""

from __future__ import annotations

import json
import os

import pytest

from tests.scan.conftest import scanned, write_log

LATE = "given up after 3 s"
KILLED = "ends the worker that reads it: the process was killed, or needs too much memory"


def rows_of(done):
    assert done.returncode in (0, 1, 2), done.stderr
    return {row["run"]: row for row in json.loads(done.stdout)["rows"]}


def test_a_log_that_ends_every_worker_is_a_row(sweep, killing):
    write_log(sweep / "kills.jsonl")
    done = scanned(sweep, "--jobs", 2, "-f", "json", env=killing)
    rows = rows_of(done)
    assert len(rows) == 11
    unread = [row for row in rows.values() if row["outcome"] == "unread"]
    assert [(row["run"], row["reason"]) for row in unread] == [("kills.jsonl", KILLED)]


def test_a_log_that_hangs_is_a_row(sweep):
    os.mkfifo(sweep / "waits.jsonl")  # nobody writes to it
    done = scanned(sweep, sweep / "waits.jsonl", "--jobs", 2, "--timeout", 3, "-f", "json")
    rows = rows_of(done)
    assert len(rows) == 11
    unread = [row for row in rows.values() if row["outcome"] == "unread"]
    assert [row["reason"] for row in unread] == [LATE]
    assert "neither a file nor a folder" in done.stderr


# The thread that is told to end leaves the pipe to be closed by whoever cleans up.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_thread_that_hangs_is_given_up(sweep, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    from stabdiag.scan.scan import scan

    os.mkfifo(tmp_path / "waits.jsonl")
    with ThreadPoolExecutor(2) as threads:
        overview = scan([sweep, tmp_path / "waits.jsonl"], executor=threads, jobs=2, timeout=3)
        assert [row.reason for row in overview.rows if row.outcome == "unread"] == [LATE]
        assert overview.runs == 11
        with (tmp_path / "waits.jsonl").open("wb"):  # let the thread end
            pass
