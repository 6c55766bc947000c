"""The panel of a watch, as text and on a terminal."""

import os
import subprocess
import sys

import pytest

from stabdiag.cli.watch import _status
from stabdiag.errors import LogError
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.panel import lines as panel
from stabdiag.watch import EndReason, WatchState
from tests.conftest import diagnosed


@pytest.fixture
def spike():
    return diagnosed("spike-persistent-moments")


def drawn(report, page, name="run.csv"):
    return [line.plain for line in panel(report, page, name=name, status="quiet for 10 s")]


def test_it_shows_where_the_run_is_and_what_is_known(spike):
    shown = drawn(spike, Page())
    assert shown[0] == "run.csv  step 899, 900 records"
    assert shown[-1] == "quiet for 10 s"
    text = "\n".join(shown)
    last = spike.history.series["loss"].values[-1]
    assert f"loss {last:.4g}" in text
    assert "ERROR  Loss spike that did not recover, step 501  [spike-persistent]" in text
    assert "spike yes" in text
    assert max(map(len, shown)) <= 80


def test_the_panel_fits_its_page_for_any_log_name(spike):
    for width in (20, 40, 100):
        assert max(map(len, drawn(spike, Page(width=width)))) <= width
    path = f"/{60 * 'x'}/run.csv"
    assert drawn(spike, Page(), name=path)[0] == "run.csv  step 899, 900 records"
    assert "\n".join(drawn(spike, Page(ascii=True), name="run-σ.csv")).isascii()
    assert drawn(None, Page(), name="run\x1b[2J.csv") == ["run\\x1b[2J.csv", "quiet for 10 s"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (WatchState(), "waiting for the first records"),
        (WatchState(trouble=LogError("no such file")), "waiting: no such file"),
        (WatchState(end=EndReason.QUIET), "the watch ended: the log has stopped growing"),
    ],
)
def test_the_status_says_what_the_watch_does(seen, expected):
    assert _status(seen) == expected


def test_the_status_of_a_quiet_log_changes_less_and_less_often(spike):
    statuses = [_status(WatchState(report=spike, quiet_for=at / 4)) for at in range(4 * 600)]
    assert statuses[0].startswith("watching")
    assert "quiet for 110 s; Ctrl-C ends it with a report" in statuses
    assert statuses[-1].startswith("quiet for 9 min")
    assert len(set(statuses)) < 25


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
def test_a_terminal_shows_a_panel_while_the_log_grows(lines, tmp_path):
    log = tmp_path / "run.jsonl"
    run = lines(600, nan_at=590)
    log.write_text("".join(run[:400]), encoding="utf-8")
    controller, terminal = os.openpty()
    command = [sys.executable, "-m", "stabdiag", "watch", str(log)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as watch:
        os.close(terminal)
        shown = b""
        while b"climb" not in shown:
            shown += os.read(controller, 1 << 16)
        with log.open("a", encoding="utf-8") as file:
            file.writelines(run[400:])
        out, _ = watch.communicate()
    os.close(controller)
    assert b"step 399" in shown
    assert b"healthy" in shown
    assert watch.returncode == 1
    assert b"FIRST ACTION" in out
    assert b"\x1b" not in out
