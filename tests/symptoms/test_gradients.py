"""The symptoms of gradients."""

import re

import numpy as np
import pytest

import stabdiag

N = 600
STEPS = np.arange(N)
RNG = np.random.default_rng(5)
NOISE = RNG.normal(0, 0.02, N)
FALLING = 2 + 2 * np.exp(-STEPS / 100) + NOISE
FLAT = 2.3 + NOISE / 4
NORM = np.exp(RNG.normal(0, 0.2, N))
FP32 = {"dtype": "fp32"}


def log(loss, norm, **columns):
    return {"step": STEPS[: len(loss)], "loss": loss, "grad_norm": norm, **columns}


def with_bad(norm, *places):
    bad = norm.copy()
    bad[list(places)] = np.nan
    return bad


RISING = NORM * np.where(STEPS < 540, 1, 1000)
WORSE = FALLING + np.where(STEPS < 540, 0, 3)
GONE = NORM * np.exp(-STEPS / 40)
OUTLIER = "grad-layer-outlier"
GROUPS = {f"grad_norm/block{i}": NORM * (1 + i / 10) for i in range(6)}

CASES = [
    ("grad-nonfinite", log(FALLING, with_bad(NORM, 200, 300)), FP32, "step 200"),
    ("grad-nonfinite", log(FALLING[:9], with_bad(NORM[:9], 7, 8)), {}, "step 7"),
    # Megatron writes a scale of 1 for any dtype.
    ("grad-nonfinite", log(FALLING, with_bad(NORM, 200), loss_scale=np.ones(N)), {}, "step 200"),
    ("grad-nonfinite", log(FALLING, np.full(N, np.nan)), FP32, "step 0 "),
    ("grad-nonfinite", {"step": [0], "loss": [2.3], "grad_norm": [np.nan]}, {}, "step 0"),
    ("grad-exploding", log(WORSE, RISING), FP32, "learning rate"),
    # Only the norm was logged.
    (
        "grad-nonfinite",
        {"step": STEPS, "grad_norm": with_bad(NORM, *range(590, N))},
        {},
        "step 590",
    ),
    ("grad-exploding", {"step": STEPS, "grad_norm": RISING}, {}, "learning rate"),
    # A norm that grows a thousandfold at a flat loss is worth a note.
    ("grad-exploding", log(FLAT, NORM * np.exp(STEPS / 60)), FP32, "learning rate"),
    (
        "grad-nonfinite",
        {"step": STEPS, "amax/1": NORM, "amax/2": np.where(STEPS < 200, NORM, np.inf)},
        *({}, "step 200"),
    ),
    ("grad-vanishing", log(FLAT, GONE), FP32, "each layer"),
    ("grad-clip-saturated", log(FALLING, 20 * NORM), {"grad_clip": 1.0}, "from 1 to"),
    (
        "grad-clip-saturated",
        log(FALLING, 100 * NORM),
        {"grad_clip": 1.0},
        "why the gradient is so",
    ),
    (
        "grad-layer-outlier",
        {"step": STEPS, "loss": FALLING, **GROUPS, "grad_norm/head": 5000 * NORM},
        FP32,
        "'head'",
    ),
]

