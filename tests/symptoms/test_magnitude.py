"""Sizes that no healthy run has, layers that learn nothing, and steps that wait for their data."""

import numpy as np
import pytest

N = 600
STEPS = np.arange(N)
RNG = np.random.default_rng(6)
NOISE = RNG.normal(0, 0.02, N)
LOSS = 2 + 2 * np.exp(-STEPS / 100) + NOISE
NORM = np.exp(RNG.normal(0, 0.2, N))
PART = STEPS / N
FP16, FP32 = {"dtype": "fp16"}, {"dtype": "fp32"}
LATE = np.where(STEPS < 540, 1.0, 1000.0)


def log(**series):
    return {"step": STEPS, "loss": LOSS, **series}


def layers(role, *factors, **columns):
    return log(**{f"{role}/h.{i}": NORM * factor for i, factor in enumerate(factors)}, **columns)


NEGATIVE = [-4.1, -4.5, -4.4, -4.3, -4.6]
SEVEN = [0.061, 0.074, 8.8e14, 0.058, 0.071, 4.1e14, 0.066]
CYCLES = 1e-3 * (0.5 + 0.5 * np.cos(2 * np.pi * 2.5 * PART))
SAWTOOTH = 1e-3 * (1 - (3.2 * PART) % 1) * 0.95 + 2e-5

LOW = 0.15 + 2 * np.exp(-STEPS / 40) + 0.1 * np.abs(NOISE)

# A cross-entropy is at most 16.118 in Keras, and 87.3365 in Caffe.
SATURATED = [
    {
        "epoch": range(1, 4),
        "loss": [13.9, 14.2, 14.1],
        "val_loss": [14.5063] * 3,
        "val_acc": [0.1] * 3,
    },
    {"epoch": range(1, 5), "loss": [7.9, 8.1, 8.01, 7.995], "acc": [0.51, 0.4974, 0.503, 0.504]},
    {"step": [0, 100, 200], "loss": [9.3, 87.3365, 87.3365]},
    {"step": [0, 100, 200, 300], "loss": [210.5, 1746.73, 1746.73, 1746.73]},
    {"step": [0, 100, 200], "loss": [9.3, 7.1, 87.3365], "val_loss": [9.2, 7.0, 87.3363]},
]

CASES = [
    ("loss-implausible", {"step": np.arange(7), "loss": SEVEN}, {}, "error"),
    ("loss-implausible", {"step": np.arange(5), "loss": [0.7, 0.4, 0.3, 0.25, 9e5]}, {}, "error"),
    ("loss-implausible", {"step": np.arange(2), "loss": [1.4, 9e5]}, {}, "error"),
    ("loss-implausible", {"step": np.arange(6), "loss": [*NEGATIVE, 4e3]}, {}, "error"),
    ("loss-implausible", {"step": np.arange(7), "loss": [*NEGATIVE, 4e3, -2.9]}, {}, "warning"),
    ("loss-implausible", log(loss=np.where(STEPS == 300, 1e308, LOSS)), {}, "error"),
    ("loss-implausible", log(loss=np.where(STEPS >= 300, 1e308, LOSS)), {}, "error"),
    ("loss-implausible", log(loss=np.where(STEPS == 300, 1e30, 0.0)), {}, "error"),
    ("loss-implausible", log(loss=-10 * np.exp(16 * PART)), {}, "error"),
    ("loss-implausible", log(loss=5 - np.exp(20 * PART) + NOISE), {}, "error"),
    *(("loss-implausible", saturated, {}, "error") for saturated in SATURATED),
    ("activation-exploding", {"step": STEPS, "act_max/3": NORM * LATE}, {}, "warning"),
    ("activation-exploding", log(**{"act_max/3": NORM * LATE, "act_max/4": NORM}), {}, "warning"),
    ("activation-exploding", log(**{"activation_max/h.3": 40000 + NOISE}), FP16, "warning"),
    ("activation-exploding", log(**{"act_max/3": np.exp(9 * PART)}), {}, "warning"),
    ("grad-exploding", log(loss=2.5 + NOISE, grad_norm=NORM * (1 + 1000 * PART)), FP32, "note"),
    # Of a loss that is low, but not gone.
    ("grad-exploding", log(loss=LOW, grad_norm=NORM * np.exp(7 * PART)), FP32, "note"),
    ("attention-logits-growing", log(max_attn_logit=2 * NORM * LATE), {}, "warning"),
    ("attention-logits-growing", log(max_attn_logit=5 + 300 * PART), {}, "note"),
    ("norm-jump", log(**{"weight_norm/mlp": (10 + PART) * (1 + (STEPS >= 300))}), {}, "note"),
    ("norm-jump", log(**{"weight_norm/mlp": (10 + PART) / (1 + 2 * (STEPS >= 300))}), {}, "note"),
    ("norm-jump", log(grad_norm=NORM * np.where(STEPS < 300, 1, 20)), FP32, "note"),
    ("grad-vanishing-by-depth", layers("grad_norm", 1e-5, 1e-4, 1e-2, 0.1, 1), FP32, "note"),
    (
        "grad-vanishing-by-depth",
        log(
            **{f"grad_norm/{i}.attn": NORM * 10.0 ** (i - 5) for i in range(6)},
            **{f"grad_norm/{i}.mlp": NORM * 10.0 ** (i - 5.2) for i in range(6)},
        ),
        FP32,
        "note",
    ),
    ("group-frozen", layers("grad_norm", 1, 0, 1), FP32, "note"),
    (
        "group-frozen",
        log(**{"weight_norm/a": 10 + PART, "weight_norm/b": np.full(N, 7.5)}),
        FP32,
        "note",
    ),
    ("ends-mid-cycle", log(lr=np.roll(SAWTOOTH, 0)), {}, "note"),
    ("data-loading-slow", log(data_time=0.8 * NORM, step_time=1.0 * NORM), {}, "note"),
    ("data-loading-slow", log(data_time=0.8 * NORM, step_time=0.2 * NORM), {}, "note"),
    ("grad-clip-saturated", log(grad_norm=np.minimum(5 * NORM, 1)), {"grad_clip": 1.0}, "note"),
    ("grad-clip-saturated", log(grad_norm=np.ones(N)), {}, "note"),
    ("grad-clip-saturated", log(clip_counts=np.ones(N)), {}, "note"),
    ("grad-clip-saturated", log(clip_counts=np.cumsum(np.ones(N))), {}, "note"),
    ("weight-norm-runaway", log(**{"weight_norm/mlp": 1 + 20 * PART}), {}, "note"),
    ("weight-norm-runaway", log(**{"weight_norm/mlp": np.exp(6 * PART)}), {}, "warning"),
]

