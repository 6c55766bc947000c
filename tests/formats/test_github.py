"""GitHub's annotations and the summary of a job, and the Markdown of a comment."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from markdown_it import MarkdownIt

from stabdiag.formats import render
from stabdiag.formats.github import chart, summary
from stabdiag.formats.markdown import MARK
from stabdiag.formats.subject import Plot
from stabdiag.model.findings import Severity
from stabdiag.model.history import Event, EventKind, Series
from stabdiag.model.report import Tree

if TYPE_CHECKING:
    from stabdiag.model.report import Report

# What a runner reads out of an order: name, properties, message.
ORDER = re.compile(r"::(?P<name>\S+) (?P<properties>.*?)::(?P<message>.*)")

# The sizes that GitHub takes: of a comment in characters, of a summary in bytes.
COMMENT, SUMMARY = 65_536, 1024 * 1024


def decoded(text: str) -> str:
    for code, char in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(code, char)
    return text


def orders(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Return the orders in a text as GitHub's runner reads them."""
    read = []
    for line in text.splitlines():
        order = ORDER.fullmatch(line)
        assert order is not None
        pairs = (part.split("=", 1) for part in order["properties"].split(","))
        told = {name: decoded(value) for name, value in pairs}
        read.append((order["name"], told, decoded(order["message"])))
    return read


def said(report: Report, *messages: str) -> Report:
    events = tuple(
        Event(kind=EventKind.MESSAGE, message=message, step=812, line=900 + i)
        for i, message in enumerate(messages)
    )
    return replace(report, history=replace(report.history, events=events))


def test_an_annotation_for_each_finding(persistent: Report):
    first, second = orders(render(persistent, "github"))
    assert first == (
        "error",
        {
            "file": "run.jsonl",
            "title": "Loss spike that did not recover, step 4913 [spike-persistent]",
        },
        f"{persistent.diagnosis.summary}\nFirst action: {persistent.diagnosis.first_action}",
    )
    assert second[0] == "warning"


def test_a_healthy_run_is_told_as_well(healthy: Report):
    ((name, told, message),) = orders(render(healthy, "github"))
    assert (name, told["title"]) == ("notice", "No instability found [healthy]")
    assert message == healthy.diagnosis.summary


def test_every_severity_has_a_level(persistent: Report):
    found = [replace(persistent.diagnosis, severity=severity) for severity in Severity]
    text = render(replace(persistent, findings=tuple(found)), "github")
    assert [name for name, _, _ in orders(text)] == ["error", "warning", "notice", "notice"]


def test_what_the_log_says_points_at_its_line(nan: Report):
    first, limits, *rest = orders(render(said(nan, *"abcdefg"), "github"))
    assert first[1]["line"] == "900"  # the first of them is from the step of the finding
    assert limits[2] == "spike.sigma is 4 (default 3)"
    assert [(told["line"], message) for _, told, message in rest] == [
        ("902", "c"),
        ("903", "d"),
        ("904", "e"),
        ("905", "f"),
        ("906", "g"),
    ]


def test_nothing_is_lost_in_an_annotation(persistent: Report):
    odd = "100%, a:b::c %0A %25 [x]"
    found = replace(persistent.diagnosis, title=odd, summary=odd)
    ((_, told, message), _) = orders(
        render(replace(persistent, findings=(found, *persistent.findings[1:])), "github")
    )
    assert told["title"].startswith(odd)
    assert message.startswith(odd)


def test_a_log_that_is_no_file_is_not_pointed_at(persistent: Report):
    source = replace(persistent.history.source, name="dict", format="memory")
    report = replace(persistent, history=replace(persistent.history, source=source))
    assert all("file" not in told for _, told, _ in orders(render(report, "github")))


