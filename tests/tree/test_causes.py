"""What made a loss jump: series that were 0 before it, or that are there in part."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.history import Series
from stabdiag.tree.causes import jumps
from tests.tree.made import (
    add,
    answer_to,
    changed,
    climb,
    only,
    put,
    ramp,
    records,
    series,
    sometimes,
)

SPIKES = add(slice(500, 505), 4.0)
APART = (0, 300), (700, 800)


def llm_c(at):
    return np.round(2e-5 * np.minimum(1, (at + 1) / 400), 6)


@pytest.fixture
def spiking(calm):
    return changed(calm(), SPIKES)


REASONS = [
    # question, what is done to a calm run, what the answer says
    ("Q2.3", [SPIKES, put("grad_norm", slice(500), 0.0)], "the gradient norm was 0 before it"),
    ("Q2.3", [SPIKES, put("lr", slice(700), 0.0)], "the learning rate was 0 around it"),
    # The id of a batch is shown in full.
    (
        *("Q2.3", [SPIKES, series("batch_id", lambda at: 123_456_789 + at - 30 * (at == 500))]),
        "batch 123457259 of step 500",
    ),
    (
        *("Q2.3", [SPIKES, series("batch_id", lambda at: 0.5 + at - 30 * (at == 500))]),
        "batch 470.5 of step 500",
    ),
    # llm.c writes a warm-up as 0.000001, 0.000002, …: the last digit is not a jump.
    (
        *("Q2.3", [SPIKES, series("lr", llm_c), put("lr", slice(498, 520), 2e-4)]),
        "from 2e-05 to 0.0002 at step 498",
    ),
    # A batch that repeats before the loss recovers, and ids that repeat throughout.
    (
        *("Q2.3", [SPIKES, add(500, 1.0), put("batch_id", slice(500, 504), 500)]),
        "batch 500 of step 501 had been seen 1 step before",
    ),
    ("Q2.3", [SPIKES, series("batch_id", lambda at: at % 20)], "batch ids repeat throughout"),
    # What was not logged around the spike.
    ("Q2.3", [SPIKES, only("lr", *APART)], "no learning rate was logged around it"),
    ("Q2.3", [SPIKES, only("batch_id", *APART)], "no batch id was logged around it"),
    ("Q2.3", [SPIKES, only("grad_norm", *APART)], "no gradient norm was logged around it"),
    ("Q2.3", [SPIKES, only("grad_norm", (500, 800))], "no gradient norm was logged around it"),
    (
        *("Q4.2", [climb(700), ramp("lr", 1e-4, 1e-3), only("lr", (0, 650))]),
        "too few learning rates were logged over the climb",
    ),
]


@pytest.mark.parametrize(("question", "changes", "expected"), REASONS)
def test_the_answer_names_the_cause(calm, question, changes, expected):
    log = changed(calm(), *changes)
    assert expected in answer_to(stabdiag.diagnose(records(log)), question).because


def test_a_gradient_norm_that_was_0_has_risen_by_no_factor(calm):
    log = changed(calm(), climb())
    log["grad_norm"] = np.concatenate([np.zeros(460), np.linspace(0.1, 2.0, 340)])
    report = answer_to(stabdiag.diagnose(log), "Q4.4")
    assert report.because.startswith("the gradient norm's mean went from 0 to ")
    assert " x" not in report.because
    assert report.measured["ratio"] is None


def test_a_learning_rate_that_is_turned_on_jumps(spiking):
    spiking["lr"] = np.where(spiking["step"] < 500, 0.0, 1e-2)
    report = stabdiag.diagnose(spiking)
    assert report.diagnosis.slug == "spike-lr-jump"
    assert "jumps from 0 to 0.01" in report.diagnosis.first_action
    assert answer_to(report, "Q2.3").measured["lr_ratio"] is None


@pytest.mark.parametrize(
    "warming",
    [
        lambda at: np.where(at > 0, 1e-3, 0.0),
        lambda at: 1e-3 * np.minimum(at / 100, 1),
        lambda at: 1e-3 * np.minimum(np.maximum(at - 20, 0) / 100, 1),
        lambda at: 1e-3 * np.minimum(at // 20 / 5, 1),
    ],
    ids=["one step", "linear", "late", "stairs"],
)
def test_a_warm_up_that_begins_at_0_is_not_a_jump(spiking, warming):
    first = 480  # the log begins 20 steps before the spike
    log = {name: values[first:] for name, values in spiking.items()}
    log["lr"] = warming(log["step"] - first)
    report = stabdiag.diagnose(log, limits={"spike.window": 20, "spike.min_points": 10})
    assert all("learning rate jumped" not in item.because for item in report.tree.answers)


def test_the_second_rate_of_a_log_is_not_a_jump():
    log = {"step": [500, 1000, 1500, 2000], "loss": [9.0, 8.0, np.nan, np.nan]}
    finding = stabdiag.diagnose({**log, "lr": [1e-3, 3e-3, 2.9e-3, 2.8e-3]}).diagnosis
    assert "jump" not in finding.summary


def test_a_gradient_norm_that_is_higher_but_does_not_rise_steadily(calm):
    log = calm(3000)
    up = np.clip((np.arange(3000) - 2100) / 40, 0, 1)
    log["loss"] = log["loss"] + 0.2 * np.random.default_rng(3).standard_normal(3000) + 0.4 * up
    log["grad_norm"][2150:2200] *= 9.0
    report = answer_to(stabdiag.diagnose(log), "Q4.4")
    assert report.verdict == "no"
    assert " x, over the climb, but not steadily: a flat one does so with chance " in report.because


def test_a_gradient_norm_of_other_steps_does_not_acquit(calm):
    log = calm(stride=10)
    log["loss"][500] += 4.0
    sparse = stabdiag.diagnose(log)
    assert "it was logged every 10 steps, and" in answer_to(sparse, "Q2.3").because
    assert "batch id" not in " ".join(sparse.diagnosis.next_actions)
    assert "Log the gradient norm at every step." in sparse.diagnosis.next_actions
    log["step"] = log["step"] // 10
    dense = stabdiag.diagnose(log)
    assert "it was logged every" not in answer_to(dense, "Q2.3").because
    assert not any(action.startswith("Log the") for action in dense.diagnosis.next_actions)


def test_a_weight_norm_that_leapt_late_began_to_grow_with_the_climb(calm):
    log = calm(1200)
    since = np.maximum(log["step"] - 400, 0)
    log["loss"] += since / 100
    log["weight_norm/attn"] = 10.0 * np.exp(since / 60) * np.where(since > 600, 1e4, 1.0)
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug == "divergence-weight-norm-climbing"
    assert finding.step == pytest.approx(400, abs=10)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_gradient_overflow_at_a_spike_is_reported(calm, value):
    log = changed(calm(), add(500, 4.0), put("grad_norm", 500, value))
    report = stabdiag.diagnose(log, manifest={"dtype": "fp32"})
    assert report.diagnosis.slug == "spike-recovered"
    text = answer_to(report, "Q2.3").because
    assert "the gradient norm was not finite at step 500; around it, it reached" in text
    assert "The gradients overflowed at step 500." in report.diagnosis.summary
    assert "None of the logged series" not in report.diagnosis.summary


def test_a_gradient_norm_that_ended_before_a_nan_did_not_lead_to_it(calm):
    log = changed(calm(), put("loss", slice(500, None), np.nan), put("grad_norm", 100, np.inf))
    records = sometimes(log, "grad_norm", log["step"] < 300)
    finding = stabdiag.diagnose(records, manifest={"dtype": "bf16"}).diagnosis
    assert (finding.slug, finding.evidence["first_series"]) == ("nan-bf16", "loss")


def test_overflows_that_keep_to_a_third_of_the_interval_are_too_many(calm):
    log = calm(1961)
    log["loss_scale"] = np.where(log["step"] < 60, 2048.0, 1024.0)
    log["grad_norm"][60::100] = np.inf
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", "loss_scale_window": 300})
    assert report.diagnosis.slug == "gradient-overflow"


@pytest.mark.parametrize(("digits", "jumped"), [(5, 0), (5, 400), (9, 400)])
def test_a_warmup_with_few_digits_does_not_jump(digits, jumped):
    steps = np.arange(1000)
    rates = np.minimum(steps / 700, 1) * 3e-4
    rates[jumped or len(rates) :] *= 3
    lr = Series(role="lr", column="lr", steps=steps, values=np.round(rates, digits))
    assert jumps(lr, 1.5).tolist() == ([jumped] if jumped else [])
