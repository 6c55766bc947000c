"""Annotations of GitHub, and the Markdown of a comment."""

import re
from dataclasses import replace

from stabdiag.formats import render
from stabdiag.model.events import Event, EventKind
from stabdiag.model.findings import Severity

# A command for the runner: name, properties, message.
COMMAND = re.compile(r"::(?P<name>\S+) (?P<properties>.*?)::(?P<message>.*)")

# The maximum size of a comment on GitHub, in characters.
MAX_COMMENT = 65_536


def decoded(text):
    for code, char in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(code, char)
    return text


def commands(report):
    """Return the commands in a report, as parsed by the GitHub runner."""
    result = []
    for line in render(report, "github").splitlines():
        match = COMMAND.fullmatch(line)
        pairs = (part.split("=", 1) for part in match["properties"].split(","))
        properties = {name: decoded(value) for name, value in pairs}
        result.append((match["name"], properties, decoded(match["message"])))
    return result


def with_messages(report, *messages):
    events = tuple(
        Event(kind=EventKind.MESSAGE, message=message, step=812, line=900 + i)
        for i, message in enumerate(messages)
    )
    return replace(report, history=replace(report.history, events=events))


def test_each_finding_has_an_annotation(persistent, healthy):
    first, second = commands(persistent)
    title = "Loss spike that did not recover, step 4913 [spike-persistent]"
    words = persistent.diagnosis.confidence.words.capitalize()
    summary = f"{persistent.diagnosis.summary} ({words}.)"
    message = f"{summary}\nFirst action: {persistent.diagnosis.first_action}"
    assert first == ("error", {"file": "run.jsonl", "title": title}, message)
    assert second[0] == "warning"
    ((name, properties, message),) = commands(healthy)
    assert (name, properties["title"]) == ("notice", "No instability found [healthy]")
    assert message.startswith(healthy.diagnosis.summary)
    findings = tuple(replace(persistent.diagnosis, severity=severity) for severity in Severity)
    levels = [name for name, _, _ in commands(replace(persistent, findings=findings))]
    assert levels == ["error", "warning", "notice", "notice"]


def test_messages_point_at_their_lines(nan):
    report = replace(nan, findings=nan.findings[:1])
    first, limits, *messages = commands(with_messages(report, *"abcdefg"))
    assert first[1]["line"] == "900"  # the first message is from the step of the finding
    assert limits[2] == "spike.sigma is 4 (default 3)"
    pointed = [(properties["line"], message) for _, properties, message in messages]
    assert pointed == [("902", "c"), ("903", "d"), ("904", "e"), ("905", "f"), ("906", "g")]


def test_a_log_in_memory_has_no_path(persistent):
    source = replace(persistent.history.source, name="dict", format="memory")
    report = replace(persistent, history=replace(persistent.history, source=source))
    assert all("file" not in properties for _, properties, _ in commands(report))


def test_notes_on_reading_are_folded_only_if_there_are_any(healthy):
    assert "How the log was read" not in render(healthy, "markdown", command="stabdiag x")
    odd = (Event(kind=EventKind.STEPS, message="odd"),)
    report = replace(healthy, history=replace(healthy.history, events=odd))
    assert "How the log was read" in render(report, "markdown", command="stabdiag x")


def test_the_page_fits_into_a_comment(leaf):
    assert len(render(leaf, "markdown")) < MAX_COMMENT


def test_long_pages_are_cut(persistent):
    events = tuple(
        Event(kind=EventKind.REWIND, message=f"Step {n} follows step {n + 9}.") for n in range(5000)
    )
    with_many_events = replace(persistent, history=replace(persistent.history, events=events))
    assert "… and 4" in render(with_many_events, "markdown")
    loss = replace(persistent.history.series["loss"], column="x" * 100_000)
    long = replace(persistent, history=replace(persistent.history, series={"loss": loss}))
    text = render(long, "markdown")
    assert text.count("*Left out: too long for a comment.*") == 1
    assert f"> **First action:** {persistent.diagnosis.first_action}" in text
    assert max(len(text), len(render(with_many_events, "markdown"))) < MAX_COMMENT