def folds(text: str) -> str:
    """Return what stands in the open."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def test_what_is_wrong_and_what_to_do_stands_first(persistent: Report):
    text = render(persistent, "markdown")
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == MARK
    assert lines[1] == "### ❌ Loss spike that did not recover, step 4913"
    assert lines[3] == persistent.diagnosis.summary
    assert lines[4] == f"> **First action:** {persistent.diagnosis.first_action}"
    opened = folds(text)
    assert opened.index("Then:") < opened.index("**Also found**") < opened.index("**Evidence**")
    assert "stabdiag explain spike-persistent\n" in opened


def test_how_it_was_found_is_folded_away(persistent: Report):
    text = render(persistent, "markdown")
    assert text.count("<details>") == text.count("</details>") == 4
    for answer in persistent.tree.answers:
        assert f"| {answer.question} |" in text
        assert f"| {answer.question} |" not in folds(text)
    assert "6 questions were asked: 1 yes, 3 no, 1 found, 1 unknown" in text


def test_what_could_not_be_tested_is_in_the_open_where_nothing_was_found(healthy: Report):
    opened = folds(render(healthy, "markdown"))
    assert "- Q3.1: The manifest does not tell the dtype." in opened
    assert "**Evidence**" not in opened


def test_the_headline_does_not_hide_what_else_was_found(healthy: Report, persistent: Report):
    beside = (replace(persistent.findings[1], severity=Severity.WARNING),) * 2
    text = render(replace(healthy, findings=beside), "markdown")
    assert f"### ⚠️ {beside[0].title}, step {beside[0].step}\n" in text
    assert f"Otherwise: {healthy.diagnosis.summary}" in text


def test_the_command_and_the_foot_tell_which_report_this_is(persistent: Report):
    source = replace(persistent.history.source, attempts=3, attempt=2)
    history = replace(persistent.history, source=source)
    text = render(
        replace(persistent, history=history, literal=True), "markdown", command="stabdiag x 'a b'"
    )
    assert "```sh\nstabdiag x 'a b'\nstabdiag explain spike-persistent\n```" in text
    foot = text.splitlines()[-1]
    assert "attempt 2 of 3" in foot
    assert "the tree to the letter" in foot


def test_the_log_s_own_words_are_code(nan: Report):
    text = folds(render(said(nan, "CUDA *out* of memory"), "markdown"))
    assert "- `CUDA *out* of memory` (line 900)" in text


def test_the_chart_has_a_row_for_each_series(nan: Report):
    found = re.search(r"```text\n(.*?)```", render(nan, "markdown"), re.DOTALL)
    assert found is not None
    rows = found.group(1).splitlines()
    assert [row.split()[0] for row in rows] == ["loss", "grad_norm", "loss_scale", "step"]
    assert "×" in rows[0]
    assert "▲ 812" in rows[-1]
    assert rows[-1].index("▲") == rows[0].index("×")


def test_pages_are_of_a_size_that_github_takes(persistent: Report, leaf: Report):
    events = tuple(
        Event(kind=EventKind.REWIND, message=f"Step {n} follows step {n + 9}.") for n in range(5000)
    )
    long = replace(persistent, history=replace(persistent.history, events=events))
    for report in (long, leaf):
        assert len(render(report, "markdown")) < COMMENT
        assert len(summary(report).encode()) < SUMMARY
    assert "… and 4" in render(long, "markdown")


def test_what_is_too_long_for_a_comment_is_left_out(persistent: Report):
    loss = replace(persistent.history.series["loss"], column="x" * 100_000)
    long = replace(persistent, history=replace(persistent.history, series={"loss": loss}))
    text = render(long, "markdown")
    assert len(text) < COMMENT
    assert text.count("*Left out here: too long for a comment.*") == 1
    assert f"> **First action:** {persistent.diagnosis.first_action}" in text


def test_the_least_there_can_be(healthy: Report):
    source = replace(healthy.history.source, unreadable=2)
    history = replace(healthy.history, series={}, source=source)
    found = replace(healthy.diagnosis, section="§4", severity=Severity.NOTE)
    least = replace(
        healthy,
        findings=(found,),
        tree=Tree(outcome=found, answers=()),
        not_logged=(),
        history=history,
    )
    for text in (render(least, "markdown"), summary(least)):
        assert "**Evidence**" not in text
        assert "questions were asked" not in text
        assert text.splitlines()[-1].endswith("2 lines could not be read</sub>")


def test_tables_are_tables(leaf: Report):
    reader = MarkdownIt("commonmark").enable("table")
    rows = [
        line
        for line in render(leaf, "markdown").splitlines()
        if line.startswith("|") and "---" not in line
    ]
    tokens = reader.parse(render(leaf, "markdown"))
    assert sum(token.type == "tr_open" for token in tokens) == len(rows)


def drawn(values: list[float], *, event: int | None = None) -> tuple[str, list[list[float]]]:
    """Return a chart, and its lines as Mermaid's grammar reads them: digits, no exponents."""
    steps = np.arange(len(values), dtype=np.int64)
    series = Series(role="loss", column="loss", steps=steps, values=np.array(values))
    plot = Plot(series=series, companions=(), first=0, last=len(values) - 1, event=event)
    text = chart(plot)
    lines = re.findall(r"^    line \[(.*)\]$", text, re.MULTILINE)
    number = re.compile(r"[+-]?\d+(\.\d+)?")
    for axis in re.findall(r"-axis \"[^\"]*\" (\S+) --> (\S+)$", text, re.MULTILINE):
        assert all(number.fullmatch(end) for end in axis)
    for line in lines:
        assert all(number.fullmatch(value) for value in line.split(", "))
    return text, [[float(value) for value in line.split(", ")] for line in lines]


def test_the_drawn_chart_shows_a_spike_of_one_step():
    values = [1.0] * 5000
    values[2500] = 9.0
    text, (extremes, means) = drawn(values, event=2500)
    assert max(extremes) == 9.0
    assert max(means) < 1.2
    assert "found at 2500" in text


def test_the_drawn_chart_ends_where_the_loss_does():
    text, (extremes, _) = drawn([3.0, 2.0, 1.0, np.nan, np.inf], event=3)
    assert 'x-axis "step" 0 --> 2' in text
    assert "steps 0 to 2, not finite from there on" in text
    assert extremes[-1] == 1.0


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([1.0, 1000.0], "loss (log10)"),
        ([-1.7e308, 1.7e308], "loss (1e308)"),
        ([0.0, 2e-7], "loss (1e-7)"),
        ([0.0, 0.0], "loss"),
        ([5e-324, 1.7e308], "loss (log10)"),
        ([1.0, 2.0], "loss"),
    ],
)
def test_any_values_can_be_drawn(values: list[float], unit: str):
    text, lines = drawn(values)
    assert f'y-axis "{unit}" ' in text
    assert [len(line) for line in lines] == [120, 120]


def test_a_summary_has_the_drawn_chart_and_a_comment_has_bars(persistent: Report):
    assert "```mermaid" in summary(persistent)
    assert "```mermaid" not in render(persistent, "markdown")
    bare = re.sub(r"```mermaid.*?```|```text.*?```", "", summary(persistent), flags=re.DOTALL)
    plain = re.sub(r"```text.*?```", "", render(persistent, "markdown"), flags=re.DOTALL)
    assert bare == plain
