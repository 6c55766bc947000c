"""What holds for the report on every fixture: its length, and that its numbers agree."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.postmortem.incident import incident_of
from stabdiag.model.findings import Severity, Verdict
from tests.formats.conftest import ROOT

if TYPE_CHECKING:
    from stabdiag.api import Report

RUNS = sorted(path.name for path in (ROOT / "fixtures" / "runs").iterdir())
SCREEN, SHORT = 40, 15


@cache
def diagnosed(run: str) -> Report:
    (log,) = (ROOT / "fixtures" / "runs" / run).glob("log.*")
    return stabdiag.diagnose(str(log.relative_to(ROOT)))


@pytest.fixture(params=RUNS)
def report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report on one fixture, whose log is named from the top of the repository."""
    monkeypatch.chdir(ROOT)
    return diagnosed(request.param)


def test_it_fits_on_a_screen(report: Report):
    lines = render(report, "terminal").splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= (SHORT if report.diagnosis.severity is Severity.OK else SCREEN)


def test_it_speaks_without_the_numbers_of_sections_and_questions(report: Report):
    assert not re.search(r"§|\bQ\d\.\d|\bsection \d", render(report, "terminal"))


def test_the_dtype_is_asked_for_at_most_once(report: Report):
    text = render(report, "terminal", verbose=True)
    assert text.count("--dtype") <= 1


def test_every_step_is_one_of_the_log(report: Report):
    first, last = report.history.first_step, report.history.last_step
    assert first is not None
    assert last is not None
    steps = [found.step for found in report.findings if found.step is not None]
    steps += [step for answer in report.tree.answers for step in answer.steps]
    assert all(first <= step <= last for step in steps)


def test_the_loss_as_logged_had_recovered_where_the_report_says(report: Report):
    for answer in report.tree.answers:
        if answer.question == "Q2.2" and answer.verdict is Verdict.YES:
            onset, back = answer.steps
            bound = answer.measured["bound"]
            assert report.history.series["loss"].between(back, back).values[0] <= bound
            assert back - onset == answer.measured["recovered_after"]
            assert back - onset <= answer.measured.get(
                "recovery_steps", answer.limits["spike.recovery_steps"]
            )


def test_the_steps_of_an_incident_are_in_order(report: Report):
    one = incident_of(report)
    order = (one.last_good, one.onset, one.first_bad, one.worst, one.recovered)
    known = [step for step in order if step is not None]
    assert known == sorted(known)
    assert one.last_good is None or one.last_good < one.onset
    moments = one.timeline
    assert all(one.first <= moment.step <= one.last for moment in moments)


def test_a_title_that_speaks_of_the_end_is_at_the_end(report: Report):
    for found in report.findings:
        if re.search(r"\bend\b|broke off", found.title) and found.step is not None:
            assert found.step == report.history.last_step