NEAR_MISSES = [
    # Section 3 of the tree has fp16 and bf16.
    ("grad-nonfinite", log(FALLING, with_bad(NORM, 200, 300)), {"dtype": "bf16"}),
    ("grad-nonfinite", log(FALLING, with_bad(NORM, 200), loss_scale=np.full(N, 64.0)), {}),
    # Nothing was measured before the first update.
    ("grad-nonfinite", log(FALLING, with_bad(NORM, 0)), FP32),
    # Means over epochs: one overflow is enough for a mean that is not finite.
    ("grad-nonfinite", log(FALLING[:49], with_bad(NORM[:49], 5, 9)), {}),
    # A single overflow, or two at the end, without a loss.
    ("grad-nonfinite", {"step": STEPS, "grad_norm": with_bad(NORM, 200, 598, 599)}, {}),
    ("grad-exploding", {"step": STEPS, "grad_norm": NORM * (1 + STEPS / 60)}, {}),
    # Gradients grow while the loss still falls.
    ("grad-exploding", log(4 - STEPS / 200 + NOISE, NORM * np.where(STEPS < 540, 1, 300)), FP32),
    ("grad-exploding", log(WORSE, NORM * (1 + STEPS / 60)), FP32),
    # A converged run: the gradients grow from almost zero, or the loss is almost zero.
    ("grad-exploding", log(FLAT, NORM * np.exp(np.abs(STEPS - 300) / 60)), FP32),
    ("grad-exploding", log(np.exp(-np.minimum(STEPS, 200) / 40), NORM * np.exp(STEPS / 60)), FP32),
    # A policy's loss says nothing about how much of it is left.
    ("grad-exploding", log(NOISE, NORM * np.exp(STEPS / 60)), FP32),
    # The gradient follows the loss.
    ("grad-vanishing", log(np.exp(-STEPS / 100), GONE), FP32),
    # The weights vanish, and the gradient with them: another symptom.
    ("grad-vanishing", log(FLAT, GONE, **{"weight_norm/mlp": np.exp(-STEPS / 100)}), FP32),
    # A policy's loss says nothing about how much of it is left.
    ("grad-vanishing", log(NOISE, GONE), FP32),
    # Each step is clipped to a fifth: working recipes do that.
    ("grad-clip-saturated", log(FALLING, 5 * NORM), {"grad_clip": 1.0}),
    ("grad-clip-saturated", log(FALLING, 0.1 * NORM), {"grad_clip": 10.0}),
    # These groups usually have a spread this wide.
    (
        "grad-layer-outlier",
        {"step": STEPS, "loss": FALLING}
        | {f"grad_norm/g{i}": NORM * 10.0 ** (i / 2) for i in range(12)},
        FP32,
    ),
    # A layer that is frozen has no gradient.
    (
        "grad-layer-outlier",
        {"step": STEPS, "loss": FALLING, **GROUPS, "grad_norm/head": NORM * (STEPS < 9)},
        FP32,
    ),
]


@pytest.mark.parametrize(("slug", "run", "manifest", "says"), CASES)
def test_symptom_is_reported(symptom, slug, run, manifest, says):
    assert says in symptom(slug, run, manifest).first_action


