"""Rises that lasted long and recovered."""

import numpy as np
import pytest

import stabdiag

N = 2400
STEPS = np.arange(1, N + 1)
SLUG = "rise-recovered"


def log(height=1.0, up=400, down=100, seed=0, **columns):
    """Return a falling loss that rises slowly by ``height`` from step 900 on and comes back."""
    loss = 1.1 + 3.4 * STEPS**-0.35 + np.random.default_rng(seed).normal(0, 0.04, N)
    bump = np.concatenate([np.linspace(0, height, up), np.linspace(height, 0, down)])
    loss[900 : 900 + len(bump)] += bump
    return {"step": STEPS, "loss": loss, **columns}


def rise(report):
    return next((finding for finding in report.findings if finding.slug == SLUG), None)


@pytest.mark.parametrize(("up", "down"), [(400, 100), (100, 400), (150, 150), (700, 300)])
def test_a_rise_that_recovered_is_never_healthy(up, down):
    report = stabdiag.diagnose(log(up=up, down=down))
    assert (report.diagnosis.slug, report.diagnosis.severity.value) == (SLUG, "note")
    evidence = report.diagnosis.evidence
    assert 850 <= report.diagnosis.step <= 1000
    assert 900 + up / 2 <= evidence["crest"] <= 900 + up + down / 2
    assert evidence["end"] <= 900 + up + down + 50
    assert evidence["to"] - evidence["from"] == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("height", [0.0, 0.05, 0.15])
def test_a_small_rise_is_healthy(height):
    assert stabdiag.diagnose(log(height=height)).diagnosis.slug == "healthy"


@pytest.mark.parametrize(("others", "is_reported"), [(0.3, True), (0.8, False), (1.0, False)])
def test_a_rise_is_compared_with_the_other_rises_of_the_run(others, is_reported):
    columns = log()
    bump = np.concatenate([np.linspace(0, others, 150), np.linspace(others, 0, 100)])
    for start in (500, 1600, 1900):
        columns["loss"][start : start + len(bump)] += bump
    assert (rise(stabdiag.diagnose(columns)) is not None) == is_reported


def test_a_rise_that_lasts_is_a_divergence():
    columns = log(up=1500, down=0)
    report = stabdiag.diagnose(columns)
    assert report.diagnosis.severity.value == "error"
    assert rise(report) is None


def test_a_warm_restart_of_the_learning_rate_explains_the_rise():
    lr = np.where(np.arange(N) < 900, np.linspace(1e-3, 1e-5, N), 1e-5)
    lr[900:1300] = np.linspace(1e-4, 1e-3, 400)
    lr[1300:] = np.linspace(1e-3, 1e-5, N - 1300)
    assert rise(stabdiag.diagnose(log(lr=lr))) is None


def test_a_short_log_is_not_checked():
    columns = {name: values[:60] for name, values in log().items()}
    assert SLUG in {item.symptom for item in stabdiag.diagnose(columns).not_checked}


DIP = "collapse-recovered"


def scored(low, count, seed=0, name="val_acc"):
    """Return a log whose accuracy is ``low`` for ``count`` of 30 evaluations in the middle."""
    rng = np.random.default_rng(seed)
    values = 0.9 - 0.6 * np.exp(-np.arange(30) / 5) + rng.normal(0, 0.008, 30)
    values[15 : 15 + count] = low
    cells = [values[step // 80] if step % 80 == 79 else None for step in range(N)]
    return {**log(height=0.0), name: cells}


@pytest.mark.parametrize("count", [3, 5, 8])
def test_a_collapse_of_a_score_that_recovered_is_a_note(symptom, count):
    finding = symptom(DIP, scored(0.1, count))
    assert finding.severity.value == "note"
    assert finding.evidence["lowest"] == pytest.approx(0.1)
    assert finding.evidence["last"] > 0.85
    assert 1200 <= finding.step <= 1300 < finding.evidence["end"]


@pytest.mark.parametrize(("low", "count"), [(0.7, 5), (0.1, 1), (0.9, 5)])
def test_a_small_or_single_dip_of_a_score_is_not_reported(symptom, low, count):
    assert symptom(DIP, scored(low, count)) is None


def test_a_score_that_stays_down_has_its_own_finding(symptom):
    assert symptom(DIP, scored(0.1, 15)) is None


@pytest.mark.parametrize(("low", "is_present"), [(20.0, True), (330.0, False)])
def test_a_collapse_of_a_reward_that_recovered_is_a_note(symptom, low, is_present):
    rng = np.random.default_rng(4)
    reward = 480 - 460 * np.exp(-np.arange(800) / 100) + rng.normal(0, 9, 800)
    reward[350:450] = low + rng.normal(0, 9, 100)
    run = {"step": np.arange(800), "policy_loss": rng.normal(0, 0.02, 800), "reward": reward}
    assert (symptom(DIP, run) is not None) == is_present


@pytest.mark.parametrize(("name", "is_reported"), [("train_acc", False), ("val_acc", True)])
def test_an_accuracy_of_a_small_batch_may_be_zero(name, is_reported):
    right = np.random.default_rng(2).binomial(8, 0.5, 400) / 8
    right[119:122] = (0.75, 0, 0.75)
    loss = 1 + np.exp(-np.arange(400) / 50)
    report = stabdiag.diagnose({"step": range(400), "loss": loss, name: right})
    assert (DIP in [finding.slug for finding in report.findings]) is is_reported


@pytest.mark.parametrize(
    ("zeros", "is_reported"),
    [((8, 15), True), ((3,), False), ((), False), ((38, 39), False)],
)
def test_single_evaluations_at_zero_are_a_note(zeros, is_reported):
    score = [0.0 if epoch in zeros else 1 - 0.9**epoch for epoch in range(40)]
    loss = [2 * 0.95**epoch + 0.5 for epoch in range(40)]
    report = stabdiag.diagnose({"epoch": range(40), "loss": loss, "mAP50": score})
    finding = next((finding for finding in report.findings if finding.slug == DIP), None)
    assert (finding is not None) is is_reported
    assert finding is None or finding.step == 8
