"""Logs that end or hold the worker that reads them cost no other log its row."""

import gc
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.scan import run
from stabdiag.scan.scan import scan
from tests.conftest import python
from tests.scan.conftest import scanned, unread, write_log
from tests.scan.killer import deadly

KILLED = "kills the worker that reads it, or needs too much memory"


def rows_of(expected):
    """Return the number of rows and the rows of logs that could not be read."""
    left = [(row["run"], row["reason"]) for row in expected["rows"] if row["outcome"] == "unread"]
    return len(expected["rows"]), left


def test_a_log_that_ends_every_worker_is_a_row(sweep, killing):
    write_log(sweep / "kills.jsonl")
    report, _ = scanned(sweep, "--jobs", 2, env=killing)
    assert rows_of(report) == (11, [("kills.jsonl", KILLED)])


def test_a_log_that_hangs_is_a_row(sweep):
    os.mkfifo(sweep / "waits.jsonl")  # nothing writes to it
    report, err = scanned(sweep, sweep / "waits.jsonl", "--jobs", 2, "--timeout", 3)
    assert rows_of(report) == (11, [(str(sweep / "waits.jsonl"), "given up after 3 s")])
    assert "not a file or folder" in err


# The abandoned thread leaves the pipe to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_thread_that_hangs_is_given_up(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.scan.run._GRACE", 0)
    os.mkfifo(tmp_path / "waits.jsonl")
    with ThreadPoolExecutor(2) as threads:
        overview = scan([sweep, tmp_path / "waits.jsonl"], executor=threads, jobs=2, timeout=1)
        assert [reason for _, reason in unread(overview)] == ["given up after 1 s"]
        assert overview.runs == 11
        with (tmp_path / "waits.jsonl").open("wb"):  # let the thread end
            pass
    gc.collect()  # here, and not in the midst of another test


def test_a_broken_pool_is_replaced(sweep):
    write_log(sweep / "kills.jsonl")

    def make():
        return ProcessPoolExecutor(1, get_context("spawn"), deadly)

    overview = scan(sweep, executor=make, jobs=1)
    assert overview.runs == 11
    assert unread(overview) == [("kills.jsonl", KILLED)]


class _Mute(ThreadPoolExecutor):
    """Never comes back with one log."""

    def submit(self, fn, /, jobs, *args):
        if any("mute" in job.key for job in jobs):
            return Future()
        return super().submit(fn, jobs, *args)


def test_a_log_that_kills_its_worker_is_a_row(sweep, monkeypatch):
    monkeypatch.setattr(run, "_GRACE", -1.0)  # of twice the time limit, leave one second
    write_log(sweep / "mute.jsonl")
    with _Mute(2) as executor:
        overview = scan(sweep, executor=executor, jobs=2, timeout=1)
    assert overview.runs == 11
    assert unread(overview) == [("mute.jsonl", "no worker returned it in time")]


class _Refusing(Executor):
    def submit(self, fn, /, *args, **kwargs):
        raise RuntimeError("closed for today")


def test_an_executor_that_rejects_work_is_reported(sweep):
    report = "the executor accepts no more work .RuntimeError: closed for today.; the rows"
    with pytest.raises(StabdiagError, match=report):
        scan(sweep, executor=_Refusing(), jobs=2)


def test_the_semaphores_of_an_interrupted_scan_leave_no_warning():
    script = (
        "from stabdiag.scan.executors import _start_resource_tracker\n"
        "from loky.backend import resource_tracker\n"
        "_start_resource_tracker()\n"
        "resource_tracker.register('/loky-leaked', 'semlock')\n"
    )
    assert python("-c", script).stderr == ""
