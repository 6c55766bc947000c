"""The terminal report: what it says, and that it fits, whatever the log holds."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from stabdiag.formats import render
from stabdiag.model.findings import Action, ActionKind, Severity, Verdict
from stabdiag.model.history import Event, EventKind
from stabdiag.model.report import NotChecked, Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.report import Report

REPORTS = ("persistent", "healthy", "nan")
HOSTILE = {
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "c1": "\x9b31mred",
    "markup": "[bold red]x[/] [link=http://x]y[/link]",
    "newline": "one\ntwo\r\nthree\u2028four",
    "bidi": "loss\u202egnp.exe\u2066",
    "surrogate": "a\udcffb",
    "long": "x" * 300,
    "wide": "損失" * 60,
    "brace": "{spike.sigma} %s $x",
}


@pytest.fixture(params=REPORTS)
def report(request: pytest.FixtureRequest) -> Report:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [40, 60, 72, 80, 100, 140])
def test_no_line_is_too_wide_or_ends_in_blanks(report: Report, width: int, verbose: bool):
    for line in render(report, "terminal", width=width, verbose=verbose).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_log_text_is_inert(
    report: Report, renamed: Callable[..., Report], name: str, encoding: str
):
    text = render(renamed(report, name), "terminal", verbose=True, encoding=encoding)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    text.encode(encoding)


def test_log_text_is_visible(persistent: Report, renamed: Callable[..., Report]):
    text = render(renamed(persistent, "[bold]a\x1b[0m\nb"), "terminal", color=True)
    assert r"See [bold]a\x1b[0m\nb here." in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_is_not_unicode_gets_ascii(report: Report, encoding: str):
    assert render(report, "terminal", verbose=True, encoding=encoding).isascii()


def test_colour_changes_no_words(report: Report):
    plain = render(report, "terminal")
    colored = re.sub(r"\x1b\[[0-9;]*m", "", render(report, "terminal", color=True))
    assert colored.splitlines() == plain.splitlines()
    assert "\x1b" not in plain


def test_the_environment_changes_nothing(persistent: Report, monkeypatch: pytest.MonkeyPatch):
    before = render(persistent, "terminal", color=True)
    for name, value in {"COLUMNS": "33", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert render(persistent, "terminal", color=True) == before


def test_the_head_names_severity_step_and_slug(persistent: Report):
    head = render(persistent, "terminal").splitlines()[0]
    assert head == "ERROR  Loss spike that did not recover, step 4913  [spike-persistent]"


@pytest.mark.parametrize(
    ("slugs", "told"),
    [
        (["eval-rising"], ["plateau"]),
        (["stall", "eval-rising"], ["eval-rising", "plateau"]),
    ],
)
def test_a_warning_goes_before_a_run_that_is_well_otherwise(
    healthy: Report, slugs: list[str], told: list[str]
):
    note = replace(healthy.diagnosis, slug="plateau", severity=Severity.NOTE)
    act = Action(ActionKind.LOG_MORE, "Act.")
    warnings = [
        replace(note, slug=slug, severity=Severity.WARNING, title=f"On {slug}", actions=(act,))
        for slug in slugs
    ]
    warned = replace(healthy, findings=(*warnings, note))
    text = render(warned, "terminal")
    assert text.splitlines()[0] == f"WARNING  On {slugs[0]}  [{slugs[0]}]"
    assert " ".join(f"Otherwise: {healthy.diagnosis.summary}".split()) in " ".join(text.split())
    assert "┃ FIRST ACTION\n┃ Act.\n" in text
    rest = text.partition("\nAlso found")[2].partition("\n\n")[0]
    assert re.findall(r"\[(.*?)\]", rest) == told


def test_other_findings_stand_before_the_reasoning(persistent: Report):
    text = render(persistent, "terminal")
    assert text.index("\nEvidence") < text.index("\nAlso found") < text.index("\nTrail")


def test_only_verbose_shows_the_limits(persistent: Report):
    assert "  limits  " not in render(persistent, "terminal")
    assert "  limits  spike.sigma 3" in render(persistent, "terminal", verbose=True)


def test_what_was_not_checked_takes_one_line(persistent: Report):
    lacking = tuple(
        NotChecked(symptom=f"symptom-{n}", missing=(f"a_role_with_a_long_name_{n}",))
        for n in range(9)
    )
    report = replace(persistent, not_checked=lacking)
    lines = render(report, "terminal").splitlines()
    (line,) = [line for line in lines if "a_role_with_a_long_name" in line]
    assert line.startswith("Not checked  9 symptoms, for lack of a_role_with_a_long_name_0")
    assert line.endswith("…")
    assert "symptom-8: needs a_role_with_a_long_name_8" in render(report, "terminal", verbose=True)


@pytest.mark.parametrize("width", [60, 71, 72, 80, 100])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_role_that_could_not_be_checked_is_cut(persistent: Report, width: int, encoding: str):
    lacking = ("eval_loss", "tokens_per_second", "manifest.vocab_size")
    report = replace(persistent, not_checked=(NotChecked(symptom="mfu-low", missing=lacking),))
    lines = render(report, "terminal", width=width, encoding=encoding).splitlines()
    (line,) = [line for line in lines if line.startswith("Not checked")]
    assert line.startswith("Not checked  1 symptom, for lack of eval_loss")
    told = line.partition("for lack of ")[2].removesuffix("..." if encoding == "ascii" else "…")
    assert set(told.split(", ")) <= set(lacking)
    assert len(line) <= width


def test_one_of_a_kind_is_told_in_the_singular(persistent: Report):
    source = replace(persistent.history.source, records=1)
    report = replace(persistent, history=replace(persistent.history, source=source))
    assert "run.jsonl (jsonl): 1 record, steps" in render(report, "terminal")
    for name in ("markdown", "html"):
        assert "1 records" not in render(report, name)


def test_the_page_that_is_named_is_that_of_the_worst_finding(healthy: Report):
    warning = replace(healthy.diagnosis, slug="not-learning", severity=Severity.WARNING)
    report = replace(healthy, findings=(warning,))
    for name in ("terminal", "markdown", "html"):
        text = render(report, name)
        assert "stabdiag explain not-learning" in text
        assert "stabdiag explain healthy" not in text


def test_the_first_action_stands_before_the_evidence(persistent: Report):
    text = render(persistent, "terminal")
    assert text.index("FIRST ACTION") < text.index("Then") < text.index("Evidence")


def test_only_verbose_shows_the_lead_up(nan: Report):
    short, full = render(nan, "terminal"), render(nan, "terminal", verbose=True)
    assert "Of the 2 questions asked of the steps before the NaN, Q2.1 found something" in " ".join(
        short.split()
    )
    assert "At step 803" not in short
    assert "At step 803" in full


def test_only_verbose_shows_measured_numbers_and_the_question(persistent: Report):
    short, full = render(persistent, "terminal"), render(persistent, "terminal", verbose=True)
    assert "p_value 0.61" in full
    assert "p_value 0.61" not in short
    assert "Is the loss rising?" in full
    assert "--verbose" not in full


def test_a_healthy_report_is_short_and_tells_what_was_not_tested(healthy: Report):
    text = render(healthy, "terminal")
    assert len(text.splitlines()) < 30
    tested, untested = text.index("\nTested"), text.index("\nCould not be tested")
    assert tested < text.index("Q2.1") < untested < text.index("Q3.1")
    assert "Evidence" not in text


def test_a_healthy_report_that_tested_nothing_says_so(healthy: Report):
    unknown = tuple(replace(a, verdict=Verdict.UNKNOWN) for a in healthy.tree.answers)
    text = render(replace(healthy, tree=replace(healthy.tree, answers=unknown)), "terminal")
    assert "\nTested" not in text
    assert "\nCould not be tested" in text


def test_the_least_there_can_be(healthy: Report):
    history = replace(healthy.history, series={})
    log = Action(ActionKind.LOG_MORE, "Log it.")
    found = replace(healthy.diagnosis, severity=Severity.NOTE, question="", actions=(log,))
    least = replace(
        healthy,
        findings=(found,),
        tree=Tree(outcome=found, answers=()),
        not_logged=(),
        history=history,
    )
    assert "Log it." in render(least, "terminal", verbose=True)


def test_the_foot_tells_what_was_read(healthy: Report):
    source = replace(healthy.history.source, unreadable=2, attempts=3, attempt=3)
    read = replace(healthy, history=replace(healthy.history, source=source), literal=True)
    foot = " ".join(render(read, "terminal").splitlines()[-3:])
    for told in ("2 unreadable", "attempt 3 of 3", "(--literal)", "stabdiag explain healthy"):
        assert told in foot


def test_a_rich_console_prints_a_report(persistent: Report):
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(persistent)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == render(
        persistent, "terminal"
    ).splitlines()


def said(report: Report, count: int) -> Report:
    """Return the report on a log in which messages stand."""
    events = tuple(
        Event(kind=EventKind.MESSAGE, message=f"CUDA out of memory, time {n}", line=800 + n)
        for n in range(count)
    )
    return replace(report, history=replace(report.history, events=events))


def test_messages_of_the_log_are_shown_with_their_lines(report: Report):
    assert "The log says" not in render(report, "terminal")
    text = render(said(report, 2), "terminal")
    assert "The log says\n  CUDA out of memory, time 0 (line 800)\n" in text
    assert text.count("CUDA out of memory") == 2


def test_of_many_messages_the_last_are_shown(report: Report):
    text = render(said(report, 9), "terminal")
    assert "The log says  the last 5 of 9\n  CUDA out of memory, time 4 (line 804)\n" in text
    assert render(said(report, 9), "terminal", verbose=True).count("CUDA out of memory") == 9


def test_what_the_log_tells_of_the_manifest_is_said(report: Report):
    known = replace(report.manifest, total_steps=4000, seed=7, logged=("total_steps", "seed"))
    text = render(replace(report, manifest=known), "terminal", width=100)
    assert "the log tells total_steps 4000, seed 7" in text
