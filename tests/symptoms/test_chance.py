"""Guessing, as shown by the accuracy logged with a loss."""

import math

import numpy as np
import pytest

import stabdiag

FOUR = math.log(4)
ENTROPY = -0.85 * math.log(0.85) - 0.15 * math.log(0.15)
SHAKY = np.array([0.004, -0.002, 0.003, -0.001, 0.002, -0.003, 0.001, 0.0])
SIX = 1.32 + SHAKY + np.array([0.3, 0.1] + [0.0] * 6)


def epochs(eval_loss, accuracy, loss=None):
    """Return epochs with evaluations, as Keras logs them."""
    loss = eval_loss if loss is None else loss
    return {
        "epoch": np.arange(len(eval_loss)),
        "loss": loss,
        "val_loss": eval_loss,
        "val_accuracy": np.broadcast_to(accuracy, len(eval_loss)),
    }


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (epochs(FOUR + SHAKY[:4], [0.23, 0.27, 0.25, 0.25]), "among 4 classes"),
        (epochs(FOUR + SHAKY, 25.0), "among 4 classes"),
        (epochs(math.log(2) + SHAKY, [0.5, 0.48, 0.51, 0.5] * 2), "among 2 classes"),
        (epochs(ENTROPY + SHAKY, 0.85), "the more frequent of two classes"),
        # The accuracy is constant and the loss slightly below chance; part of a log.
        (epochs(0.97 * ENTROPY + SHAKY, 0.85), "the more frequent of two classes"),
        (
            epochs(0.68 + SHAKY, 0.5298) | {"epoch": np.arange(65, 73)},
            "the more frequent of two classes",
        ),
        # Six classes; one has 60% of the examples.
        (epochs(SIX, 0.6), "always predicting the same class"),
        # Only the training accuracy.
        (
            {"epoch": np.arange(8), "loss": FOUR + SHAKY, "accuracy": np.full(8, 0.25)},
            "among 4 classes",
        ),
    ],
)
def test_accuracy_confirms_guessing_early(symptom, run, says):
    finding = symptom("plateau-at-chance", run)
    assert finding.severity == "warning"
    assert says in finding.summary
    assert finding.actions[0].kind == "try-small"


@pytest.mark.parametrize(
    ("level", "is_guess"), [(1.32, True), (1.75, True), (2.2, False), (12, False)]
)
def test_the_same_class_costs_at_most_the_entropy_of_equal_classes(symptom, level, is_guess):
    run = epochs(SIX - 1.32 + level, 0.6)
    finding = symptom("plateau-at-chance", run, manifest={"vocab_size": 6})
    assert (finding is not None) is is_guess


def test_guessing_after_a_jump_lowers_the_rate(symptom):
    eval_loss = FOUR + np.abs(SHAKY)
    run = epochs(np.append([30.0, 4.0], eval_loss), 0.25)
    finding = symptom("plateau-at-chance", run)
    assert [action.kind for action in finding.actions].count("lower-lr") == 1
    assert finding.actions[0].kind == "lower-lr"


def test_many_epochs_of_guessing_are_an_error(symptom):
    finding = symptom("plateau-at-chance", epochs(FOUR + np.tile(SHAKY, 3), 0.25))
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "run",
    [
        # Right more often than a guess.
        epochs(FOUR + SHAKY, 0.4),
        # The majority is not always named.
        epochs(ENTROPY + SHAKY, [0.85, 0.84] * 4),
        # Slightly below chance, and the accuracy moved.
        epochs(0.97 * ENTROPY + SHAKY, [0.84] + [0.85] * 7),
        # Several classes, but the training is better or worse; the accuracy moved; the loss moves;
        # it is lower than the guess; it did not fall.
        epochs(SIX, 0.6, 0.92 * SIX),
        epochs(SIX, 0.6, 1.08 * SIX),
        epochs(SIX, [0.5] + [0.6] * 7),
        epochs(SIX + 30 * SHAKY, 0.6),
        epochs(SIX / 4, 0.6),
        epochs(1.32 + SHAKY, 0.6),
        # Better than the majority, all alike.
        epochs(0.8 * ENTROPY + SHAKY, 0.85),
        # It learned to guess less.
        epochs(np.append(FOUR + SHAKY, 1.2), [0.25] * 8 + [0.4]),
        # It falls in every epoch, if slowly.
        epochs(np.linspace(FOUR, 0.992 * FOUR, 8), 0.25),
        # The training learns.
        epochs(FOUR + SHAKY, 0.25, loss=np.linspace(FOUR, 0.3, 8)),
        # A policy.
        {**epochs(FOUR + SHAKY, 0.25), "reward": np.arange(8)},
        # Two are too few.
        epochs(FOUR + SHAKY[:2], 0.25),
    ],
)
def test_near_miss_is_not_reported(symptom, run):
    assert symptom("plateau-at-chance", run) is None


