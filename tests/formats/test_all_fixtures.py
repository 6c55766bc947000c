"""Properties of the report on every fixture: length, steps and one diagnosis."""

import json
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.html import notebook
from stabdiag.formats.issues import GITLAB
from stabdiag.formats.postmortem import build_incident
from stabdiag.model.findings import Severity, Verdict
from tests.conftest import NAMES, ONE_EACH, diagnosed

SCREEN, SHORT = 44, 16
EVERY = pytest.mark.parametrize("run", NAMES)


@EVERY
def test_the_report_fits_on_a_screen_without_question_numbers(run):
    report = diagnosed(run)
    text = render(report, "terminal")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= (SHORT if report.diagnosis.severity is Severity.OK else SCREEN)
    assert not re.search(r"§|\bQ\d\.\d|\bsection \d", text)
    if report.manifest.dtype is None:
        assert render(report, "terminal", verbose=True).count("--dtype") <= 1


@EVERY
def test_steps_are_within_the_log_and_in_order(run):
    report = diagnosed(run)
    first, last = report.history.first_step, report.history.last_step
    steps = [finding.step for finding in report.findings if finding.step is not None]
    steps += [step for answer in report.tree.answers for step in answer.steps]
    assert all(first <= step <= last for step in steps)
    for finding in report.findings:
        if re.search(r"\bend\b|stopped early", finding.title) and finding.step is not None:
            assert finding.step == last

    for answer in report.tree.answers:
        if answer.question == "Q2.2" and answer.verdict is Verdict.YES:
            onset, back = answer.steps
            bound = answer.measured["bound"]
            assert report.history.series["loss"].between(back, back).values[0] <= bound
            assert back - onset == answer.measured["recovered_after"]
            assert back - onset <= answer.measured.get(
                "recovery_steps", answer.limits["spike.recovery_steps"]
            )

    incident = build_incident(report)
    order = (
        incident.last_good,
        incident.onset,
        incident.first_bad,
        incident.worst,
        incident.recovered,
    )
    steps_in_order = [step for step in order if step is not None]
    assert steps_in_order == sorted(steps_in_order)
    assert incident.last_good is None or incident.last_good < incident.onset
    assert all(incident.first <= moment.step <= incident.last for moment in incident.timeline)


@pytest.mark.parametrize("run", ONE_EACH)
def test_all_formats_lead_with_the_diagnosis(run):
    report = diagnosed(run)
    diagnosis = report.diagnosis
    slug, severity = diagnosis.slug, diagnosis.severity.value
    assert diagnosis is report.findings[0]
    assert diagnosis.severity.rank == min(item.severity.rank for item in report.findings)
    assert f"{severity}, {slug}" in repr(report)

    head = " ".join(render(report, "terminal").partition("\n\n")[0].split())
    assert (head.partition(" ")[0].lower(), head.split()[-1]) == (severity, f"[{slug}]")
    document = json.loads(render(report, "json"))
    for entry in (document["diagnosis"], document["findings"][0]):
        assert (entry["slug"], entry["severity"]) == (slug, severity)
    assert f"**{severity}** · `{slug}`" in render(report, "markdown").splitlines()[4]
    for page in (render(report, "html"), notebook(report)):
        badges = re.search(r'class="badge[^>]*>(\w+)</span>.*?<code>(.*?)</code>', page, re.DOTALL)
        assert badges.groups() == (severity, slug)
    picture = render(report, "svg").replace("&#160;", " ")
    assert f">{diagnosis.title}" in picture or slug in picture
    properties = {
        item.get("name"): item.get("value")
        for item in ET.fromstring(render(report, "junit")).iter("property")
    }
    assert (properties["diagnosis"], properties["severity"]) == (slug, severity)
    first = render(report, "github").splitlines()[0]
    level = {"note": "notice", "ok": "notice"}.get(severity, severity)
    assert first.startswith(f"::{level} ")
    assert f"[{slug}]::" in first

    lines = render(report, "lines").splitlines()
    results = json.loads(render(report, "sarif"))["runs"][0]["results"]
    issues = json.loads(render(report, "gitlab"))
    if diagnosis.severity is Severity.OK:
        assert [lines, results, issues] == [[], [], []]
    else:
        assert f": {severity}: " in lines[0]
        assert lines[0].endswith(f"[{slug}]")
        assert (results[0]["ruleId"], results[0]["level"]) == (slug, severity)
        entry = (issues[0]["check_name"], issues[0]["severity"])
        assert entry == (slug, GITLAB[diagnosis.severity])


@EVERY
def test_a_healthy_run_was_tested(run):
    report = diagnosed(run)
    unknown = {answer.question for answer in report.tree.answers if answer.verdict == "unknown"}
    quiet = report.diagnosis.severity.rank >= Severity.NOTE.rank
    assert report.ok == (quiet and not unknown & {"Q1.1", "Q2.1", "Q4.1"})
    assert not (report.ok and report.tree.outcome.slug == "insufficient-data")
    if report.diagnosis.slug == "healthy":
        assert report.tree.outcome is report.diagnosis
        assert len(report.findings) == 1
        text = f"{report.diagnosis.summary} {report.diagnosis.first_action}".lower()
        assert not re.search("nothing (wrong|urgent|needs|to be done|has to be)", text)


@pytest.fixture
def stuck():
    """A run at the level of guessing, with a spike that the tree finds."""
    loss = math.log(10) + 0.003 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    return stabdiag.diagnose({"step": np.arange(800), "loss": loss})


def test_an_error_of_a_symptom_precedes_a_warning_of_the_tree(stuck):
    assert [finding.slug for finding in stuck.findings] == ["plateau-at-chance", "spike-recovered"]
    assert stuck.tree.outcome.slug == "spike-recovered"


def test_findings_of_the_tree_precede_equally_severe_symptoms():
    loss = 3.0 + 0.02 * np.random.default_rng(0).standard_normal(800)
    loss[400:404] += 1.5
    report = stabdiag.diagnose({"step": np.arange(800), "loss": loss})
    assert {finding.severity.value for finding in report.findings} == {"warning"}
    sections = [finding.section for finding in report.findings]
    assert sections == sorted(sections, key=lambda section: section == "symptom")
    assert sections[0] == "§2"
