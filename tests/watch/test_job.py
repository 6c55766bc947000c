"""The job beside a watch: whether it still runs, and when it is ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.watch import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Lines = Callable[..., list[str]]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there, no process is asked or ended")

PROC = "stabdiag.watch.loop._PROC"


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[str]]:
    """Start a process that sleeps."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def zombie() -> Iterator[int]:
    """Start a process that has ended, and that nobody has waited for."""
    with sleeping() as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


@pytest.fixture(params=["/proc", "ps"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ask the system in both ways."""
    if request.param == "ps":
        monkeypatch.setattr(PROC, tmp_path)
    if shutil.which("ps") is None if request.param == "ps" else not Path("/proc/self").exists():
        pytest.skip(f"this system has no {request.param}")


@pytest.mark.usefixtures("system")
def test_a_job_runs_until_it_is_told_to_end() -> None:
    with sleeping() as process:
        job = Job(process.pid)
        assert job.runs
        job.check_ours()
        assert job.terminate() == f"process {process.pid} was sent SIGTERM"
        assert process.wait() == -signal.SIGTERM
        assert not job.runs
        assert job.terminate() == f"process {process.pid} had already ended"


@pytest.mark.usefixtures("system")
def test_a_zombie_has_ended() -> None:
    with sleeping() as process:
        job = Job(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not job.runs
    with zombie() as number:
        assert not Job(number).runs


@pytest.mark.usefixtures("system")
def test_a_watch_does_not_end_itself_nor_what_started_it() -> None:
    for number in (os.getpid(), os.getppid()):
        with pytest.raises(StabdiagError, match="is the watch itself or what it was started from"):
            Job(number).check_ours()


def told(folder: Path, number: int, began: int) -> None:
    """Write what /proc tells of a process."""
    for name in ("self", str(number)):
        (folder / name).mkdir(exist_ok=True)
        after = " ".join(["S", "1", *["0"] * 17, str(began)])
        (folder / name / "stat").write_text(f"{number} (a) Z 1 b) {after} 0 0\n")


def test_another_process_of_the_same_number_is_not_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PROC, tmp_path)
    with sleeping() as process:
        told(tmp_path, process.pid, began=100)
        job = Job(process.pid)
        assert job.runs
        told(tmp_path, process.pid, began=200)
        assert not job.runs
        assert job.terminate() == f"process {process.pid} had already ended"
        assert process.poll() is None


def test_a_job_of_another_user_may_be_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PROC, tmp_path)
    with sleeping() as process:
        told(tmp_path, os.getpid(), began=100)
        job = Job(process.pid)

        def refused(_number: int, _signal: int) -> None:
            raise PermissionError(1, "Operation not permitted")

        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", refused)
            assert job.runs
            with pytest.raises(StabdiagError, match="is someone else's; you may not end it"):
                job.check_ours()
            came_of_it = job.terminate()
    assert came_of_it.endswith("could not be signalled (Operation not permitted)")


def watching(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stabdiag", "watch", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_job_is_ended_when_an_error_is_certain(lines: Lines, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    run = lines(300, nan_at=290)
    log.write_text("".join(run[:200]), encoding="utf-8")
    with sleeping() as job, watching(log, "--pid", job.pid, "--kill") as watch:
        assert watch.stderr is not None
        assert "healthy" in watch.stderr.readline()
        with log.open("a", encoding="utf-8") as file:
            file.writelines(run[200:])
        out, err = watch.communicate(timeout=60)
        assert job.wait(timeout=60) == -signal.SIGTERM
    assert watch.returncode == 1
    assert "[nan-dtype-unknown]" in out
    assert f"process {job.pid} was sent SIGTERM" in err


@pytest.mark.parametrize(
    ("begin", "goes_on", "slug"),
    [
        ({"nan_at": 290}, {}, "nan-dtype-unknown"),
        ({}, {"jump_at": 290}, "spike-unresolved"),
    ],
    ids=["an error of an earlier attempt", "an error that is not certain"],
)
def test_a_job_goes_on_beside_what_is_not_certain_of_it(
    lines: Lines, tmp_path: Path, begin: dict[str, int], goes_on: dict[str, int], slug: str
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300 if begin else 200, **begin)), encoding="utf-8")
    options = ("--kill", "--until-idle", 2)
    with sleeping() as job, watching(log, "--pid", job.pid, *options) as watch:
        assert watch.stderr is not None
        watch.stderr.readline()
        if goes_on:
            with log.open("a", encoding="utf-8") as file:
                file.writelines(lines(300, **goes_on)[200:])
        out, err = watch.communicate(timeout=60)
        assert job.poll() is None
    assert watch.returncode == 1  # as the diagnosis of the log
    assert f"[{slug}]" in out
    assert "the log has been quiet" in err


def test_an_attempt_that_goes_on_from_before_an_error_is_left_alone(
    lines: Lines, tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300, nan_at=290)), encoding="utf-8")
    with sleeping() as job, watching(log, "--pid", job.pid, "--kill") as watch:
        assert watch.stderr is not None
        assert "[nan-dtype-unknown]" in watch.stderr.readline()
        with log.open("a", encoding="utf-8") as file:
            file.writelines(lines(300)[250:])
        assert "healthy" in watch.stderr.readline()
        job.kill()
        watch.communicate(timeout=60)
    assert watch.returncode == 0


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGINT])
def test_a_watch_that_is_stopped_leaves_the_job_alone(
    lines: Lines, tmp_path: Path, signalled: signal.Signals
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(200)), encoding="utf-8")
    with sleeping() as job, watching(log, "--pid", job.pid, "--kill") as watch:
        assert watch.stderr is not None
        assert "healthy" in watch.stderr.readline()
        watch.send_signal(signalled)
        watch.communicate(timeout=60)
        assert job.poll() is None
    assert watch.returncode == 128 + signalled