RANDOM = np.random.default_rng(0)
SPREAD = 1.4 + RANDOM.normal(0, 0.15, 400)
CENTER = RANDOM.normal(0, 0.25, 400)
COST = SPREAD**2 + CENTER**2


def regression(loss, eval_loss=2.1):
    """Return a recorded regression; the evaluation is logged every 20 steps."""
    steps = np.arange(1, 401)
    evaluated = np.where(steps % 20 == 0, eval_loss, None)
    return {
        "step": steps,
        "loss": loss,
        "eval_loss": evaluated,
        "recorder/target_std": SPREAD,
        "recorder/target_mean": CENTER,
    }


def test_a_regression_that_predicts_the_mean_is_reported(symptom):
    finding = symptom(
        "plateau-at-chance", regression(COST * RANDOM.normal(0.99, 0.01, 400)), {"total_steps": 400}
    )
    assert finding.severity == "warning"
    assert "predicting the mean of the targets" in finding.summary
    assert finding.evidence["variance"] == pytest.approx(COST.mean(), rel=0.05)


@pytest.mark.parametrize(
    "run",
    [
        # It explains a tenth of the variance, or did until the end.
        regression(0.9 * COST, 1.9),
        regression(COST * np.linspace(1.1, 0.9, 400), 1.9),
        # Evaluations are better than the mean.
        regression(COST, np.linspace(2.0, 1.5, 400)),
        # Another loss, whose mean happens to be the variance.
        regression(RANDOM.permutation(COST)),
    ],
)
def test_a_regression_that_learns_is_not_reported(symptom, run):
    assert symptom("plateau-at-chance", run, {"total_steps": 400}) is None


def test_vanished_weights_and_gradients_come_first(symptom):
    rng = np.random.default_rng(0)
    steps = np.arange(600)
    log = {"step": steps, "loss": np.log(10) + rng.normal(0, 0.005, 600)}
    finding = symptom("plateau-at-chance", log)
    assert finding.actions[0].kind == "try-small"
    shrinking = {"weight_norm/head": 5 * np.exp(-steps / 20)}
    finding = symptom("plateau-at-chance", log | shrinking)
    assert finding.actions[0].kind == "lower-weight-decay"


def test_a_low_rate_is_not_lowered(symptom):
    steps = np.arange(600)
    loss = np.log(10) + np.random.default_rng(0).normal(0, 0.005, 600)
    for rate, is_lowered in ((3e-5, False), (3e-2, True)):
        log = {"step": steps, "loss": loss, "lr": np.full(600, rate)}
        kinds = [action.kind for action in symptom("plateau-at-chance", log).actions]
        assert ("lower-lr" in kinds) == is_lowered


def test_one_loss_next_to_evaluations_at_chance_is_a_plateau(tmp_path):
    lines = [f"Epoch {n}/50 - Val Loss: 0.693{n % 3}, Val Acc: 0.502{n % 4}" for n in range(1, 13)]
    lines[0] = "Epoch 1/50 - Train Loss: 0.7008 - Val Loss: 0.6931, Val Acc: 0.5021"
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    assert stabdiag.diagnose(path).diagnosis.slug == "plateau-at-chance"


@pytest.mark.parametrize(("accuracy", "is_stuck"), [(0.5, True), (0.68, False)])
def test_a_training_loss_next_to_the_accuracy_of_evaluations(symptom, accuracy, is_stuck):
    shaky = [accuracy, accuracy + 0.01, accuracy - 0.01, accuracy, accuracy]
    log = {"epoch": range(1, 6), "loss": math.log(2) + SHAKY[:5] / 10, "val_acc": shaky}
    assert (symptom("plateau-at-chance", log) is not None) is is_stuck


@pytest.mark.parametrize(("level", "is_near"), [(math.log(10), True), (2.0, False)])
def test_a_few_losses_near_that_of_a_guess_are_called_so(level, is_near):
    log = {"step": [100, 200, 300, 400], "loss": level + SHAKY[:4]}
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert ("within 1% of 2.303, the loss of a guess among 10 classes" in summary) is is_near
