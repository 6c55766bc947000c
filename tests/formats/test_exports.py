"""SARIF, JUnit and GitLab code quality: their content, and validity in their schemas."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import quote

import jsonschema
import pytest

from stabdiag.formats import render
from stabdiag.formats.issues import GITLAB, fingerprints, log_path
from stabdiag.model.events import Event, EventKind
from stabdiag.model.findings import Severity, Verdict
from stabdiag.model.history import Part
from tests.formats.conftest import renamed

SCHEMAS = Path(__file__).parents[1] / "schemas"


@cache
def sarif_schema():
    content = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(content, format_checker=jsonschema.FormatChecker())


@cache
def gitlab_schema():
    content = json.loads((SCHEMAS / "gitlab-code-quality.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@cache
def junit_schema():
    import xmlschema

    return xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


def sarif(report):
    log = json.loads(render(report, "sarif"))
    sarif_schema().validate(log)
    (run,) = log["runs"]
    return run


def gitlab(report):
    issues = json.loads(render(report, "gitlab"))
    levels = [GITLAB[finding.severity] for finding in report.findings if finding.severity in GITLAB]
    assert [issue["severity"] for issue in issues] == levels
    gitlab_schema().validate(issues)
    return issues


def junit(report, fail_on="error"):
    text = render(report, "junit", fail_on=fail_on)
    junit_schema().validate(text)
    suites = ET.fromstring(text)
    for suite in (suites, *suites):
        cases = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(sum(case.find("failure") is not None for case in cases))
    (suite,) = suites
    return suite


def failed(suite):
    return [failure.get("type") for failure in suite.iter("failure")]


def placed(report, name, format_name="jsonl"):
    source = replace(report.history.source, name=name, format=format_name)
    return replace(report, history=replace(report.history, source=source))


def test_every_leaf_is_valid_in_every_schema(leaf):
    run, issues, suite = sarif(leaf), gitlab(leaf), junit(leaf)
    bad = [f.slug for f in leaf.findings if f.severity is not Severity.OK]
    assert [result["ruleId"] for result in run["results"]] == bad
    assert [issue["check_name"] for issue in issues] == bad
    errors = [f.slug for f in leaf.findings if f.severity is Severity.ERROR]
    assert sorted(map(str, failed(suite))) == sorted(errors)


@pytest.mark.parametrize(
    "name", ["<b>&\"'", "\x00\x1b[31m\ufffe\udcff", "a\nb", "]]>", "a b%20c#?.jsonl", "[x](y)"]
)
@pytest.mark.parametrize("made", ["persistent", "nan"])
def test_hostile_reports_are_valid(request, made, name):
    report = renamed(request.getfixturevalue(made), name)
    sarif(report)
    gitlab(report)
    junit(report)


def test_sarif_has_the_explanation_and_the_evidence(persistent, nan):
    changed = replace(persistent, limits=persistent.limits.override({"spike.recovery_steps": 77}))
    run = sarif(changed)
    first, second = run["tool"]["driver"]["rules"]
    assert [first["id"], second["id"]] == ["spike-persistent", "gradient-overflow"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 1]
    levels = [rule["defaultConfiguration"]["level"] for rule in (first, second)]
    assert levels == ["error", "warning"]
    markdown, text = first["help"]["markdown"], first["help"]["text"]
    assert "## What to do" in markdown
    assert "77" in markdown  # the limit in force
    assert not re.search(r"[#`{}]", text)
    assert first["fullDescription"]["text"] in text.replace("\n", " ")
    diagnosis = replace(nan.diagnosis, evidence={"first_bad": 812, "last": float("nan")})
    (result,) = sarif(replace(nan, findings=(diagnosis,)))["results"]
    properties = result["properties"]
    assert properties["evidence"] == {"first_bad": 812, "last": "NaN"}
    assert properties["next_actions"] == list(nan.diagnosis.next_actions)
    assert nan.diagnosis.first_action in result["message"]["text"]


def test_a_question_without_an_answer_is_a_note_and_no_test(healthy):
    report = replace(healthy, not_checked=())
    run, suite = sarif(report), junit(report)
    assert run["results"] == []
    (because,) = (
        answer.because for answer in healthy.tree.answers if answer.verdict is Verdict.UNKNOWN
    )
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["descriptor"]["id"] == "Q3.1"
    assert because in note["message"]["text"]
    assert list(suite.iter("skipped")) == []
    unanswered = {item.get("name"): item.get("value") for item in suite.iter("property")}
    assert unanswered["unanswered"] == "Q3.1"
    assert not any(case.get("name", "").startswith("Q3.1") for case in suite.iter("testcase"))
    assert gitlab(healthy) == []


def test_fingerprints_are_equal_for_a_repeated_run(persistent):
    first, second = fingerprints(persistent)
    repeated = tuple(
        replace(f, step=f.step + 7, summary="other") for f in persistent.findings if f.step
    )
    assert fingerprints(replace(persistent, findings=repeated)) == [first, second]
    assert first != second
    assert fingerprints(placed(persistent, "./run.jsonl")) == [first, second]
    assert set(fingerprints(placed(persistent, "other.jsonl"))).isdisjoint({first, second})
    twice = replace(persistent, findings=(*persistent.findings, persistent.findings[0]))
    assert len(set(fingerprints(twice))) == 3
    assert [issue["fingerprint"] for issue in gitlab(persistent)] == [first, second]
    results = sarif(persistent)["results"]
    assert [r["partialFingerprints"]["primaryLocationLineHash"] for r in results] == [
        f"{first}:1",
        f"{second}:1",
    ]


def test_each_finding_points_at_its_own_file(persistent):
    first, second = (finding.step for finding in persistent.findings[:2])
    early, late = sorted((first, second))
    parts = (
        Part(path="./a/log.jsonl", first=0, last=early),
        Part(path="./b/log.jsonl", first=early + 1, last=late),
    )
    history = persistent.history
    source = replace(history.source, name="./a/log.jsonl and 1 more", parts=parts)
    events = tuple(
        Event(kind=EventKind.MESSAGE, message="x", step=early, line=line, path=path)
        for line, path in ((7, "./b/log.jsonl"), (9, "./a/log.jsonl"))
    )
    history = replace(history, source=source, events=events)
    report = replace(persistent, history=history, findings=persistent.findings[:2])
    locations = {early: ("a/log.jsonl", 9), late: ("b/log.jsonl", 1)}
    expected = [locations[step] for step in (first, second)]
    issues = [item["location"] for item in gitlab(report)]
    assert [(item["path"], item["lines"]["begin"]) for item in issues] == expected
    located = [item["locations"][0]["physicalLocation"] for item in sarif(report)["results"]]
    assert [
        (item["artifactLocation"]["uri"], item["region"]["startLine"]) for item in located
    ] == expected
    lines = render(report, "lines").splitlines()[::2]
    assert [line.split(":")[0] for line in lines] == [path for path, _ in expected]
    orders = render(report, "github").splitlines()
    assert [order.partition("file=")[2].partition(",")[0] for order in orders] == [
        *(path for path, _ in expected),
        "b/log.jsonl",
        "a/log.jsonl",
    ]


@pytest.mark.parametrize(
    ("name", "format_name", "path"),
    [
        ("runs/a.jsonl", "jsonl", "runs/a.jsonl"),
        ("./a.jsonl", "jsonl", "a.jsonl"),
        ("a.out and 2 more", "text", "a.out and 2 more"),
        ("runs\\a.jsonl", "jsonl", "runs/a.jsonl"),
        ("a b/ü#1?.jsonl", "jsonl", "a b/ü#1?.jsonl"),
        ("standard input", "jsonl", None),
        ("DataFrame", "memory", None),
    ],
)
def test_the_path_of_the_log_is_relative_or_missing(persistent, name, format_name, path):
    report = placed(persistent, name, format_name)
    assert log_path(report.history.source) == path
    for result in sarif(report)["results"]:
        places = [place["physicalLocation"] for place in result["locations"]]
        uris = [quote(path)] if path else []
        assert [place["artifactLocation"]["uri"] for place in places] == uris
    assert gitlab(report)[0]["location"]["path"] == path or name


@pytest.mark.parametrize(
    ("fail_on", "slugs"),
    [
        ("error", ["spike-persistent"]),
        ("warning", ["spike-persistent", "gradient-overflow"]),
        ("never", []),
    ],
)
def test_junit_fails_for_the_same_findings_as_the_command(persistent, fail_on, slugs):
    suite = junit(persistent, fail_on)
    assert failed(suite) == slugs
    out = "\n".join(element.text or "" for element in suite.iter("system-out"))
    for finding in persistent.findings:
        assert (finding.summary in out) == (finding.slug not in slugs)
    for failure, finding in zip(suite.iter("failure"), persistent.findings, strict=False):
        assert failure.get("message") == finding.headline
        actions = (finding.first_action, *finding.next_actions)
        assert (failure.text or "").splitlines()[3:] == [
            f"{i}. {action}" for i, action in enumerate(actions, start=1)
        ]
