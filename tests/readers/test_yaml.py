"""Histories in YAML: lists by name, and mappings by epoch."""

import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = [2.5, 2.0, 1.5, 1.25, 1.0, 0.75]


def listed(name, indent=""):
    return f"{indent}{name}:\n" + "".join(f"{indent}- {loss}\n" for loss in LOSSES)


@pytest.mark.parametrize(
    "text",
    [
        listed("train_loss") + listed("val_loss"),
        "lr: 0.1\nlayers:\n- 64\n- 64\n- 10\n" + listed("loss") + listed("val_loss"),
        "history:\n" + listed("loss", "  ") + listed("val_loss", "  ") + "epochs: 6\n",
        listed("loss") + listed("val_loss").replace("- ", "  - "),
    ],
)
def test_lists_are_columns(put, text):
    series = stabdiag.read(put(text, "history.yaml")).series
    assert series["loss"].values.tolist() == LOSSES
    assert series["eval_loss"].values.tolist() == LOSSES


@pytest.mark.parametrize(
    "key", ["epoch_{}", "'epoch_{}'", "Epoch-{}", "epoch{:03d}", "step_{}", "{}"]
)
def test_mappings_count(put, key):
    text = "".join(
        f"{key.format(n)}:\n  loss: {loss}\n  val_loss: {loss + 1}\n"
        for n, loss in enumerate(LOSSES, start=5)
    )
    series = stabdiag.read(put(text, "history.yaml")).series
    assert series["loss"].values.tolist() == LOSSES
    assert series["loss"].steps.tolist() == [5, 6, 7, 8, 9, 10]


def test_lists_of_settings_are_refused(put):
    with pytest.raises(LogError):
        stabdiag.read(put("model: oak\nwidths:\n- 0.25\n- 0.5\n- 1.5\n- 2.5\n", "model.yaml"))