NEAR_MISSES = [
    ("loss-implausible", {"step": np.arange(7), "loss": [min(x, 1e6) for x in SEVEN]}, {}),
    ("loss-implausible", {"step": np.arange(2), "loss": [0.001, 0.9]}, {}),
    (
        "loss-implausible",
        {"step": np.arange(6), "loss": [-0.01, 0.003, 0.01, -0.02, 0.01, 40.0]},
        {},
    ),
    ("loss-implausible", {"step": np.arange(6), "policy_loss": [*NEGATIVE, 4e3]}, {}),
    ("loss-implausible", log(loss=1e15 * LOSS), {}),
    ("loss-implausible", log(loss=-2e4 * (1 - np.exp(-9 * PART)) + NOISE), {}),
    ("loss-implausible", log(loss=-np.exp(5 * PART)), {}),
    ("loss-implausible", log(loss=-10 * np.exp(16 * PART), reward=PART), {}),
    ("activation-exploding", {"step": STEPS, "act_max": NORM * np.where(STEPS < 60, 1, 1e3)}, {}),
    ("activation-exploding", log(**{"activation_max/h.3": 20000 + NOISE}), FP16),
    ("activation-exploding", log(**{"act_max/3": 1 + 900 * (1 - np.exp(-8 * PART))}), {}),
    ("activation-exploding", log(**{"activation_norm/h.3": 40000 + NOISE}), FP16),
    ("attention-logits-growing", log(max_attn_logit=0.02 * NORM * LATE), {}),
    ("attention-logits-growing", log(max_attn_logit=200 + NOISE), {}),
    ("attention-logits-growing", log(max_attn_logit=5 + 40 * PART), {}),
    # Growth step by step, an outlier, and a jump within the noise.
    ("norm-jump", log(**{"weight_norm/mlp": 10 * np.exp(2 * PART)}), {}),
    ("norm-jump", log(**{"weight_norm/mlp": np.where(STEPS == 300, 100.0, 10.0)}), {}),
    ("norm-jump", log(grad_norm=NORM**3 * np.where(STEPS < 300, 1, 4)), FP32),
    ("grad-vanishing-by-depth", layers("grad_norm", 0.1, 0.2, 0.4, 0.8, 1), FP32),
    ("grad-vanishing-by-depth", layers("grad_norm", 1e-5, 1, 1e-4, 1, 1e-3, 1), FP32),
    ("group-frozen", layers("grad_norm", 1, 1e-9, 1), FP32),
    ("group-frozen", layers("grad_norm", 1, 1 * (STEPS < 9), 1), FP32),
    ("ends-mid-cycle", log(lr=CYCLES), {"schedule": "cosine_with_restarts"}),
    ("ends-mid-cycle", log(lr=1e-3 * (0.6 + 0.4 * np.cos(12 * PART))), {}),
    ("ends-mid-cycle", log(lr=1e-3 * (1 - PART)), {}),
    ("data-loading-slow", log(data_time=0.05 * NORM, step_time=NORM), {}),
    ("data-loading-slow", log(data_time=np.where(STEPS < 50, 9.0, 0.1), step_time=NORM), {}),
    ("grad-clip-saturated", log(grad_norm=np.minimum(NORM, 1)), {"grad_clip": 1.0}),
    ("grad-clip-saturated", log(grad_norm=np.full(N, 0.37)), {}),
    ("grad-clip-saturated", log(clip_counts=(STEPS % 10 == 0) * 1.0), {}),
    ("weight-norm-runaway", log(**{"weight_norm/mlp": 1 + 3 * PART}), {}),
    # It left its initialization early and settles.
    ("weight-norm-runaway", log(**{"weight_norm/mlp": 21 - 20 * np.exp(-40 * PART)}), {}),
]