@pytest.mark.parametrize(("slug", "run", "manifest"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run, manifest):
    assert symptom(slug, run, manifest) is None


@pytest.mark.parametrize(("share", "side"), [(5e-05, "below"), (5000.0, "above")])
def test_the_side_of_the_outlying_layer_is_reported(symptom, share, side):
    run = {"step": STEPS, "loss": FALLING, **GROUPS, "grad_norm/head": share * NORM}
    threshold = re.search(r"is \S+, (\d+) x (\w+) the median", symptom(OUTLIER, run).summary)
    assert int(threshold[1]) > 3000
    assert threshold[2] == side


@pytest.mark.parametrize("losses", [[np.nan] * N, [2.0] * 5 + [np.nan] * (N - 5)])
def test_exploding_gradients_need_a_loss(symptom, losses):
    run = log(np.array(losses), NORM * np.exp(STEPS / 60))
    assert symptom("grad-exploding", run, FP32) is None


@pytest.mark.parametrize("clip", [{}, {"grad_clip": -1}, {"grad_clip": 0.2}])
def test_the_clip_threshold_matches_the_tree(symptom, clip):
    run, manifest = log(WORSE, RISING), FP32 | clip
    finding = symptom("grad-exploding", run, manifest)
    tree = stabdiag.diagnose(run, manifest=manifest).diagnosis
    assert tree.slug == "spike-persistent"
    threshold = finding.next_actions[0].removeprefix("Clip the gradient norm at ")
    assert f"with the clip threshold at {threshold.removesuffix('.')}" in tree.first_action
    assert float(threshold.split()[0].rstrip(".")) > 0


@pytest.mark.parametrize("slug", ["grad-nonfinite"])
def test_activations_do_not_count_as_gradients(slug):
    report = stabdiag.diagnose({"step": STEPS, "loss": FALLING, "activation_norm": np.ones(N)})
    assert any(check.symptom == slug and check.reason for check in report.not_checked)


@pytest.mark.parametrize(("last", "is_present"), [(1000.0, True), (100.0, False)])
def test_a_norm_that_grows_a_thousandfold_is_a_note_though_the_loss_falls(
    symptom, last, is_present
):
    loss = 3 + 7 / (1 + STEPS / 50) + NOISE
    finding = symptom("grad-exploding", log(loss, NORM * np.geomspace(0.5, last / 2, N)))
    assert (finding is not None) == is_present
    if finding:
        assert finding.severity.value == "note"


def test_a_norm_may_grow_where_the_loss_is_gone(symptom):
    loss = 4 * np.exp(-STEPS / 60) + 0.001
    assert symptom("grad-exploding", log(loss, NORM * np.geomspace(0.5, 500, N))) is None


def test_a_constant_count_of_clipped_steps_is_a_count_per_record(symptom):
    each = {"step": 10 * STEPS, "loss": FALLING, "clip_counts": np.full(N, 10)}
    finding = symptom("grad-clip-saturated", each)
    assert finding.evidence["fraction"] == pytest.approx(1.0)
    assert symptom("grad-clip-saturated", {**each, "clip_counts": np.full(N, 1.0)}) is not None
    assert symptom("grad-clip-saturated", {**each, "clip_counts": np.full(N, 3)}) is None


@pytest.mark.parametrize(
    ("count", "dtype", "is_present"),
    [(10, "fp16", False), (25, "fp16", True), (60, "fp16", True), (5, "bf16", True)],
)
def test_a_run_without_a_usable_update_is_an_error(count, dtype, is_present):
    loss = 10.8 + np.random.default_rng(3).normal(0, 0.02, count)
    norm = np.full(count, np.nan)
    report = stabdiag.diagnose(
        {"step": np.arange(count), "loss": loss, "grad_norm": norm}, manifest={"dtype": dtype}
    )
    assert ("No update was made" in report.diagnosis.title) == is_present
    assert (report.diagnosis.severity.value == "error") == is_present


def test_a_layer_whose_gradient_alone_is_not_finite_is_named(symptom):
    layers = {"grad_norm/a": NORM, "grad_norm/b": with_bad(NORM, 300)}
    run = log(FALLING, with_bad(NORM, 300)) | layers
    assert "the operation in 'b' whose" in symptom("grad-nonfinite", run, FP32).first_action
    run["grad_norm/a"] = with_bad(NORM, 300)
    assert "the operation whose" in symptom("grad-nonfinite", run, FP32).first_action


def stopped(at=200, loss=None):
    """Return a run whose gradient norm is 0 from a record on; the loss stays where it is."""
    norm = NORM.copy()
    norm[at:] = 0.0
    return log(3 + 7 / (1 + np.minimum(STEPS, at) / 50) + NOISE if loss is None else loss, norm)


def test_a_gradient_that_becomes_0_is_an_error(symptom):
    finding = symptom("grad-vanishing", stopped())
    assert (finding.severity.value, finding.step) == ("error", 200)
    assert finding.title == "The gradient became 0"


@pytest.mark.parametrize(
    "run",
    [
        stopped(at=590),
        stopped(loss=3 + 7 / (1 + STEPS / 50) + NOISE),
        stopped(loss=4 * np.exp(-STEPS / 20) + 1e-3),
    ],
    ids=["few records", "the loss falls on", "converged"],
)
def test_a_gradient_of_0_may_be_harmless(symptom, run):
    assert symptom("grad-vanishing", run) is None


@pytest.mark.parametrize(
    ("optimizer", "clip", "weight_norm", "severity"),
    [
        ("SGD", 0.003, 20.0, "warning"),
        # These steps can move the weights far enough.
        ("SGD", 0.003, 2.0, "note"),
        ("SGD", 0.05, 20.0, "note"),
        # Adam's steps have their size regardless of the gradient.
        ("AdamW", 0.003, 20.0, "note"),
        (None, 0.003, 20.0, "note"),
        ("SGD", 0.003, None, "note"),
    ],
)
def test_clipping_that_leaves_no_way_to_go_is_a_warning(
    symptom, optimizer, clip, weight_norm, severity
):
    """600 steps at a rate of 0.03 and a momentum of 0.9 move the weights by 180 clips at most."""
    columns = {} if weight_norm is None else {"weight_norm": np.full(N, weight_norm)}
    logged = log(FALLING, np.full(N, clip), lr=np.full(N, 0.03), **columns)
    finding = symptom("grad-clip-saturated", logged, {"optimizer": optimizer, "grad_clip": clip})
    assert finding.severity.value == severity
    assert (finding.actions[0].to == 1.0) is (severity == "warning")
