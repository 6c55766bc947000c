"""One diagnosis: the worst finding of the tree and the symptoms, whoever tells of it."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.html import notebook
from stabdiag.formats.issues import GITLAB
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from stabdiag.model.report import Report

RUNS = Path(__file__).parents[2] / "fixtures" / "runs"
NAMES = sorted(folder.name for folder in RUNS.iterdir())
BELOW = (Severity.NOTE, Severity.OK)


def log_of(run: str) -> Path:
    (log,) = (RUNS / run).glob("log.*")
    return log


@cache
def report_of(run: str) -> Report:
    return stabdiag.diagnose(log_of(run))


@pytest.mark.parametrize("run", NAMES)
def test_all_formats_lead_with_the_diagnosis(run: str) -> None:
    report = report_of(run)
    found = report.diagnosis
    slug, severity = found.slug, found.severity.value
    assert found is report.findings[0]
    assert found.severity.rank == min(one.severity.rank for one in report.findings)
    assert f"{severity}, {slug}" in repr(report)

    head = " ".join(render(report, "terminal").partition("\n\n")[0].split())
    assert (head.partition(" ")[0].lower(), head.split()[-1]) == (severity, f"[{slug}]")
    document = json.loads(render(report, "json"))
    for told in (document["diagnosis"], document["findings"][0]):
        assert (told["slug"], told["severity"]) == (slug, severity)
    assert f"**{severity}** · `{slug}`" in render(report, "markdown").splitlines()[4]
    for page in (render(report, "html"), notebook(report)):
        badges = re.search(r'class="badge[^>]*>(\w+)</span>.*?<code>(.*?)</code>', page, re.DOTALL)
        assert badges is not None
        assert badges.groups() == (severity, slug)
    assert f">{found.title}" in render(report, "svg").replace("&#160;", " ") or slug in render(
        report, "svg"
    )
    properties = {
        one.get("name"): one.get("value")
        for one in ET.fromstring(render(report, "junit")).iter("property")
    }
    assert (properties["diagnosis"], properties["severity"]) == (slug, severity)
    first = render(report, "github").splitlines()[0]
    level = {"note": "notice", "ok": "notice"}.get(severity, severity)
    assert first.startswith(f"::{level} ")
    assert f"[{slug}]::" in first

    lines = render(report, "lines").splitlines()
    results = json.loads(render(report, "sarif"))["runs"][0]["results"]
    issues = json.loads(render(report, "gitlab"))
    if found.severity is Severity.OK:
        assert [lines, results, issues] == [[], [], []]
    else:
        assert f": {severity}: " in lines[0]
        assert lines[0].endswith(f"[{slug}]")
        assert (results[0]["ruleId"], results[0]["level"]) == (slug, severity)
        told = (issues[0]["check_name"], issues[0]["severity"])
        assert told == (slug, GITLAB[found.severity])


@pytest.mark.parametrize("run", NAMES)
def test_what_is_ok_does_not_fail_and_was_tested(run: str) -> None:
    report = report_of(run)
    assert report.ok == (
        report.diagnosis.severity in BELOW and report.tree.outcome.slug != "insufficient-data"
    )
    unknown = {one.question for one in report.tree.answers if one.verdict == "unknown"}
    assert not (report.ok and unknown & {"Q1.1", "Q2.1", "Q4.1"})
    if report.diagnosis.slug == "healthy":
        assert report.tree.outcome is report.diagnosis
        assert len(report.findings) == 1
        told = f"{report.diagnosis.summary} {report.diagnosis.first_action}".lower()
        assert not re.search("nothing (wrong|urgent|needs|to be done|has to be)", told)


@pytest.fixture
def shell(request: pytest.FixtureRequest) -> Any:
    """Run a command line."""
    return request.getfixturevalue("stabdiag")


@pytest.mark.parametrize("fail_on", [Severity.ERROR, Severity.WARNING])
def test_commands_end_by_the_severity_of_the_diagnosis(fail_on: Severity, shell: Any) -> None:
    """One run of each diagnosis will do; its exit code is that of all of its kind."""
    runs = {report_of(run).diagnosis.slug: run for run in NAMES}
    for slug, run in runs.items():
        severity = report_of(run).diagnosis.severity
        expected = int(severity.rank <= fail_on.rank)
        for command in ("diagnose", "check"):
            done = shell(command, log_of(run), "--fail-on", fail_on.value)
            assert done.code == expected, (command, slug)
            assert f"[{slug}]" in done.out or severity is Severity.OK


@pytest.fixture
def stuck() -> Report:
    """A run that never left chance, with a spike that the tree finds."""
    loss = math.log(10) + 0.003 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    return stabdiag.diagnose({"step": np.arange(800), "loss": loss})


def test_an_error_beside_the_tree_goes_before_its_warning(stuck: Report) -> None:
    assert [one.slug for one in stuck.findings] == ["plateau-at-chance", "spike-recovered"]
    assert stuck.tree.outcome.slug == "spike-recovered"


def test_of_equally_bad_findings_those_of_the_tree_go_first() -> None:
    loss = 3.0 + 0.02 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    report = stabdiag.diagnose({"step": np.arange(800), "loss": loss})
    assert {one.severity.value for one in report.findings} == {"warning"}
    sections = [one.section for one in report.findings]
    assert sections == sorted(sections, key=lambda one: one == "symptom")
    assert sections[0] == "§2"
