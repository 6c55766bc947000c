"""Lines that list their names in front of their values."""

import numpy as np
import pytest

import stabdiag

LOSSES = [2.3 * np.exp(-n / 9) + 0.2 + 0.01 * (n * 7 % 5) for n in range(1, 31)]


@pytest.fixture
def history(tmp_path):
    def read(line):
        path = tmp_path / "run.txt"
        path.write_text(
            "".join(
                line.format(n=n, loss=loss, val=loss + 0.3, acc=n / 40) + "\n"
                for n, loss in enumerate(LOSSES, start=1)
            )
        )
        return stabdiag.read(path)

    return read


@pytest.mark.parametrize(
    "line",
    [
        "epoch, loss, acc: {n} {loss:.4f} {acc:.4f}",
        "2026-01-02 10:15:00 epoch,loss,acc: {n}, {loss:.4f}, {acc:.4f}",
        "(epoch, loss, acc) = ({n}, {loss:.4f}, {acc:.4f})",
        "epoch | loss | acc = {n} | {loss:.4f} | {acc:.4f}",
        "Epoch/Loss/Acc: {n}/{loss:.4f}/{acc:.4f}",
        "epoch loss acc {n} {loss:.4f} {acc:.4f}",
        "[epoch, loss, acc] = [{n}, {loss:.4f}, {acc:.4f}]",
        "main - L12 ::: train, epoch, loss, acc ===> {n:03d}, {loss:.4f}, {acc:.4f},",
    ],
)
def test_names_in_front_of_their_values(history, line):
    series = history(line).series
    assert series["loss"].steps.tolist() == [*range(1, 31)]
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert series["accuracy"].values[-1] == 0.75


def test_losses_of_both_splits_in_a_list(history):
    series = history("epoch,train loss,val loss: {n}, {loss:.4f}, {val:.4f}").series
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert series["eval_loss"].values == pytest.approx(np.add(LOSSES, 0.3), abs=1e-4)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {n} Loss train/val: {loss:.4f}/{val:.4f}",
        "Epoch {n} losses (train, val): {loss:.4f}, {val:.4f}",
        "Epoch {n}, loss [train/test] = {loss:.4f} / {val:.4f}, lr 0.001",
    ],
)
def test_splits_that_share_the_word_for_a_loss(history, line):
    series = history(line).series
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert series["eval_loss"].values == pytest.approx(np.add(LOSSES, 0.3), abs=1e-4)


@pytest.mark.parametrize(
    "line",
    [
        "Batch: {n}/8000, Loss box/mask/total={acc:.4f}/0.1234/{loss:.4f}, LR=0.001",
        "step {n} loss (total/box/mask): {loss:.4f}/{acc:.4f}/0.1234",
        "step {n} Loss:(total, box, mask)/({loss:.4f}, {acc:.4f}, 0.1234)",
        "step {n}, Loss: (total, box, mask) = ({loss:.4f}, {acc:.4f}, 0.1234)",
    ],
)
def test_the_total_of_losses_in_a_list(history, line):
    series = history(line).series
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert series["other_loss/box loss"].values[-1] == 0.75
    assert set(series["other_loss/mask loss"].values) == {0.1234}


def test_criteria_that_share_the_word_for_a_loss(history):
    series = history("epoch {n} loss (mse/kl) {loss:.4f}/{acc:.4f}").series
    assert series["other_loss/mse loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert series["other_loss/kl loss"].values[-1] == 0.75


def test_an_accuracy_in_a_list_is_no_loss(history):
    series = history("epoch {n} Loss:(loss, acc)/({loss:.4f}, {acc:.4f})").series
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)
    assert not any(role.startswith("other_loss") for role in series)


@pytest.mark.parametrize(
    "line",
    [
        "epoch {n} train/val loss = {loss:.4f}/{val:.4f}",
        "epoch {n}, loss: {loss:.4f}, val_loss: {val:.4f}",
    ],
)
def test_values_behind_each_name_are_not_moved(history, line):
    series = history(line).series
    assert series["loss"].steps.tolist() == [*range(1, 31)]
    assert series["loss"].values == pytest.approx(LOSSES, abs=1e-4)


def test_a_list_whose_loss_goes_nan(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(f"epoch, loss: {n}, {loss if n < 20 else 'nan'}\n" for n, loss in enumerate(LOSSES))
    )
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 20)


@pytest.mark.parametrize("value", ["nan", "inf", "NaN"])
def test_a_value_that_is_not_finite_is_not_a_part_of_a_name(tmp_path, value):
    """With a decimal comma, the accuracy looks like the values of two names."""
    path = tmp_path / "run.log"
    lines = [
        f"step {10 * n}: loss {f'{3 - n / 40:.4f}' if n < 48 else value}, accuracy {50 + n},0 %"
        for n in range(80)
    ]
    path.write_text("\n".join(lines).replace(".", ",") + "\n")
    report = stabdiag.diagnose(path)
    assert not np.isfinite(report.history.series["loss"].values[-1])
    assert report.diagnosis.severity == "error"
