"""What a scan shows while it runs."""

from dataclasses import replace
from io import StringIO

from rich.console import Console
from rich.live import Live

from stabdiag.cli.scan import ScanDisplay, scan_display
from tests.scan.made import sweep


def test_without_a_terminal_progress_lines_are_rare(capsys):
    display = ScanDisplay(interval=0)
    for row in sweep():
        display(row)
        display.total = 30
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "stabdiag: 1 log: 1 healthy"
    assert lines[-1].startswith("stabdiag: 26 of 30 logs: 12 failed, 1 with a warning, ")
    assert lines[-1].endswith("left")


def test_a_short_scan_says_nothing(capsys):
    with scan_display(None) as display:
        for row in sweep():
            display(row)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_below_the_last_failures():
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=80, no_color=True, _environ={})
    with Live(console=console, auto_refresh=False, transient=True) as live:
        bar = ScanDisplay(live)
        bar.total = 26
        for row in sweep():
            bar(replace(row, headline="[red]bad[/]\x1b[2J\n::error::x") if row.step == 640 else row)
        file.truncate(0)
        bar.show()
        shown = file.getvalue()
    assert "26 of 26 logs: 12 failed, 1 with a warning, 11 healthy, 2 not read" in shown
    failures = [line for line in shown.splitlines() if "/seed" in line]
    assert [line.partition("/seed")[0][-7:] for line in failures] == ["lr-0.01", *["lr-0.03"] * 4]
    assert r"[red]bad[/]\x1b[2J\n::error" in failures[0]
