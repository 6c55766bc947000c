"""The watched job: whether it still runs, when it is ended, and which findings are certain."""

import os
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.model.findings import Severity
from stabdiag.readers.columns import every_column
from stabdiag.sources import ReadRequest
from stabdiag.watch import StopConditions, WatchedJob, open_source, watch
from tests.watch.conftest import diagnose_found

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not support --pid")

PROC = "stabdiag.watch.loop._PROC"


@pytest.fixture(params=["/proc", "ps"])
def system(request, monkeypatch, tmp_path):
    """Ask the system in both ways."""
    if request.param == "ps":
        monkeypatch.setattr(PROC, tmp_path)
    if shutil.which("ps") is None if request.param == "ps" else not Path("/proc/self").exists():
        pytest.skip(f"this system has no {request.param}")


@pytest.mark.usefixtures("system")
def test_a_job_runs_until_it_is_terminated(sleeper):
    job = WatchedJob(sleeper.pid)
    assert job.runs
    job.check_may_kill()
    assert job.terminate() == f"process {sleeper.pid} was sent SIGTERM"
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not job.runs  # a zombie has ended
    assert not WatchedJob(sleeper.pid).runs
    assert sleeper.wait() == -signal.SIGTERM
    assert job.terminate() == f"process {sleeper.pid} had already ended"


@pytest.mark.usefixtures("system")
def test_a_watch_ends_neither_itself_nor_its_parent():
    for number in (os.getpid(), os.getppid()):
        with pytest.raises(StabdiagError, match="is the watch itself or one of its parents"):
            WatchedJob(number).check_may_kill()


def write_process(folder, number, began):
    """Write the files of /proc for a process."""
    for name in ("self", str(number)):
        (folder / name).mkdir(exist_ok=True)
        after = " ".join(["S", "1", *["0"] * 17, str(began)])
        (folder / name / "stat").write_text(f"{number} (a) Z 1 b) {after} 0 0\n")


def test_another_process_of_the_same_number_is_not_ended(sleeper, monkeypatch, tmp_path):
    monkeypatch.setattr(PROC, tmp_path)
    write_process(tmp_path, sleeper.pid, began=100)
    job = WatchedJob(sleeper.pid)
    assert job.runs
    write_process(tmp_path, sleeper.pid, began=200)
    assert not job.runs
    assert job.terminate() == f"process {sleeper.pid} had already ended"
    assert sleeper.poll() is None


def test_a_job_of_another_user_may_be_hidden(sleeper, monkeypatch, tmp_path):
    monkeypatch.setattr(PROC, tmp_path)
    write_process(tmp_path, os.getpid(), began=100)
    job = WatchedJob(sleeper.pid)

    def refused(_number, _signal):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refused)
        assert job.runs
        with pytest.raises(StabdiagError, match="belongs to another user; you may not end it"):
            job.check_may_kill()
        came_of_it = job.terminate()
    assert came_of_it.endswith("could not be signalled (Operation not permitted)")


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        # An error of an earlier attempt, before and after the job resumes from an earlier step.
        ({"nan_at": 290}, {}, ["nan-dtype-unknown", "earlier-run-failed"]),
        ({}, {"jump_at": 290}, ["healthy", "spike-unresolved"]),
        ({}, {"nan_at": 290}, ["healthy", "nan-dtype-unknown, certain"]),
    ],
    ids=["an earlier attempt's", "not certain", "certain"],
)
def test_a_finding_is_certain_while_the_log_grows(lines, tmp_path, first, later, expected):
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300, **first)[: 300 if first else 200]), encoding="utf-8")
    request = ReadRequest(format=None, is_required=every_column)
    certain_slug, report = [], None
    with closing(open_source([str(log)], request)) as source:
        seen = watch(source, diagnose_found, StopConditions(fail_on=Severity.ERROR), interval=0)
        for appended in ([], lines(300, **later)[250 if first else 200 :]):
            with log.open("a", encoding="utf-8") as file:
                file.writelines(appended)
            while (update := next(seen)).report is report:
                pass
            report = update.report
            certain_slug.append(report.diagnosis.slug + ", certain" * (update.certain is not None))
    assert certain_slug == expected
