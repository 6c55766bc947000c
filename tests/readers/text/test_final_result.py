"""The result of an evaluation below the last epoch, under the name of the training loss."""

from __future__ import annotations

import pytest

import stabdiag
from stabdiag.model.findings import Severity


def keras(epoch: int, loss: float) -> str:
    """Return an epoch of Keras: a heading, and a bar below it."""
    return (
        f"Epoch {epoch}/20\n400/400 [==============================] - 9s 22ms/step"
        f" - loss: {loss:.4f} - accuracy: {1 - loss / 4:.4f} - val_loss: {loss + 0.1:.4f}\n"
    )


def heading(epoch: int, loss: float) -> str:
    """Return an epoch with its loss below a heading."""
    return f"Epoch {epoch}/20\nloss: {loss:.4f} time: 3.1s\n"


@pytest.fixture(params=[keras, heading])
def epochs(request):
    """Return 20 epochs whose loss falls."""
    return "".join(request.param(n, 0.2 + 2 / n) for n in range(1, 21))


@pytest.mark.parametrize(
    "end",
    [
        "loss :  1.0610127\naccuracy :  0.6467\n",
        "loss: 1.0610 acc: 0.6467\n",
        "Epoch 00020: early stopping\nloss: 1.0610\n",
    ],
)
def test_the_result_of_an_evaluation_is_no_loss_of_the_last_epoch(epochs, end, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(epochs + end)
    report = stabdiag.diagnose(path)
    assert report.diagnosis.severity is Severity.OK
    assert report.history.logged("loss").values[-1] == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["Final loss", "final train loss", "Training loss", "avg loss"])
def test_a_last_loss_that_is_not_finite_is_the_end_of_the_training(epochs, name, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(f"{epochs}{name}: nan\n")
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.severity, diagnosis.step) == (Severity.ERROR, 20)


def test_a_last_evaluation_that_is_not_finite_is_a_warning(epochs, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(f"{epochs}Test loss: nan, accuracy: 0.10\n")
    assert stabdiag.diagnose(path).diagnosis.slug == "eval-nonfinite"


def test_below_another_heading_a_loss_is_the_next_record(epochs, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(f"{epochs}Epoch 21/30\nloss: 7.5000\n")
    history = stabdiag.diagnose(path).history
    assert history.logged("loss").values[-1] == pytest.approx(7.5)


def test_a_loss_of_an_evaluation_that_is_not_json_is_not_ignored(tmp_path):
    path = tmp_path / "train.jsonl"
    records = "".join(f'{{"step": {n}, "loss": {0.2 + 2 / n}}}\n' for n in range(1, 31))
    path.write_text(f"{records}Test loss: nan, accuracy: 0.10\n")
    assert stabdiag.diagnose(path).diagnosis.slug == "partly-read"


@pytest.mark.parametrize("bars", [1, 3])
def test_the_loss_of_the_test_of_one_epoch_is_printed_again(bars, tmp_path):
    path = tmp_path / "train.log"
    drawn = "".join(
        f"{n}/400 [=====>........] - ETA: 1s - loss: 0.2149 - acc: 0.9294\n" for n in range(1, bars)
    )
    path.write_text(
        f"Epoch 9/20\n{drawn}"
        "400/400 [==============================] - 9s - loss: 0.2149 - acc: 0.9294\n"
        "80/80 [==============================] - 1s - loss: 1.0610 - acc: 0.6468\n"
        "loss :  1.0610127449035645\naccuracy :  0.6467999815940857\n"
    )
    series = stabdiag.diagnose(path).history.series
    assert set(series["loss"].values) == {0.2149}
