"""Where symptoms stand among the findings, and what is told of those that were not checked."""

import numpy as np
import pytest

import stabdiag
from stabdiag.explain import names
from stabdiag.formats import render
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.roles.table import ROLES
from stabdiag.symptoms import SYMPTOMS
from stabdiag.symptoms.symptom import MESSAGE

CONSTANT = {"step": np.arange(400), "loss": np.full(400, 2.5)}


def test_slugs_are_unique_and_belong_to_nothing_else():
    slugs = [symptom.slug for symptom in SYMPTOMS]
    assert len(set(slugs)) == len(slugs)
    known = names(Limits())
    assert all(known.count(slug) == 1 for slug in slugs)


def test_declarations_name_what_there_is():
    roles = {role.name for role in ROLES} | {MESSAGE}
    fields = {f"manifest.{name}" for name in Manifest.__dataclass_fields__}
    for symptom in SYMPTOMS:
        needs = {way for need in symptom.needs for way in need.split(" or ")}
        # What the recorder writes is one role with many columns.
        assert {need.partition("recorder/")[0] or "recorder" for need in needs} <= roles | fields
        assert symptom.severity is not Severity.OK


def test_the_letter_of_the_tree_knows_no_symptoms():
    report = stabdiag.diagnose(CONSTANT, literal=True)
    assert not [finding for finding in report.findings if finding.section == "symptom"]
    assert report.not_checked == ()


@pytest.mark.parametrize("role", ["loss", "grad_norm"])
def test_what_was_not_logged_is_not_checked(role):
    report = stabdiag.diagnose({"step": np.arange(400), role: np.full(400, 2.5)})
    wanted = {
        one.slug: tuple(need for need in one.needs if role not in need.split(" or "))
        for one in SYMPTOMS
    }
    assert {one.symptom: one.missing for one in report.not_checked if one.missing} == {
        slug: lacking for slug, lacking in wanted.items() if lacking
    }


@pytest.mark.parametrize(
    ("points", "told"),
    [(19, "needs 20 points, logged: 19 losses after the warm-up"), (60, "needs 500 steps")],
)
def test_what_was_logged_too_seldom_is_not_checked_either(points, told):
    noise = np.random.default_rng(0).normal(0, 0.01, points)
    log = {"step": np.arange(points), "loss": 2.0 - np.arange(points) / points + noise}
    report = stabdiag.diagnose(log)
    reasons = {one.symptom: one.because for one in report.not_checked}
    assert reasons["plateau-at-chance"].startswith(told)
    assert reasons["not-learning"].startswith("needs ")
    assert ("frequent-spikes" in reasons) == (points == 19)
    skipped = f"{len(reasons)} checks skipped: eval_loss, lr " in report.diagnosis.summary
    assert skipped == (report.diagnosis.slug == "healthy")


def test_every_symptom_says_when_there_is_too_little_to_go_by():
    """Those that have no condition here judge by a single point, or by the manifest alone."""
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


def test_what_was_not_checked_is_told_once():
    report = stabdiag.diagnose(CONSTANT)
    assert report.not_checked
    page = render(report, "terminal")
    assert " ".join(page.split()).count("checks skipped") == 1
    whole = " ".join(render(report, "terminal", verbose=True).split())
    assert all(one.because in whole for one in report.not_checked)
    assert all(one.symptom in whole for one in report.not_checked)


def test_a_symptom_goes_before_letting_a_short_run_go_on():
    at = np.arange(15)
    log = {"step": at, "loss": 2.0 * np.exp(-at / 4) + 0.01, "eval_loss": 2.0 + 0.1 * at}
    report = stabdiag.diagnose(log)
    slugs = [finding.slug for finding in report.findings]
    assert slugs == ["learning-not-transferring", "insufficient-data"]
    assert report.tree.outcome.slug == "insufficient-data"
    assert not report.ok


def test_what_a_nan_ended_did_not_merely_break_off(tmp_path):
    lines = [f"step {step} loss {2.0 - step / 100}" for step in range(40)]
    lines += ["step 40 loss nan", "Traceback (most recent call last):"]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.section == "§1"
    assert "stall" not in [finding.slug for finding in report.findings]
