"""GitHub's annotations, and the Markdown of a comment."""

import re
from dataclasses import replace

from stabdiag.formats import render
from stabdiag.model.findings import Severity
from stabdiag.model.history import Event, EventKind

# What a runner reads out of an order: name, properties, message.
ORDER = re.compile(r"::(?P<name>\S+) (?P<properties>.*?)::(?P<message>.*)")

# The size that GitHub takes of a comment, in characters.
COMMENT = 65_536


def decoded(text):
    for code, char in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(code, char)
    return text


def orders(report):
    """Return the orders for a report as GitHub's runner reads them."""
    read = []
    for line in render(report, "github").splitlines():
        order = ORDER.fullmatch(line)
        pairs = (part.split("=", 1) for part in order["properties"].split(","))
        told = {name: decoded(value) for name, value in pairs}
        read.append((order["name"], told, decoded(order["message"])))
    return read


def said(report, *messages):
    events = tuple(
        Event(kind=EventKind.MESSAGE, message=message, step=812, line=900 + i)
        for i, message in enumerate(messages)
    )
    return replace(report, history=replace(report.history, events=events))


def test_an_annotation_for_each_finding(persistent, healthy):
    first, second = orders(persistent)
    title = "Loss spike that did not recover, step 4913 [spike-persistent]"
    words = persistent.diagnosis.confidence.words.capitalize()
    sure = f"{persistent.diagnosis.summary} ({words}.)"
    told = f"{sure}\nFirst action: {persistent.diagnosis.first_action}"
    assert first == ("error", {"file": "run.jsonl", "title": title}, told)
    assert second[0] == "warning"
    ((name, properties, message),) = orders(healthy)
    assert (name, properties["title"]) == ("notice", "No instability found [healthy]")
    assert message.startswith(healthy.diagnosis.summary)
    found = tuple(replace(persistent.diagnosis, severity=severity) for severity in Severity)
    levels = [name for name, _, _ in orders(replace(persistent, findings=found))]
    assert levels == ["error", "warning", "notice", "notice"]


def test_what_the_log_says_points_at_its_line(nan):
    one = replace(nan, findings=nan.findings[:1])
    first, limits, *rest = orders(said(one, *"abcdefg"))
    assert first[1]["line"] == "900"  # the first of them is from the step of the finding
    assert limits[2] == "spike.sigma is 4 (default 3)"
    pointed = [(told["line"], message) for _, told, message in rest]
    assert pointed == [("902", "c"), ("903", "d"), ("904", "e"), ("905", "f"), ("906", "g")]


def test_a_log_that_is_no_file_is_not_pointed_at(persistent):
    source = replace(persistent.history.source, name="dict", format="memory")
    report = replace(persistent, history=replace(persistent.history, source=source))
    assert all("file" not in told for _, told, _ in orders(report))


def test_nothing_is_folded_of_a_log_that_was_read_as_it_is(healthy):
    assert "How the log was read" not in render(healthy, "markdown", command="stabdiag x")
    odd = (Event(kind=EventKind.STEPS, message="odd"),)
    report = replace(healthy, history=replace(healthy.history, events=odd))
    assert "How the log was read" in render(report, "markdown", command="stabdiag x")


def test_a_page_on_a_run_is_of_a_size_that_github_takes(leaf):
    assert len(render(leaf, "markdown")) < COMMENT


def test_pages_are_cut_to_a_size_that_github_takes(persistent):
    events = tuple(
        Event(kind=EventKind.REWIND, message=f"Step {n} follows step {n + 9}.") for n in range(5000)
    )
    many = replace(persistent, history=replace(persistent.history, events=events))
    assert "… and 4" in render(many, "markdown")
    loss = replace(persistent.history.series["loss"], column="x" * 100_000)
    long = replace(persistent, history=replace(persistent.history, series={"loss": loss}))
    text = render(long, "markdown")
    assert text.count("*Left out: too long for a comment.*") == 1
    assert f"> **First action:** {persistent.diagnosis.first_action}" in text
    assert max(len(text), len(render(many, "markdown"))) < COMMENT
