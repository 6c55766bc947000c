"""Runs whose loss rises by design because their data gradually get harder."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import answer_to

HEIGHT = 1.2


def course(log, first=150, last=799):
    """Return the progress of a change at each step, from 0 to 1."""
    return np.interp(log["step"], [first, last], [0.0, 1.0])


def rising(calm, *, height=HEIGHT, power=1.0, **span):
    """Return a log whose loss rises with a change."""
    log = calm()
    return {**log, "loss": log["loss"] + height * course(log, **span) ** power}


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("noise_std", 0.0, 0.5),
        ("train/label_smoothing", 0.0, 0.1),
        ("teacher_forcing_ratio", 1.0, 0.2),
        ("temperature", 1.0, 4.0),
        ("temperature", 1.0, 0.1),
        ("curriculum/difficulty", 0, 30),
        ("epsilon", 0.0, 0.03),
        ("consistency_weight", 0.0, 20.0),
        ("details/current_l1_coefficient", 0.0, 5.0),
    ],
)
def test_a_rise_that_goes_with_a_setting(calm, name, begin, end):
    log = rising(calm)
    assert stabdiag.diagnose(log).diagnosis.section == "§4"
    setting = begin + (end - begin) * course(log)
    report = stabdiag.diagnose({**log, name: setting})
    assert report.diagnosis.slug == "insufficient-data"
    assert answer_to(report, "Q4.1").verdict is Verdict.UNKNOWN
    text = f"as {name} went from "
    assert text in answer_to(report, "Q4.1").because
    assert text in report.diagnosis.summary
    assert "the two are not comparable" in report.diagnosis.summary
    assert report.diagnosis.first_action == f"Check that {name} was intended to change like this."


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("noise_std", 0.5, 0.0),
        ("teacher_forcing_ratio", 0.2, 1.0),
        ("epsilon", 0.03, 0.0),
        ("batch_size", 16, 640),
        ("dataset", 0, 30),
        ("weight_decay", 0.0, 0.1),
        ("val/noise_std", 0.0, 0.5),
        ("consumed", 0.0, 0.5),
    ],
)
def test_settings_that_do_not_raise_the_loss_excuse_nothing(calm, name, begin, end):
    log = rising(calm)
    setting = begin + (end - begin) * course(log)
    assert stabdiag.diagnose({**log, name: setting}).diagnosis.section == "§4"


@pytest.mark.parametrize("options", [{"power": 4.0}, {"power": 0.2}, {"first": 600}])
def test_a_rise_in_a_part_of_the_change_is_a_climb(calm, options):
    log = rising(calm, **options)
    assert stabdiag.diagnose({**log, "noise_std": course(log)}).diagnosis.section == "§4"


def test_a_loss_above_its_start_has_lost_all_progress(calm):
    log = rising(calm, height=4.0)
    assert stabdiag.diagnose({**log, "noise_std": course(log)}).diagnosis.section == "§4"
    # A part of the loss that weighs more may lift it by any height.
    weighed = stabdiag.diagnose({**log, "aux_loss_weight": course(log)})
    assert weighed.diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize(
    ("power", "slug"),
    [(0.4, "insufficient-data"), (1.0, "insufficient-data"), (4.0, "divergence-unexplained")],
)
def test_a_larger_weight_leads_and_never_lags(calm, power, slug):
    log = rising(calm, height=4.0, power=power)
    assert stabdiag.diagnose({**log, "kl_weight": course(log)}).diagnosis.slug == slug


@pytest.mark.parametrize(
    ("column", "end", "slug"),
    [
        ("lr", 1e-2, "divergence-lr-rising"),
        ("weight_norm/attn", 30.0, "divergence-unexplained"),
        ("weight_norm/attn", 3.0, "divergence-unexplained"),
        ("val_loss", 1.5, "insufficient-data"),
    ],
)
def test_another_cause_goes_first(calm, column, end, slug):
    log = rising(calm)
    begin = log[column][0] if column in log else 2.0
    log |= {"noise_std": course(log), column: begin + (end - begin) * course(log)}
    assert stabdiag.diagnose(log).diagnosis.slug == slug


def test_a_climb_after_the_change_is_found(calm):
    log = rising(calm, last=400)
    log["noise_std"] = course(log, last=400)
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "healthy"
    assert "since noise_std settled at step" in answer_to(report, "Q4.1").because
    log["loss"] = log["loss"] + np.interp(log["step"], [550, 799], [0.0, 1.0])
    report = stabdiag.diagnose(log)
    assert report.diagnosis.section == "§4"
    assert 540 <= report.diagnosis.step <= 640


def test_a_jump_within_the_rise_is_a_part_of_it(calm):
    log = rising(calm)
    log["loss"] = log["loss"] + np.where(log["step"] >= 400, 0.35, 0.0)
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-persistent"
    report = stabdiag.diagnose({**log, "noise_std": course(log)})
    assert report.diagnosis.slug == "insufficient-data"
    text = answer_to(report, "Q2.1").because
    assert "it belongs to a rise caused by a change of the objective" in text


# A part of the loss weighs more and more.

PART = 8.0


def diagnosed(log, weight, at, **extra):
    """Diagnose a log to whose loss a part was added, by a weight between these steps."""
    beta = np.interp(log["step"], at, weight)
    return stabdiag.diagnose({**log, "loss": log["loss"] + PART * beta, "beta": beta}, **extra)


def test_a_weight_that_grows_lifts_the_loss(calm):
    report = diagnosed(calm(), [0.0, 1.0], [200, 500])
    assert report.diagnosis.slug == "healthy"
    climb = answer_to(report, "Q4.1")
    assert climb.verdict is Verdict.NO
    assert "since beta settled at step 497" in climb.because


def test_climb_is_reported_without_the_loss_weight(calm):
    log = calm()
    log["loss"] = log["loss"] + PART * np.interp(log["step"], [200, 500], [0.0, 1.0])
    assert stabdiag.diagnose(log).diagnosis.section == "§4"
    # A weight that stays constant or falls explains nothing.
    for weight in (np.full(800, 0.5), np.linspace(1.0, 0.5, 800)):
        assert stabdiag.diagnose({**log, "kl_weight": weight}).diagnosis.section == "§4"


@pytest.mark.parametrize("at", [400, 403])
def test_a_jump_of_a_loss_weight_lifts_the_loss_immediately(calm, at):
    log = calm()
    log["loss"] = log["loss"] + np.where(log["step"] >= 400, 5.0, 0.0)
    weight = np.where(log["step"] >= at, 1.0, 0.0)
    report = stabdiag.diagnose({**log, "beta": weight})
    assert report.diagnosis.slug == ("healthy" if at == 400 else "spike-persistent")
    if at == 400:
        assert "where beta went from 0 to 1" in answer_to(report, "Q2.1").because


def test_losses_before_a_gradual_change_are_not_compared_with_later_ones(calm):
    log = calm()
    climb = answer_to(diagnosed(log, [0.0, 1.0], [300, 799]), "Q4.1")
    assert climb.verdict is Verdict.UNKNOWN
    assert "log the parts of the loss unweighted, too" in climb.because


FELL = np.random.default_rng(2).uniform(0.9, 1.1, 60) * np.linspace(1.0, 0.2, 60)


@pytest.mark.parametrize(
    ("loss", "is_running_sum"),
    [
        (np.cumsum(FELL), None),
        (np.cumsum(np.ones(60)), None),
        # The first epochs made most of the sum.
        (90 + np.cumsum(FELL), 1 + np.exp(-np.arange(60))),
        ((90 + np.cumsum(FELL))[:12], 1 + np.exp(-np.arange(12))),
    ],
)
def test_a_running_sum_is_not_a_climb(loss, is_running_sum):
    log = {"step": np.arange(len(loss)), "loss": loss} | (
        {} if is_running_sum is None else {"val_loss": is_running_sum}
    )
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "insufficient-data"
    assert "a running sum of losses" in report.diagnosis.summary
    assert report.diagnosis.first_action.startswith("Log each loss, or divide the sum")


@pytest.mark.parametrize(
    ("accuracy", "is_running_sum"),
    [(np.linspace(0.1, 0.3, 10), True), (np.linspace(0.3, 0.1, 10), False)],
)
def test_a_running_sum_of_a_short_log_is_known_by_an_accuracy_that_rises(accuracy, is_running_sum):
    loss = np.cumsum(FELL[:10])
    report = stabdiag.diagnose({"step": np.arange(10), "loss": loss, "acc": accuracy})
    assert ("a running sum of losses" in report.diagnosis.summary) == is_running_sum


@pytest.mark.parametrize(
    ("loss", "is_running_sum"),
    [
        (90 + np.cumsum(FELL), None),
        (90 + np.cumsum(FELL), 1 + np.arange(60) / 60),
        (np.cumsum(FELL[::-1]), None),
        (np.cumsum(FELL) + 2 * (np.arange(60) == 30), None),
    ],
)
def test_a_rising_loss_is_not_a_running_sum(loss, is_running_sum):
    log = {"step": np.arange(len(loss)), "loss": loss} | (
        {} if is_running_sum is None else {"val_loss": is_running_sum}
    )
    assert "running sum" not in stabdiag.diagnose(log).diagnosis.summary


def after_change(log, tau, height=0.5, first=400):
    """Return a log with a longer sequence, and a loss that approaches a new level from there."""
    at = np.maximum(log["step"] - first, 0)
    loss = log["loss"] + (height * (1 - np.exp(-at / tau)) if tau else height * at / at.max())
    return {**log, "loss": loss, "seq_len": np.where(log["step"] < first, 512, 2048)}


@pytest.mark.parametrize("tau", [60, 150])
def test_a_running_mean_that_approaches_a_new_level_after_a_change_is_expected(calm, tau):
    log = after_change(calm(n=1600), tau, first=800)
    report = stabdiag.diagnose(log)
    assert report.diagnosis.severity.value in ("ok", "note")
    assert "as seq_len went from 512 to 2048" in report.diagnosis.summary
    del log["seq_len"]
    assert stabdiag.diagnose(log).diagnosis.severity.value == "error"


def test_a_climb_that_goes_on_after_a_change_is_a_fault(calm):
    log = after_change(calm(n=1600), None, height=1.5, first=800)
    assert stabdiag.diagnose(log).diagnosis.severity.value == "error"


def staged_mean(height=0.6, weight=0.02, n=2000):
    """Return a running mean of a loss that jumps with each of two longer sequences."""
    at = np.arange(n)
    stage = (at >= 600).astype(int) + (at >= 1200)
    loss = 2.0 + 2.0 * np.exp(-at / 150) + height * stage
    loss += 0.05 * np.random.default_rng(0).standard_normal(n)
    mean = loss.copy()
    for i in range(1, n):
        mean[i] = (1 - weight) * mean[i - 1] + weight * loss[i]
    return {"step": at, "loss": mean, "seq_len": np.array([512, 1024, 2048])[stage]}


def test_a_running_mean_may_approach_several_levels():
    log = staged_mean()
    assert stabdiag.diagnose(log).diagnosis.severity.value in ("ok", "note")
    del log["seq_len"]
    assert stabdiag.diagnose(log).diagnosis.severity.value == "error"


def test_a_running_mean_above_its_start_has_lost_all_progress():
    assert stabdiag.diagnose(staged_mean(height=1.5)).diagnosis.severity.value == "error"
