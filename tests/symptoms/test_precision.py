"""The symptoms of precision."""

import numpy as np
import pytest

N = 1000
STEPS = np.arange(N)
LOSS = 2 + 2 * np.exp(-STEPS / 100) + np.random.default_rng(8).normal(0, 0.02, N)
OFTEN = (STEPS % 10 == 0).astype(float)
SELDOM = (STEPS % 200 == 0).astype(float)
ADAM = {"dtype": "fp16", "optimizer": "adamw", "epsilon": 1e-8}


def log(**series):
    return {"step": STEPS, "loss": LOSS, **series}


def test_many_skipped_steps_are_found(symptom):
    found = symptom("overflow-rate-high", log(skipped=OFTEN))
    assert found.evidence["share"] == pytest.approx(0.1, rel=0.05)
    assert "bf16" in found.first_action


def test_a_counter_of_all_skips_is_understood(symptom):
    found = symptom("overflow-rate-high", log(skipped=np.cumsum(OFTEN)))
    assert found.evidence["share"] == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    "skipped",
    [
        SELDOM,
        np.cumsum(SELDOM),
        (STEPS < 40).astype(float),
        np.where(STEPS < 90, OFTEN, 0.0),
        (STEPS % 120 == 0).astype(float),
        np.tile([3.0, 1.0], N // 2),  # more than one a step: something else is counted
    ],
)
def test_a_scaler_that_works_is_none(symptom, skipped):
    assert symptom("overflow-rate-high", log(skipped=skipped)) is None


def test_an_epsilon_that_fp16_cannot_hold_is_found(symptom):
    assert "1e-08 to 1e-4" in symptom("adam-underflow-risk", log(), ADAM).first_action
    assert symptom("adam-underflow-risk", log(), ADAM | {"optimizer": "torch.optim.AdamW"})


@pytest.mark.parametrize(
    "change",
    [{"dtype": "bf16"}, {"epsilon": 1e-4}, {"optimizer": "sgd"}, {"loss_scale_window": 1000}],
)
def test_an_epsilon_that_fits_is_none(symptom, change):
    assert symptom("adam-underflow-risk", log(), ADAM | change) is None


def test_mixed_precision_holds_its_state_in_fp32(symptom):
    run = log(loss_scale=np.where(STEPS < 500, 1024.0, 2048.0))
    assert symptom("adam-underflow-risk", run, ADAM) is None


def test_steps_are_told_in_whole_ones(symptom):
    at = np.arange(20_001)
    run = {"step": at, "loss": 2 + 0.0 * at, "skipped": (at % 10 == 0).astype(float)}
    assert "steps of 18000 (10.0%) were" in symptom("overflow-rate-high", run).summary


def test_few_skipped_steps_of_a_short_run_are_no_rate(symptom):
    short = {name: values[:80] for name, values in log(skipped=OFTEN).items()}
    assert symptom("overflow-rate-high", short) is None
