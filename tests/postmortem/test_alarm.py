"""When the trouble could have been known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import stabdiag
from stabdiag.findings import Severity
from stabdiag.postmortem.alarm import first_alarm
from stabdiag.postmortem.incident import incident_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.report import Report

RUNS = [
    "divergence-grad-norm-rotting-labels",
    "divergence-unexplained-data",
    "gradient-overflow-fp16",
    "loss-scale-collapsed-padding",
    "nan-activations-fp16",
    "nan-empty-mask-fp32",
    "spike-persistent-fp16",
    "spike-recovered-labels",
]


def worst_up_to(report: Report, step: int) -> Severity:
    """Return how bad the worst is that the log up to a step shows."""
    cut = report.history.before(step + 1)
    early = stabdiag.diagnose(
        replace(cut, events=()), manifest=report.manifest, limits=report.limits
    )
    return early.diagnosis.severity


@pytest.mark.parametrize("run", RUNS)
def test_the_alarm_is_at_the_first_step_at_which_a_diagnosis_finds_it(
    diagnosed: Callable[[str], Report], run: str
) -> None:
    report = diagnosed(run)
    incident = incident_of(report)
    alarm = first_alarm(report, incident)
    assert alarm is not None
    assert alarm.step >= incident.onset
    assert worst_up_to(report, alarm.step).rank <= report.diagnosis.severity.rank
    steps = report.history.series["loss"].steps
    before = steps[steps < alarm.step]
    if alarm.step > incident.onset:
        assert worst_up_to(report, int(before[-1])).rank > report.diagnosis.severity.rank


def test_a_spike_that_led_to_a_nan_is_known_before_the_nan(
    diagnosed: Callable[[str], Report],
) -> None:
    report = diagnosed("nan-activations-fp16")
    alarm = first_alarm(report, incident_of(report))
    assert alarm is not None
    assert report.diagnosis.step is not None
    assert alarm.step < report.diagnosis.step
    assert alarm.finding.slug == "spike-unresolved"


def test_a_symptom_is_found_by_its_own_check(diagnosed: Callable[[str], Report]) -> None:
    report = diagnosed("symptom-plateau-at-chance")
    assert report.diagnosis.section == "symptom"
    alarm = first_alarm(report, incident_of(report))
    assert alarm is not None
    assert alarm.finding.slug == report.diagnosis.slug
    assert alarm.step < report.history.series["loss"].steps[-1]


def test_a_log_without_a_loss_has_an_alarm_as_well() -> None:
    scale = [65536.0] * 50 + [65536.0 / 2**n for n in range(40)]
    norm = [1.0] * 50 + [float("inf")] * 40
    history = stabdiag.read(
        {"step": range(90), "loss": [1.0] * 90, "loss_scale": scale, "grad_norm": norm}
    )
    series = {role: one for role, one in history.series.items() if role != "loss"}
    full = stabdiag.diagnose(history, manifest={"dtype": "fp16"})
    found = next(f for f in full.findings if f.slug == "loss-scale-collapsed")
    report = replace(full, history=replace(history, series=series), findings=(found,))
    alarm = first_alarm(report, incident_of(report))
    assert alarm is not None
    assert 50 <= alarm.step < 89
