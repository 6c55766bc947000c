"""Lines about the best model so far are not records of the run."""

from __future__ import annotations

import math

import pytest

import stabdiag

EPOCHS = range(1, 31)
BESTS = (
    "New best model at epoch {n} | loss: {loss:.4f}",
    "Epoch {n}: saved the model, loss: {loss:.4f}",
    "Validation improved at epoch {n}; loss = {loss:.4f}",
)


def log(record: str, best: str, losses: list[float]) -> str:
    """Return a log with a line about each new best model."""
    lines, lowest = [], math.inf
    for n, loss in zip(EPOCHS, losses, strict=True):
        lines.append(record.format(n=n, loss=loss))
        if loss < lowest:
            lines.append(best.format(n=n, loss=loss))
        lowest = min(loss, lowest)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("best", BESTS)
def test_a_loss_that_climbs_is_found_next_to_its_best_values(best, tmp_path):
    losses = [0.2 + 2 / n if n < 16 else 0.3 + 0.2 * (n - 15) for n in EPOCHS]
    path = tmp_path / "train.log"
    path.write_text(log("Epoch {n} | train loss: {loss:.4f}", best, losses))
    report = stabdiag.diagnose(path)
    assert len(report.history.logged("loss").values) == len(EPOCHS)
    assert report.diagnosis.slug == "divergence-unexplained"


def test_rewards_of_the_best_models_are_not_the_course_of_the_reward(tmp_path):
    rewards = [10.0 * n if n < 16 else 150 - 9 * (n - 15) for n in EPOCHS]
    lines = []
    for n, reward in zip(EPOCHS, rewards, strict=True):
        lines.append(f"Episode {50 * n} | Avg Reward (last 50): {reward:.2f} | Epsilon: 0.1")
        if n < 16:
            lines.append(f"New Best Model at Episode {50 * n - 3} | Reward: {reward + 5:.2f}")
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "reward-not-rising"
    assert len(report.history.logged("reward").values) == len(EPOCHS)


def test_without_other_records_the_best_models_are_read(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("".join(f"New best model at epoch {n} | loss: {1 / n:.4f}\n" for n in EPOCHS))
    assert len(stabdiag.read(path).series["loss"].values) == len(EPOCHS)


def test_a_record_that_names_the_best_value_is_a_record(tmp_path):
    path = tmp_path / "train.log"
    records = (f"Epoch {n} best_loss: {0.3 + 1 / n:.4f} loss: {0.4 + 1 / n:.4f}" for n in EPOCHS)
    evaluations = (f"Epoch {n} validation loss: {0.5 + 1 / n:.4f}" for n in EPOCHS)
    path.write_text("\n".join([*records, *evaluations]) + "\n")
    assert stabdiag.read(path).series["loss"].values[-1] == pytest.approx(0.4 + 1 / 30, abs=1e-3)


def test_a_log_that_goes_on_with_its_best_models_is_read_to_its_end(tmp_path):
    lines = [f"Epoch {n} | train loss: {1 + 2 / n:.4f}" for n in range(1, 16)]
    lines += [f"New best model at epoch {n} | loss: {1 + 2 / n:.4f}" for n in range(16, 31)]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    report = stabdiag.diagnose(path)
    assert report.history.logged("loss").steps.tolist() == [*EPOCHS]
    assert report.diagnosis.slug == "healthy"


def test_next_to_evaluations_the_best_models_have_the_only_training_loss(tmp_path):
    lines = []
    for n in range(1, 31):
        lines.append(f"Epoch {n} | val loss: {1 + 3 / n:.4f}")
        lines.append(f"Saved model of epoch {n} | loss: {1 + 2 / n:.4f}")
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    assert len(stabdiag.read(path).series["loss"].values) == 30
