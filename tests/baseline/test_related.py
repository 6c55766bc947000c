"""Findings of the run alone next to the finding of its baseline."""

from dataclasses import replace

import pytest

import stabdiag
from stabdiag.api.baselines import with_baseline
from stabdiag.model.findings import Action, ActionKind, Finding, Severity
from stabdiag.symptoms.registry import SYMPTOMS
from tests.baseline.made import run

FACT = next(symptom.slug for symptom in SYMPTOMS if symptom.is_fact)
OTHER = next(symptom.slug for symptom in SYMPTOMS if not symptom.is_fact)


def finding(slug, *, severity=Severity.WARNING, step=None):
    return Finding(
        slug=slug,
        severity=severity,
        section="symptom",
        question="",
        title=f"Title of {slug}",
        summary="",
        actions=(Action(ActionKind.CHECK_MODEL, f"Act on {slug}."),),
        step=step,
        evidence={},
    )


def compared(*findings):
    report = replace(stabdiag.diagnose(run(50, worse=1.5, since=200)), findings=findings)
    return with_baseline(report, stabdiag.baseline([run(seed) for seed in range(5)]))


def worse(report):
    return next(item for item in report.findings if item.slug == "worse-than-baseline")


def test_a_fact_comes_before_a_comparison_and_another_symptom_after_it():
    slugs = [item.slug for item in compared(finding(FACT), finding(OTHER)).findings]
    assert slugs == [FACT, "worse-than-baseline", OTHER]


def test_a_warning_of_the_whole_run_is_named_and_is_the_first_action():
    result = worse(compared(finding(OTHER)))
    assert f"In the run as a whole: Title of {OTHER} ({OTHER})." in result.summary
    assert result.actions[0].kind is ActionKind.SEE_FINDING
    assert f"Act on {OTHER}." in result.actions[0].text


@pytest.mark.parametrize("step", [190, 215])
def test_a_finding_near_the_departure_is_named(step):
    result = worse(compared(finding(OTHER, severity=Severity.NOTE, step=step)))
    assert f"Around that step: Title of {OTHER}" in result.summary


@pytest.mark.parametrize(
    "other",
    [
        finding(OTHER, step=40),  # long before
        finding(OTHER, severity=Severity.NOTE),  # a note of the whole run
    ],
)
def test_other_findings_are_not_named(other):
    result = worse(compared(other))
    assert OTHER not in result.summary
    assert result.actions[0].kind is not ActionKind.SEE_FINDING