@pytest.mark.parametrize(("slug", "run", "manifest", "severity"), CASES)
def test_symptom_is_reported(symptom, slug, run, manifest, severity):
    finding = symptom(slug, run, manifest)
    assert finding.severity == severity


@pytest.mark.parametrize(("slug", "run", "manifest"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run, manifest):
    assert symptom(slug, run, manifest) in (None, ())


@pytest.mark.parametrize("name", ["tokens/sec", "tokens_sec"])
def test_tokens_per_second_have_a_role(symptom, name):
    speeds = np.where(STEPS < 300, 1000.0, 400.0) * NORM**0.05
    assert "tok" in symptom("throughput-drop", log(**{name: speeds})).summary


@pytest.mark.parametrize(
    "name", ["attention_logit_max", "max_attn_logit", "attn_logit_max/layer.3"]
)
def test_names_of_attention_logits_are_understood(symptom, name):
    at = np.arange(600)
    loss = 2 + 2 * np.exp(-at / 100)
    run = {"step": at, "loss": loss, name: np.geomspace(8, 900, 600)}
    assert symptom("attention-logits-growing", run) is not None


def short(last=None, at=9, count=10):
    """Return a log too short for a test of spikes, with one loss replaced."""
    loss = 2 - 0.5 * np.arange(count) / count + np.random.default_rng(1).normal(0, 0.02, count)
    if last is not None:
        loss[at] = last
    return {"step": np.arange(count), "loss": loss}


@pytest.mark.parametrize(
    ("run", "severity"),
    [
        (short(2000.0), "error"),
        (short(2000.0, at=5), "warning"),
        (short(20.0), None),
        (short(), None),
        (short(2000.0, at=0), None),
        (short(2000.0, at=9, count=40), None),
    ],
    ids=["last", "came back", "tenfold", "calm", "first", "long log"],
)
def test_a_hundredfold_loss_of_a_short_log_is_reported(symptom, run, severity):
    finding = symptom("loss-implausible", run)
    assert (finding and finding.severity.value) == severity


@pytest.mark.parametrize(
    ("column", "manifest", "is_near"),
    [
        ("max_activation/h.3", FP16, True),
        ("max_activation/h.3", FP32, False),
        # A norm over many values may exceed the maximum of one.
        ("activation_norm/h.3", FP16, False),
    ],
)
def test_exploding_activations_are_compared_with_the_fp16_maximum(
    symptom, column, manifest, is_near
):
    exploding = log(**{column: 40 * 1000**PART * np.exp(NOISE)})
    finding = symptom("activation-exploding", exploding, manifest)
    assert ("near the fp16 maximum of 65504" in finding.summary) is is_near


def test_a_huge_loss_is_no_multiple_of_a_cross_entropy(symptom):
    run = {"step": [0, 100, 200, 300], "loss": [3.57e23, 2.09e24, 1.24e26, 6.15e25]}
    assert symptom("loss-implausible", run).title == "The loss is impossibly large"


def test_a_loss_that_falls_to_nothing_was_not_too_large(symptom):
    assert symptom("loss-implausible", {"step": [0, 1, 2], "loss": [118.5, 9.5e-9, 5.5e-9]}) is None
