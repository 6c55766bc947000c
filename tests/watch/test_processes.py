"""A watch of a real process that writes a log, is killed, and resumes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stabdiag

# Appends what it is given, and then sits on half of a line, if any.
WRITER = """
import sys, time
text, log = sys.argv[1:]
with open(log, "a") as file:
    for line in open(text):
        file.write(line)
        file.flush()
if not line.endswith("\\n"):
    print("half a line", flush=True)
    time.sleep(60)
"""


def watching(start, *arguments, first_line, **streams):
    """Start a watch and wait for its first line."""
    watch = start("-m", "stabdiag", "watch", "--interval", 0.1, *arguments, **streams)
    assert first_line in watch.stderr.readline()
    return watch


def append(log, lines):
    with log.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def test_a_job_that_is_killed_in_mid_line_and_resumed(start, lines, tmp_path):
    log, text = tmp_path / "run.jsonl", tmp_path / "lines"
    run = lines(1500, jump_at=1400)
    watch = watching(start, log, first_line="no such file")
    text.write_text("".join([*run[:700], run[700][:20]]), encoding="utf-8")
    killed = start("-c", WRITER, text, log)
    assert killed.stdout.readline() == "half a line\n"
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    text.write_text("".join(run[500:]), encoding="utf-8")
    start("-c", WRITER, text, log).wait()
    out, err = watch.communicate(timeout=60)
    assert (watch.returncode, "a finding is certain" in err) == (1, True), err
    assert "[spike-persistent]" in out
    finished = stabdiag.diagnose(log)
    assert finished.diagnosis.slug == "spike-persistent"
    assert any(event.kind == "rewind" for event in finished.history.events)


@pytest.mark.parametrize(("end", "code"), [("\n", 1), ("", 0)])
def test_the_end_of_a_process_ends_the_watch(start, lines, tmp_path, end, code):
    log = tmp_path / "run.jsonl"
    append(log, lines(300))
    job = start("-c", "input()", stdin=subprocess.PIPE)
    watch = watching(start, log, "--pid", job.pid, first_line="healthy")
    append(log, ['{"step": 300, "loss": NaN, "grad_norm": 1.0}' + end])
    job.communicate("\n")
    out, err = watch.communicate()
    assert "the process has ended" in err
    assert watch.returncode == code
    assert ("the last line is incomplete and is left out" in out) is (code == 0)


@pytest.mark.parametrize(
    ("number", "options", "code", "slug"),
    [
        (signal.SIGINT, {}, 130, "healthy"),
        (signal.SIGTERM, {"jump_at": 290}, 143, "spike-unresolved"),
        # What is certain by then is a verdict.
        (signal.SIGINT, {"nan_at": 290}, 1, "nan-dtype-unknown"),
    ],
)
def test_a_signal_ends_the_watch_with_a_report_and_leaves_the_job_alone(
    start, lines, sleeper, tmp_path, number, options, code, slug
):
    log = tmp_path / "run.jsonl"
    append(log, lines(280))
    watch = watching(
        start, log, "--interval", 600, "--pid", sleeper.pid, "--kill", first_line="step 279: ok"
    )
    append(log, lines(300, **options)[280:])
    watch.send_signal(number)
    out, err = watch.communicate(timeout=60)
    assert (watch.returncode, "the watch ended: stopped" in err) == (code, True)
    assert f"[{slug}]" in out
    assert (sleeper.poll() is None) is (code != 1)


def test_a_watch_that_is_stopped_before_there_is_a_log_says_so(start, tmp_path):
    watch = watching(start, tmp_path / "run.jsonl", first_line="no such file")
    watch.send_signal(signal.SIGTERM)
    out, err = watch.communicate()
    assert (watch.returncode, out) == (143, "")
    assert "stopped before anything was read" in err


def test_a_job_is_ended_when_an_error_is_certain_and_the_report_is_not_lost(
    start, lines, sleeper, tmp_path
):
    log, folder = tmp_path / "run.jsonl", tmp_path / "reports"
    run = lines(300, nan_at=290)
    append(log, run[:200])
    folder.mkdir()
    options = ("--pid", sleeper.pid, "--kill", "--format", "json", "--output", folder / "r.json")
    watch = watching(start, log, *options, first_line="healthy")
    folder.rmdir()
    append(log, run[200:])
    out, err = watch.communicate(timeout=60)
    assert sleeper.wait(timeout=60) == -signal.SIGTERM
    assert f"process {sleeper.pid} was sent SIGTERM" in err
    assert watch.returncode == 1
    assert json.loads(out)["diagnosis"]["slug"] == "nan-dtype-unknown"
    assert "r.json: cannot be written (No such file or directory); the report goes to" in err


@pytest.mark.parametrize(("fail_on", "code"), [("error", 1), ("never", 0)])
def test_standard_input_is_watched_while_it_comes(start, lines, fail_on, code):
    watch = watching(start, "-", "--fail-on", fail_on, first_line="waiting", stdin=subprocess.PIPE)
    run = lines(300, nan_at=280)
    watch.stdin.writelines(run[:270])
    watch.stdin.flush()
    assert "healthy" in watch.stderr.readline()
    watch.stdin.writelines(run[270:])
    watch.stdin.flush()
    assert "nan-dtype-unknown" in watch.stderr.readline()  # and the input has not ended
    if not code:
        _, err = watch.communicate()
        assert "the input ended" in err
    assert watch.wait(timeout=60) == code


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


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell installed")
@pytest.mark.parametrize("fails", [True, False])
def test_the_launch_line_of_the_docs_stops_a_job_that_fails(tmp_path, fails):
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))
    script = next(block for block in blocks if "JOB=$!" in block)
    (tmp_path / "train.py").write_text(JOB.replace("FAILS", str(fails)), encoding="utf-8")
    script = script.replace("stabdiag watch", f"{sys.executable} -m stabdiag watch")
    script = script.replace("python train.py", f"{sys.executable} train.py")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert done.stdout == ("" if fails else "the job has come to its end\n")
    assert done.returncode == (128 + signal.SIGTERM if fails else 0)
    assert ("[nan-dtype-unknown]" in report) is fails


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize("begins_as_file", [True, False])
def test_a_pipe_without_a_writer_does_not_keep_a_watch(start, lines, tmp_path, begins_as_file):
    log = tmp_path / "run.jsonl"
    if begins_as_file:
        append(log, lines(300))
    else:
        os.mkfifo(log)
    first_line = "healthy" if begins_as_file else "waiting"
    watch = watching(start, log, "--until-idle", 1, first_line=first_line)
    if begins_as_file:
        log.unlink()
        os.mkfifo(log)
    _, err = watch.communicate(timeout=60)
    assert watch.returncode == (0 if begins_as_file else 2), err


PRINTED = [f"iter {step}: loss {2 + 3 * 0.99**step:.4f}\n" for step in range(200)]


@pytest.mark.parametrize(("last", "code", "slug"), [("2.01", 0, "healthy"), ("nan", 1, "nan")])
def test_a_watch_follows_a_change_of_form_and_ends_no_job_for_it(
    start, sleeper, tmp_path, last, code, slug
):
    log = tmp_path / "run.csv"
    append(log, ["step,loss\n"])
    append(log, [f"{step},{2 + 3 * 0.99**step:.4f}\n" for step in range(120)])
    watch = watching(start, log, "--pid", sleeper.pid, "--kill", first_line="step 119: ok")
    append(log, PRINTED[120:123])
    assert "warning" in watch.stderr.readline()  # too few lines to follow
    append(log, PRINTED[123:170])
    assert "step 169: ok" in watch.stderr.readline()
    append(log, [f"iter {step}: loss {last}\n" for step in range(170, 260)])
    if slug == "nan":
        assert "error: The loss went NaN" in watch.stderr.readline()
    time.sleep(2)
    assert sleeper.poll() is None
    sleeper.kill()
    out, err = watch.communicate(timeout=60)
    assert (watch.returncode, "the process has ended" in err) == (code, True), err
    assert f"[{slug}" in out
