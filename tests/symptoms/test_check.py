"""The order of symptoms among the findings, and the reasons for skipped checks."""

import numpy as np
import pytest

import stabdiag
from stabdiag.explain import names
from stabdiag.formats import render
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.roles.table import ROLES
from stabdiag.symptoms.registry import SYMPTOMS
from stabdiag.tree.run import MESSAGE

CONSTANT = {"step": np.arange(400), "loss": np.full(400, 2.5)}


def test_symptom_slugs_are_unique_among_all_names():
    slugs = [symptom.slug for symptom in SYMPTOMS]
    assert len(set(slugs)) == len(slugs)
    documented = names(Limits())
    assert all(documented.count(slug) == 1 for slug in slugs)


def test_declared_needs_exist():
    roles = {role.name for role in ROLES} | {MESSAGE}
    fields = {f"manifest.{name}" for name in Manifest.__dataclass_fields__}
    for symptom in SYMPTOMS:
        needs = {way for need in symptom.needs for way in need.split(" or ")}
        # The recorder's columns share one role.
        assert {need.partition("recorder/")[0] or "recorder" for need in needs} <= roles | fields
        assert symptom.severity is not Severity.OK


def test_literal_mode_checks_no_symptoms():
    report = stabdiag.diagnose(CONSTANT, literal=True)
    assert not [finding for finding in report.findings if finding.section == "symptom"]
    assert report.not_checked == ()


@pytest.mark.parametrize("role", ["loss", "grad_norm"])
def test_symptoms_without_their_series_are_not_checked(role):
    report = stabdiag.diagnose({"step": np.arange(400), role: np.full(400, 2.5)})
    expected = {
        symptom.slug: tuple(need for need in symptom.needs if role not in need.split(" or "))
        for symptom in SYMPTOMS
    }
    assert {check.symptom: check.missing for check in report.not_checked if check.missing} == {
        slug: lacking for slug, lacking in expected.items() if lacking
    }


@pytest.mark.parametrize(
    ("points", "reason"),
    [(19, "needs 20 points, logged: 19 losses after the warm-up"), (60, "needs 500 steps")],
)
def test_symptoms_with_too_few_points_are_not_checked(points, reason):
    noise = np.random.default_rng(0).normal(0, 0.01, points)
    log = {"step": np.arange(points), "loss": 2.0 - np.arange(points) / points + noise}
    report = stabdiag.diagnose(log)
    reasons = {check.symptom: check.because for check in report.not_checked}
    assert reasons["plateau-at-chance"].startswith(reason)
    assert reasons["not-learning"].startswith("needs ")
    assert ("frequent-spikes" in reasons) == (points == 19)
    count = sum(not check.needs_recorder for check in report.not_checked)
    skipped = f"{count} checks skipped because eval_loss, lr " in report.diagnosis.summary
    assert skipped == (report.diagnosis.slug == "healthy")


def test_every_symptom_declares_its_preconditions():
    """Symptoms without a condition need a single point, or only the manifest."""
    facts = {
        symptom.slug
        for symptom in SYMPTOMS
        if any(need.startswith("recorder/") for need in symptom.needs)
    }
    bare = {
        symptom.slug
        for symptom in SYMPTOMS
        if not symptom.preconditions and not symptom.inconclusive_if
    } - facts
    assert bare == {"eval-nonfinite", "adam-underflow-risk"}


def test_skipped_checks_are_reported_once():
    report = stabdiag.diagnose(CONSTANT)
    assert report.not_checked
    page = render(report, "terminal")
    assert " ".join(page.split()).count("checks skipped") == 1
    verbose_page = " ".join(render(report, "terminal", verbose=True).split())
    assert all(check.because in verbose_page for check in report.not_checked)
    assert all(check.symptom in verbose_page for check in report.not_checked)


def test_symptoms_come_before_insufficient_data():
    at = np.arange(15)
    loss = 2.0 * np.exp(-at / 4) + 0.01 + np.where(at > 9, 0.2, 0.0)
    log = {"step": at, "loss": loss, "eval_loss": 2.0 + 0.1 * at}
    report = stabdiag.diagnose(log)
    slugs = [finding.slug for finding in report.findings]
    assert slugs == ["learning-not-transferring", "insufficient-data"]
    assert report.tree.outcome.slug == "insufficient-data"
    assert not report.ok


def test_a_run_that_ends_in_nan_is_not_a_stall(tmp_path):
    lines = [f"step {step} loss {2.0 - step / 100}" for step in range(40)]
    lines += ["step 40 loss nan", "Traceback (most recent call last):"]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.section == "§1"
    assert "stall" not in [finding.slug for finding in report.findings]
