"""The terminal report: its content, and that it fits for any log."""

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from stabdiag.formats import render
from stabdiag.formats.terminal.page import Page, escape
from stabdiag.model.events import Event, EventKind
from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.report import NotChecked
from tests.formats.conftest import renamed


@pytest.mark.parametrize("name", ["loss", "x" * 300, "損失" * 60, "two words\x1b[31m\n" * 9])
@pytest.mark.parametrize(
    ("width", "encoding"), [(40, "utf-8"), (40, "ascii"), (80, "utf-8"), (140, "utf-8")]
)
def test_no_line_is_too_wide_or_ends_in_blanks(report, width, name, encoding):
    named = renamed(report, name)
    text = render(named, "terminal", width=width, verbose=True, encoding=encoding)
    assert text.isascii() or encoding == "utf-8"
    for line in text.splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_encodings_other_than_unicode_get_ascii(report):
    texts = [
        render(report, "terminal", verbose=True, encoding=encoding)
        for encoding in ("ascii", "cp1252")
    ]
    assert texts[0] == texts[1]


def test_color_does_not_change_the_text(report):
    plain = render(report, "terminal")
    colored = re.sub(r"\x1b\[[0-9;]*m", "", render(report, "terminal", color=True))
    assert colored.splitlines() == plain.splitlines()
    assert "\x1b" not in plain


def test_the_environment_is_ignored(persistent, monkeypatch):
    before = render(persistent, "terminal", color=True)
    for name, value in {"COLUMNS": "33", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert render(persistent, "terminal", color=True) == before


@pytest.mark.parametrize(
    ("slugs", "expected"),
    [
        (["eval-rising"], ["plateau"]),
        (["stall", "eval-rising"], ["eval-rising", "plateau"]),
    ],
)
def test_a_warning_leads_a_run_without_findings_of_the_tree(healthy, slugs, expected):
    note = replace(healthy.diagnosis, slug="plateau", severity=Severity.NOTE)
    act = Action(ActionKind.LOG_MORE, "Act.")
    warnings = [
        replace(
            note,
            slug=slug,
            severity=Severity.WARNING,
            title=f"On {slug}",
            summary=f"Found {slug}.",
            actions=(act,),
        )
        for slug in slugs
    ]
    text = render(replace(healthy, findings=(*warnings, note)), "terminal")
    assert text.splitlines()[0] == f"WARNING  On {slugs[0]}  [{slugs[0]}]"
    assert f"stabdiag explain {slugs[0]}" in text
    assert " ".join(f"Otherwise: {healthy.diagnosis.summary}".split()) in " ".join(text.split())
    assert "┃ FIRST ACTION\n┃ Act.\n" in text
    section = text.partition("\nAlso found")[2].partition("\n\n")[0]
    assert re.findall(r"\[(.*?)\]", section) == expected


@pytest.mark.parametrize(
    ("made", "details"),
    [
        (
            "persistent",
            ["  limits  spike.sigma 3", "p_value 0.1306", "Did the loss rise over"],
        ),
        ("nan", ["(0.023 expected by chance)"]),
    ],
)
def test_details_are_shown_only_with_verbose(request, made, details):
    report = request.getfixturevalue(made)
    short, full = render(report, "terminal"), render(report, "terminal", verbose=True)
    assert [text for text in details if text in short] == []
    assert [text for text in details if text not in full] == []
    assert "--verbose" in short
    assert "--verbose" not in full


def test_skipped_checks_are_counted_and_listed_with_verbose(persistent):
    missing = ("tokens_per_second or step_time", "manifest.vocab_size", "eval_loss", "epoch")
    skipped = NotChecked(symptom="mfu-low", missing=missing)
    report = replace(persistent, not_checked=(skipped,))
    summary = "1 check skipped because tokens_per_second, eval_loss and 2 more were not logged."
    assert summary in render(report, "terminal", width=100).splitlines()
    assert f"needs {', '.join(missing)}: mfu-low" in render(
        report, "terminal", verbose=True, width=100
    )


def test_an_open_answer_has_its_reason(healthy):
    text = " ".join(render(healthy, "terminal").split())
    assert "overflow: unknown (the dtype is not in the manifest or the log)" in text


def test_facts_about_the_log_are_in_every_page(healthy):
    manifest = replace(healthy.manifest, total_steps=4000, seed=7, logged=("total_steps", "seed"))
    source = replace(healthy.history.source, records=1, unreadable=2, attempts=3, attempt=3)
    history = replace(healthy.history, source=source)
    read = replace(healthy, history=history, literal=True, manifest=manifest)
    for name in ("terminal", "markdown"):
        text = " ".join(render(read, name, width=100).split())
        for fact in ("1 record", "2 unreadable", "attempt 3 of 3", "--literal", "seed 7"):
            assert fact in text.replace("\\_", "_")
        assert "1 records" not in text


def test_a_rich_console_prints_a_report(persistent):
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(persistent)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines == render(persistent, "terminal").splitlines()


def test_the_last_messages_are_shown_with_their_lines(report):
    assert "The log says" not in render(report, "terminal")
    events = tuple(
        Event(kind=EventKind.MESSAGE, message=f"CUDA out of memory, time {n}", line=800 + n)
        for n in range(9)
    )
    talkative = replace(report, history=replace(report.history, events=events))
    text = render(talkative, "terminal")
    assert "The log says  the last 3 of 9\n  CUDA out of memory, time 6 (line 806)\n" in text
    assert render(talkative, "terminal", verbose=True).count("CUDA out of memory") == 9


def test_cells_have_the_width_they_are_given():
    page = Page()
    assert (page.cell("abc", 5), page.cell("abcdefgh", 5)) == ("abc  ", "abcd…")
    assert cell_len(page.cell("損失損失", 5)) == 5
    assert Page(ascii=True).clip("abcdefgh", 5) == "ab..."
    assert escape("3σ → 5 × §2 損", ascii=True) == r"3sigma -> 5 x sec. 2 \u640d"
