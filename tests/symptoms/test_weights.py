"""The symptoms of weights and activations."""

import numpy as np
import pytest

import stabdiag

N = 400
STEPS = np.arange(N)
RNG = np.random.default_rng(7)
LOSS = 2 + 2 * np.exp(-STEPS / 100) + RNG.normal(0, 0.02, N)
WAVES = 1 + 0.01 * RNG.normal(0, 1, N)
PART = STEPS / N


def log(**series):
    return {"step": STEPS, "loss": LOSS} | {
        name.replace("__", "/"): values * WAVES for name, values in series.items()
    }


HIGH, LOW = np.full(N, 0.8), np.full(N, 0.1)
COLLAPSED = 4 * np.exp(-STEPS / 60)

CASES = [
    ("weight-norm-runaway", log(weight_norm__head=10 * np.exp(3 * PART)), "'head'"),
    ("weight-norm-shrinking", log(weight_norm__emb=10 * np.exp(-3 * PART)), "'emb'"),
    # Weights that vanish, and the loss of a guess.
    (
        "weight-norm-shrinking",
        log(weight_norm__head=0.05 + 5 * np.exp(-PART * 60)) | {"loss": 2.3 + 0.01 * np.exp(-PART)},
        "Find the weight decay",
    ),
    ("update-ratio-off", log(update_ratio=np.full(N, 0.5)), "Lower"),
    ("update-ratio-off", log(update_ratio__head=np.full(N, -8.0)), "Raise"),
    ("dead-neurons", log(dead_fraction__mlp=HIGH), "'mlp'"),
    ("dead-neurons", log(dead_fraction__mlp=100 * HIGH), "'mlp'"),
    ("activation-saturated", log(saturated_fraction__gate=HIGH), "'gate'"),
    (
        "attention-entropy-collapse",
        log(attention_entropy__0=COLLAPSED, attention_entropy__1=COLLAPSED),
        "QK-norm",
    ),
]

NEAR_MISSES = [
    # Growth that slows down, and growth out of the initialization that is then over.
    ("weight-norm-runaway", log(weight_norm=10 * np.sqrt(1 + 40 * PART))),
    ("weight-norm-runaway", log(weight_norm=100 - 99 * np.exp(-PART * 20))),
    ("weight-norm-runaway", log(weight_norm=10 * (1 + PART))),
    # A norm that jumped and is constant since.
    ("weight-norm-runaway", log(weight_norm=np.where(PART < 0.75, 10.0, 1000.0))),
    # An adapter begins at zero.
    ("weight-norm-runaway", log(weight_norm=np.where(STEPS < 10, 0.0, 1 + 20 * PART))),
    # A large initialization that settles.
    ("weight-norm-shrinking", log(weight_norm=1 + 99 * np.exp(-PART * 10))),
    ("weight-norm-shrinking", log(weight_norm=10 * (1 - 0.5 * PART))),
    ("update-ratio-off", log(update_ratio=np.full(N, -3.0))),
    # Constant weights could not move the loss.
    ("update-ratio-off", log(update_ratio=np.full(N, 1e-8))),
    # Large updates during the warm-up alone.
    ("update-ratio-off", log(update_ratio=np.where(PART < 0.2, 0.5, 0.001))),
    ("dead-neurons", log(dead_fraction=np.where(PART < 0.3, HIGH, LOW))),
    ("activation-saturated", log(saturated_fraction=np.where(PART < 0.3, HIGH, LOW))),
    # An induction head attends to one token by design.
    (
        "attention-entropy-collapse",
        log(
            attention_entropy__0=COLLAPSED,
            attention_entropy__1=3 + LOW,
            attention_entropy__2=3 + LOW,
        ),
    ),
    ("attention-entropy-collapse", log(attention_entropy=4 - 2 * PART)),
]


@pytest.mark.parametrize(("slug", "run", "says"), CASES)
def test_symptom_is_reported(symptom, slug, run, says):
    assert says in symptom(slug, run).first_action


@pytest.mark.parametrize(("slug", "run"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run):
    assert symptom(slug, run) is None


def shrinking_norm(line):
    """Return a text log with a norm that falls to a third and stays there."""
    return "\n".join(
        line.format(step=step, loss=2 + 3 * np.exp(-step / 100), norm=3 + 7 * np.exp(-step / 50))
        for step in range(1, 601)
    )


@pytest.mark.parametrize(
    ("optimizer", "line", "is_reported"),
    [
        ("adam", "step: {step} | loss: {loss:.4f} | weight_norm: {norm:.3f}", True),
        ("adamw", "step: {step} | loss: {loss:.4f} | weight_norm: {norm:.3f}", False),
        # Megatron's Adam is AdamW.
        (
            "adam",
            " iteration {step}/ 600 | lm loss: {loss:.6E} | grad norm: 1.1 | params norm: "
            "{norm:.3f} |",
            False,
        ),
    ],
)
def test_the_usual_weight_decay_depends_on_the_optimizer(tmp_path, optimizer, line, is_reported):
    path = tmp_path / "train.log"
    path.write_text(shrinking_norm(line), encoding="utf-8")
    report = stabdiag.diagnose(path, manifest={"optimizer": optimizer, "weight_decay": 0.1})
    assert report.history.group("weight_norm")
    assert ("weight-norm-shrinking" in {item.slug for item in report.findings}) is is_reported


def test_weight_decay_of_the_wrong_sign_is_not_extended_to_more_weights(symptom):
    finding = symptom("weight-norm-runaway", CASES[0][1], {"weight_decay": -0.1})
    assert finding.actions[0].kind == "fix-weight-decay"


def test_a_single_norm_outlier_is_not_growth(symptom):
    sparse = np.where(np.arange(N) % (N // 20) == 0, 10.0, np.nan)
    sparse[np.flatnonzero(np.isfinite(sparse))[-1]] = 2e4
    assert symptom("weight-norm-runaway", log(weight_norm=sparse)) is None


@pytest.mark.parametrize(
    ("decay", "kind"),
    [(0.1, "lower-weight-decay"), (0.0, "check-model"), (-0.1, "fix-weight-decay")],
)
def test_a_nonpositive_decay_is_not_halved(symptom, decay, kind):
    run = log(weight_norm__emb=10 * np.exp(-3 * PART))
    finding = symptom("weight-norm-shrinking", run, {"weight_decay": decay})
    assert finding.actions[0].kind == kind


@pytest.mark.parametrize(
    ("update", "is_off"),
    [(2.0, True), (0.01, False), (50.0, False)],
    ids=["a fifth", "a thousandth", "before the learning rate"],
)
def test_norms_of_updates_are_compared_with_norms_of_weights(symptom, update, is_off):
    norms = {"update_norm": np.full(N, update), "param_norm": 10 + PART}
    finding = symptom("update-ratio-off", log(**norms))
    assert (finding is not None) is is_off
    assert finding is None or finding.severity == "note"


def test_a_gradient_norm_is_no_norm_of_updates(symptom):
    norms = {"update_norm": 2 + 0 * PART, "grad_norm": 2 + 0 * PART, "param_norm": 10 + PART}
    assert symptom("update-ratio-off", log(**norms)) is None
