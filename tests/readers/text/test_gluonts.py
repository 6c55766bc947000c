"""The bars and metrics of GluonTS."""

import math

import pytest

import stabdiag

METRIC = "INFO:trainer:Epoch[{}] Evaluation metric '{}epoch_loss'={:.4f}\n"
LOSSES = [4.5, 4.25, 3.75, 3.5]


@pytest.fixture
def diagnose(tmp_path):
    def diagnose(text):
        path = tmp_path / "log"
        path.write_text(text)
        return stabdiag.diagnose(path)

    return diagnose


def bar(epoch, loss, counted):
    count = f"epoch={epoch + 1}/9, " if counted else ""
    return f"100%|███| 50/50 [00:03<00:00, 13.50it/s, {count}avg_epoch_loss={loss:.3g}]\n"


@pytest.mark.parametrize("counted", [True, False])
def test_the_metric_of_an_epoch_repeats_its_bar(diagnose, counted):
    text = "".join(
        f"INFO:trainer:Epoch[{n}] Learning rate is 0.001\n{bar(n, loss, counted)}"
        f"INFO:trainer:Epoch[{n}] Elapsed time 3.5 seconds\n{METRIC.format(n, '', loss)}"
        for n, loss in enumerate(LOSSES)
    )
    series = diagnose(text).history.series
    assert series["loss"].values.tolist() == LOSSES
    assert "eval_loss" not in series
    diagnosis = diagnose(text + bar(4, math.nan, counted)).diagnosis
    assert diagnosis.slug == "nan-dtype-unknown"


def test_metrics_without_bars(diagnose):
    text = "".join(
        METRIC.format(n, "", loss) + METRIC.format(n, "validation_", loss + 1)
        for n, loss in enumerate(LOSSES)
    )
    series = diagnose(text).history.series
    assert series["loss"].values.tolist() == LOSSES
    assert series["eval_loss"].values.tolist() == [loss + 1 for loss in LOSSES]
