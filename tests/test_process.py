"""The program as a process: its exit code, and what it does with streams closed or full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from stabdiag.files import written_whole

LOG = Path(__file__).parents[1] / "fixtures" / "runs" / "spike-lr-jump" / "log.jsonl"
FULL = Path("/dev/full")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which STABDIAG and LOG stand for the program and a log."""
    line = command.replace("STABDIAG", f"{sys.executable} -m stabdiag").replace("LOG", str(LOG))
    return subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("STABDIAG diagnose LOG", 0),
        ("STABDIAG diagnose LOG --fail-on warning", 1),
        ("STABDIAG diagnose missing.jsonl", 2),
        ("STABDIAG diagnose LOG >&-", 0),
        ("STABDIAG diagnose LOG --fail-on warning >&-", 1),
        ("STABDIAG diagnose missing.jsonl 2>&-", 2),
        ("STABDIAG diagnose - <&-", 2),
        ("STABDIAG watch - <&-", 2),
        ("STABDIAG --help >&-", 0),
    ],
)
def test_the_exit_code_tells_whatever_is_closed(command: str, code: int, tmp_path: Path) -> None:
    done = shell(command, tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(
    "command", ["diagnose LOG", "diagnose --help", "thresholds", "postmortem LOG", "--version"]
)
def test_a_full_disk_is_told_in_a_line(command: str, tmp_path: Path) -> None:
    done = shell(f"STABDIAG {command} >/dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "stabdiag: standard output: No space left on device\n"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_complaint_that_cannot_be_written_leaves_the_exit_code(tmp_path: Path) -> None:
    assert shell("STABDIAG diagnose missing.jsonl 2>/dev/full", tmp_path).returncode == 2


def test_a_reader_who_has_enough_is_no_error(tmp_path: Path) -> None:
    done = shell("STABDIAG diagnose LOG --format json | head -1", tmp_path)
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.mark.parametrize("wait", [0.2, 1.0])
def test_an_interrupt_ends_it_without_a_word(wait: float, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stabdiag", "diagnose", "-"]
    # What a shell runs in the background ignores interrupts, and hands that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        time.sleep(wait)  # it is importing, or waiting for its input
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert shell("STABDIAG diagnose LOG -o pipe", tmp_path).returncode == 0
    reader.join(timeout=60)
    assert pipe.is_fifo()
    assert read[0].startswith("WARNING  Loss spike from a learning-rate jump")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with written_whole(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]
