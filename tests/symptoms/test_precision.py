"""The symptoms of precision."""

import numpy as np
import pytest

N = 1000
STEPS = np.arange(N)
LOSS = 2 + 2 * np.exp(-STEPS / 100) + np.random.default_rng(8).normal(0, 0.02, N)
OFTEN = (STEPS % 10 == 0).astype(float)
RARE = (STEPS % 200 == 0).astype(float)
ADAM = {"dtype": "fp16", "optimizer": "adamw", "epsilon": 1e-8}


def log(**series):
    return {"step": STEPS, "loss": LOSS, **series}


@pytest.mark.parametrize("skipped", [OFTEN, np.cumsum(OFTEN)], ids=["each", "counted up"])
def test_many_skipped_steps_are_reported(symptom, skipped):
    finding = symptom("overflow-rate-high", log(skipped=skipped))
    assert finding.evidence["fraction"] == pytest.approx(0.1, rel=0.05)
    assert "bf16" in finding.first_action


@pytest.mark.parametrize(
    ("dtype", "skipped", "severity"),
    [("fp32", STEPS % 10 == 0, "note"), ("bf16", STEPS % 4 != 0, "warning")],
)
def test_a_training_loop_may_skip_steps_by_a_rule(symptom, dtype, skipped, severity):
    """No loss scaler skips steps in these precisions."""
    run = log(skipped=skipped.astype(float))
    finding = symptom("overflow-rate-high", run, {"dtype": dtype})
    assert finding.severity.value == severity
    assert "overflow" not in finding.summary
    assert "training loop" in finding.first_action


def test_steps_are_printed_as_integers(symptom):
    at = np.arange(20_001)
    run = {"step": at, "loss": 2 + 0.0 * at, "skipped": (at % 10 == 0).astype(float)}
    assert "steps of 18000 (10.0%) were" in symptom("overflow-rate-high", run).summary


@pytest.mark.parametrize("optimizer", ["adamw", "torch.optim.AdamW"])
def test_an_epsilon_that_underflows_in_fp16_is_reported(symptom, optimizer):
    finding = symptom("adam-underflow-risk", log(), ADAM | {"optimizer": optimizer})
    assert "1e-08 to 1e-4" in finding.first_action


@pytest.mark.parametrize(
    ("slug", "run", "manifest"),
    [
        *(
            ("overflow-rate-high", log(skipped=skipped), {})
            for skipped in (
                RARE,
                np.cumsum(RARE),
                (STEPS < 40).astype(float),
                np.where(STEPS < 90, OFTEN, 0.0),
                (STEPS % 120 == 0).astype(float),
                np.tile([3.0, 1.0], N // 2),  # more than one per step: not a count of skipped steps
            )
        ),
        # A few skips in a short run are not a rate.
        ("overflow-rate-high", {k: x[:80] for k, x in log(skipped=OFTEN).items()}, {}),
        *(
            ("adam-underflow-risk", log(), ADAM | change)
            for change in (
                *({"dtype": "bf16"}, {"epsilon": 1e-4}, {"optimizer": "sgd"}),
                {"loss_scale_window": 1000},
            )
        ),
        # Mixed precision keeps its state in fp32.
        ("adam-underflow-risk", log(loss_scale=np.where(STEPS < 500, 1024.0, 2048.0)), ADAM),
    ],
)
def test_near_miss_is_not_reported(symptom, slug, run, manifest):
    assert symptom(slug, run, manifest) is None


def scaled(grows_again, length=6000, low=2.0**10):
    """Return a run whose loss scale falls in its first sixth."""
    at = np.arange(length)
    scale = np.where(at < length // 6, 2.0**16, low)
    if grows_again:
        scale[at >= length // 2] = 2 * low
    loss = 2 + 2 * np.exp(-at / 100) + np.random.default_rng(8).normal(0, 0.02, length)
    return {"step": at, "loss": loss, "grad_norm": 1 + 0 * at, "loss_scale": scale}


def test_a_scale_that_never_grows_again_is_a_note(symptom):
    finding = symptom("loss-scale-stuck", scaled(False), {"dtype": "fp16"})
    assert finding.severity.value == "note"
    assert finding.evidence["waited"] == 5000 - 1


@pytest.mark.parametrize(
    ("run", "manifest"),
    [
        (scaled(True), {"dtype": "fp16"}),
        (scaled(False), {"dtype": "fp16", "loss_scale_window": 4000}),
        (scaled(False, length=3000), {"dtype": "fp16"}),
        (scaled(False, low=2.0**16), {"dtype": "fp16"}),
        (scaled(False), {"dtype": "bf16"}),
    ],
    ids=["grew", "longer interval", "too short", "never fell", "bf16"],
)
def test_a_scale_that_may_still_grow_is_not_stuck(symptom, run, manifest):
    assert not symptom("loss-scale-stuck", run, manifest)
