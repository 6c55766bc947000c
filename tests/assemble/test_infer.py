"""Inference between the manifest and a log that counts epochs."""

import json

import numpy as np
import pytest

import stabdiag
from stabdiag.api import postmortem

COUNTS = {"warmup_steps": 500, "total_steps": 40_000, "checkpoint_every": 1000}


def epochs(*, stays_up=False):
    at = np.arange(60)
    loss = 2.0 + np.exp(-at / 10) + 0.01 * np.random.default_rng(1).normal(size=60)
    if stays_up:
        loss[40:] += 4.0
    lr = 1e-3 * np.minimum(1.0, (at + 1) / 5)
    return {"epoch": at, "loss": loss, "lr": lr, "val_loss": loss + 0.1}


def test_a_warm_up_in_steps_is_not_compared_with_epochs():
    report = stabdiag.diagnose(epochs(), manifest={"dtype": "fp32", **COUNTS})
    assert [finding.slug for finding in report.findings] == ["healthy"]
    (message,) = (
        event.message for event in report.history.events if "counts epochs" in event.message
    )
    assert all(name in message for name in COUNTS)


@pytest.mark.parametrize(
    ("counts", "left_out"),
    [
        ({"checkpoint_every": 60, "total_steps": 600}, False),
        ({"checkpoint_every": 61}, True),
        ({"checkpoint_every": 10, "warmup_steps": 500}, True),
        ({"checkpoint_every": 10, "total_steps": 601}, True),
    ],
)
def test_counts_that_fit_the_epochs_are_in_epochs(counts, left_out):
    manifest = stabdiag.diagnose(epochs(), manifest=counts).manifest
    assert (manifest.checkpoint_every is None) == left_out


def test_a_cadence_given_by_hand_is_in_epochs():
    report = stabdiag.diagnose(
        epochs(stays_up=True), manifest={**COUNTS}, settings={"checkpoint_every": 10}
    )
    assert report.diagnosis.first_action.startswith("Reload the checkpoint of epoch 30,")
    text = postmortem(report)
    assert "every 10 epochs" in text
    assert "| Epoch | Event |" in text
    assert "no time stamps" in text


def test_a_constant_setting_goes_to_the_manifest():
    fixed = {"weight_decay": [0.1] * 60, "optimizer": ["adamw"] * 60, "epsilon": [0.05] * 60}
    groups = {"grad_clip/group0": [1.0] * 60, "grad_clip/group1": [2.0] * 60}
    log = epochs() | fixed | groups | {"batch_size": [32] * 30 + [64] * 30}
    manifest = stabdiag.diagnose(log).manifest
    assert manifest.known == {"weight_decay": 0.1, "optimizer": "adamw"}
    assert manifest.logged == ("optimizer", "weight_decay")
    assert stabdiag.diagnose(log, manifest={"weight_decay": 0.2}).manifest.weight_decay == 0.2


@pytest.mark.parametrize(
    ("column", "optimizer"),
    [("lr-AdamW", "adamw"), ("lr-SGD/pg1", "sgd"), ("lr", None), ("lr-adamant", None)],
)
def test_a_learning_rate_is_named_after_its_optimizer(column, optimizer):
    log = epochs()
    log[column] = log.pop("lr")
    manifest = stabdiag.diagnose(log, columns={"lr": column}).manifest
    assert manifest.optimizer == optimizer
    assert ("optimizer" in manifest.inferred) == (optimizer is not None)


@pytest.mark.parametrize(("rate", "optimizer"), [(0.01, "adamw"), (0.05, None)])
def test_a_rate_unusual_for_adamw_rules_it_out(tmp_path, rate, optimizer):
    records = [{"step": at, "loss": 2.0 / at, "learning_rate": rate} for at in range(1, 9)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": records}))
    assert stabdiag.diagnose(tmp_path).manifest.optimizer == optimizer


def test_the_hf_trainer_uses_adamw_by_default(tmp_path):
    records = [{"step": at, "loss": 2.0 / at} for at in range(1, 9)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": records}))
    assert stabdiag.diagnose(tmp_path).manifest.optimizer == "adamw"
    (tmp_path / "manifest.json").write_text('{"optim": "adafactor"}')
    assert stabdiag.diagnose(tmp_path).manifest.optimizer == "adafactor"
