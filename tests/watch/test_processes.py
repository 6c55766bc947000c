"""A watch beside a process that really writes a log, is killed, and goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stabdiag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[str]]

RATE = 1000

# Appends what it is given, a thousand lines a second, and then sits on half of a line, if any.
WRITER = f"""
import sys, time
text, log = sys.argv[1:]
begun = time.monotonic()
with open(log, "a") as file:
    for number, line in enumerate(open(text)):
        time.sleep(max(0, begun + number / {RATE} - time.monotonic()))
        file.write(line)
        file.flush()
    while not line.endswith("\\n"):
        print("half a line", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a process, which does not outlive the test."""
    with ExitStack() as running:

        def begin(*command: object, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def write(start: Start, tmp_path: Path) -> Callable[[Path, list[str]], subprocess.Popen[str]]:
    """Return a function that starts a writer of lines."""

    def begin(log: Path, lines: list[str]) -> subprocess.Popen[str]:
        text = tmp_path / f"lines-{len(lines)}"
        text.write_text("".join(lines), encoding="utf-8")
        return start("-c", WRITER, text, log)

    return begin


def watching(start: Start, *arguments: object, **streams: int) -> subprocess.Popen[str]:
    return start("-m", "stabdiag", "watch", *arguments, **streams)


@pytest.mark.parametrize(("jump_at", "code"), [(1400, 1), (None, 0)])
def test_a_job_that_is_killed_in_mid_line_and_resumed(
    start: Start,
    write: Callable[[Path, list[str]], subprocess.Popen[str]],
    lines: Callable[..., list[str]],
    tmp_path: Path,
    jump_at: int | None,
    code: int,
) -> None:
    log = tmp_path / "run.jsonl"
    run = lines(1500, jump_at=jump_at)
    watch = watching(start, log)
    assert watch.stderr is not None
    assert "no such file" in watch.stderr.readline()
    killed = write(log, [*run[:700], run[700][:20]])
    assert killed.stdout is not None
    assert killed.stdout.readline() == "half a line\n"
    killed.kill()
    killed.wait()
    assert killed.returncode == -signal.SIGKILL
    resumed = write(log, run[500:])
    resumed.wait()
    if jump_at is None:
        watch.terminate()
    out, err = watch.communicate()
    assert watch.returncode == (code or 143), err  # stopped, and nothing was certain
    finished = stabdiag.diagnose(log)
    assert f"[{finished.diagnosis.slug}]" in out
    assert finished.diagnosis.slug == ("healthy" if jump_at is None else "spike-persistent")
    assert any(event.kind == "rewind" for event in finished.history.events)
    assert ("a finding is certain" in err) is (code == 1)


@pytest.mark.parametrize(("end", "code"), [("\n", 1), ("", 0)])
def test_the_end_of_a_process_ends_the_watch(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path, end: str, code: int
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300)), encoding="utf-8")
    job = start("-c", "input()", stdin=subprocess.PIPE)
    watch = watching(start, log, "--pid", job.pid)
    assert watch.stderr is not None
    assert "healthy" in watch.stderr.readline()
    with log.open("a", encoding="utf-8") as file:
        file.write('{"step": 300, "loss": NaN, "grad_norm": 1.0}' + end)
    job.communicate("\n")
    out, err = watch.communicate()
    assert "the process has ended" in err
    assert watch.returncode == code
    assert ("the last line has no end yet, and is left out" in out) is (code == 0)


@pytest.mark.parametrize(("number", "jump_at"), [(signal.SIGINT, None), (signal.SIGTERM, 290)])
def test_a_signal_ends_the_watch_with_a_report_and_no_verdict(
    start: Start,
    lines: Callable[..., list[str]],
    tmp_path: Path,
    number: signal.Signals,
    jump_at: int | None,
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300, jump_at=jump_at)), encoding="utf-8")
    watch = watching(start, log)
    assert watch.stderr is not None
    assert "step 299" in watch.stderr.readline()
    watch.send_signal(number)
    out, err = watch.communicate()
    assert "the watch is over: stopped" in err
    assert ("[spike-unresolved]" in out) is (jump_at is not None)
    assert "FIRST ACTION" in out or "No instability found" in out
    assert watch.returncode == 128 + number


def test_what_is_certain_by_the_time_of_a_signal_is_a_verdict(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(300)), encoding="utf-8")
    watch = watching(start, log, "--interval", 600)
    assert watch.stderr is not None
    assert "healthy" in watch.stderr.readline()
    with log.open("a", encoding="utf-8") as file:
        file.write('{"step": 300, "loss": NaN, "grad_norm": 1.0}\n')
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate()
    assert "the watch is over: stopped" in err
    assert "[nan-dtype-unknown]" in out
    assert watch.returncode == 1


@pytest.mark.parametrize("fails", [True, False])
def test_a_report_that_cannot_be_written_at_the_end_is_printed(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path, fails: bool
) -> None:
    log = tmp_path / "run.jsonl"
    run = lines(300, nan_at=290 if fails else None)
    log.write_text("".join(run[:200]), encoding="utf-8")
    folder = tmp_path / "reports"
    folder.mkdir()
    options = ("--format", "json", "--output", folder / "r.json")
    watch = watching(start, log, *options, "--until-idle", 2)
    assert watch.stderr is not None
    assert "healthy" in watch.stderr.readline()
    folder.rmdir()
    with log.open("a", encoding="utf-8") as file:
        file.writelines(run[200:])
    out, err = watch.communicate()
    assert json.loads(out)["source"]["records"] > 200
    assert "r.json: cannot be written (No such file or directory); the report goes to" in err
    assert watch.returncode == (1 if fails else 0)


def test_a_watch_that_is_stopped_before_there_is_a_log_says_so(
    start: Start, tmp_path: Path
) -> None:
    watch = watching(start, tmp_path / "run.jsonl")
    assert watch.stderr is not None
    assert "no such file" in watch.stderr.readline()
    watch.send_signal(signal.SIGTERM)
    out, err = watch.communicate()
    assert (watch.returncode, out) == (143, "")
    assert "stopped before anything was read" in err


def test_standard_input_is_watched_while_it_comes(
    start: Start, lines: Callable[..., list[str]]
) -> None:
    watch = watching(start, "-", stdin=subprocess.PIPE)
    assert watch.stdin is not None
    assert watch.stderr is not None
    assert "waiting" in watch.stderr.readline()
    run = lines(300, nan_at=280)
    watch.stdin.writelines(run[:270])
    watch.stdin.flush()
    assert "healthy" in watch.stderr.readline()
    watch.stdin.writelines(run[270:])
    watch.stdin.flush()
    assert "nan-dtype-unknown" in watch.stderr.readline()  # and the input has not ended
    watch.wait()
    assert watch.returncode == 1


def test_the_end_of_standard_input_ends_the_watch(
    start: Start, lines: Callable[..., list[str]]
) -> None:
    watch = watching(start, "-", "--fail-on", "never", stdin=subprocess.PIPE)
    out, err = watch.communicate("".join(lines(300, nan_at=280)).rstrip("\n"))
    assert watch.returncode == 0
    assert "the input ended" in err
    assert "300 records" in out


def test_a_log_that_comes_later_and_is_written_anew_each_time(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path
) -> None:
    log = tmp_path / "later" / "trainer_state.json"
    watch = watching(start, log)
    assert watch.stderr is not None
    assert "no such file" in watch.stderr.readline()
    log.parent.mkdir()
    run = [line.strip() for line in lines(300, nan_at=290)]
    for count in (100, 200, 300):
        part = log.with_suffix(".part")
        records = ",\n".join(run[:count])
        part.write_text(f'{{"global_step": {count}, "log_history": [{records}]}}', "utf-8")
        part.replace(log)
        time.sleep(0.05)
    out, _ = watch.communicate()
    assert watch.returncode == 1
    assert "(trainer-state), 300 records" in out


def test_a_folder_is_read_again_when_it_has_changed(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "metrics.jsonl"
    log.parent.mkdir()
    run = lines(300, nan_at=290)
    log.write_text("".join(run[:200]), encoding="utf-8")
    watch = watching(start, log.parent)
    assert watch.stderr is not None
    assert "healthy" in watch.stderr.readline()
    with log.open("a", encoding="utf-8") as file:
        file.writelines(run[200:])
    out, _ = watch.communicate()
    assert watch.returncode == 1
    assert "300 records" in out


PAGE = Path(__file__).parents[2] / "docs" / "watch.md"
JOB = """
import json, time
with open("run.jsonl", "a") as log:
    for step in range(200):
        print(json.dumps({"step": step, "loss": 3 - step / 1000}), file=log, flush=True)
    for step in range(200, 6200 if FAILS else 200):
        print(json.dumps({"step": step, "loss": float("nan")}), file=log, flush=True)
        time.sleep(0.1)
print("the job has come to its end")
"""


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell here")
@pytest.mark.parametrize("fails", [True, False])
def test_the_launch_line_of_the_docs_stops_a_job_that_fails(tmp_path: Path, fails: bool) -> None:
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))
    script = next(block for block in blocks if "JOB=$!" in block)
    (tmp_path / "train.py").write_text(JOB.replace("FAILS", str(fails)), encoding="utf-8")
    script = script.replace("stabdiag watch", f"{sys.executable} -m stabdiag watch")
    done = subprocess.run(
        ["sh", "-c", script.replace("python train.py", f"{sys.executable} train.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    report = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert done.stdout == ("" if fails else "the job has come to its end\n")
    assert done.returncode == (128 + signal.SIGTERM if fails else 0)
    assert ("[nan-dtype-unknown]" in report) is fails


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize("begins_as_file", [True, False])
def test_a_pipe_without_a_writer_does_not_keep_a_watch(
    start: Start, lines: Callable[..., list[str]], tmp_path: Path, begins_as_file: bool
) -> None:
    log = tmp_path / "run.jsonl"
    if begins_as_file:
        log.write_text("".join(lines(300)), encoding="utf-8")
    else:
        os.mkfifo(log)
    watch = watching(start, log, "--until-idle", 2)
    assert watch.stderr is not None
    assert ("healthy" if begins_as_file else "waiting") in watch.stderr.readline()
    if begins_as_file:
        log.unlink()
        os.mkfifo(log)
    _, err = watch.communicate(timeout=60)
    assert watch.returncode == (0 if begins_as_file else 2), err
