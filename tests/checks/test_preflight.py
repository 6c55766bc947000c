"""Checks of a manifest before the launch."""

import pytest

from stabdiag.checks.preflight import CHECKS, preflight
from stabdiag.model.checks import State
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import parse_manifest

GOOD = {
    "dtype": "bf16",
    "optimizer": "adamw",
    "peak_lr": 3e-4,
    "warmup_steps": 2000,
    "total_steps": 100_000,
    "schedule": "cosine",
    "lr_decay_iters": 100_000,
    "grad_clip": 1.0,
    "weight_decay": 0.1,
    "label_smoothing": 0.1,
    "dropout": 0.1,
    "epsilon": 1e-8,
    "checkpoint_every": 1000,
    "eval_interval": 1000,
    "vocab_size": 50257,
    "seed": 1,
}


def items_by_slug(raw, limits=None):
    report = preflight(parse_manifest(raw), limits or Limits())
    return {item.slug: item for item in report.checks}


def get_item(slug, limits=None, **changes):
    """Return one item for the good manifest with some keys changed; None removes a key."""
    raw = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    return items_by_slug(raw, limits)[slug]


@pytest.mark.parametrize(
    ("raw", "state", "begins"), [(GOOD, State.PASSED, "None of 13"), ({}, State.UNKNOWN, "None of")]
)
def test_a_good_configuration_is_fine_and_an_empty_one_unknown(raw, state, begins):
    report = preflight(parse_manifest(raw), Limits())
    settings, trials = report.sections.values()
    assert {item.state for item in settings} == {state}
    assert {item.state for item in trials} == {State.MANUAL}
    assert report.summary.startswith(begins)
    slugs = [item.slug for item in report.checks]
    assert len(set(slugs)) == len(slugs)
    assert len(settings) == len(CHECKS)


@pytest.mark.parametrize(
    ("slug", "changes", "severity"),
    [
        ("peak-lr", {"peak_lr": 0}, Severity.ERROR),
        ("peak-lr", {"peak_lr": 0.3}, Severity.WARNING),
        ("peak-lr", {"peak_lr": 1e-8}, Severity.WARNING),
        ("peak-lr", {"optimizer": "lion", "peak_lr": 3e-3}, Severity.WARNING),
        ("peak-lr", {"optimizer": "SGD", "peak_lr": 3}, Severity.WARNING),
        ("label-smoothing", {"label_smoothing": 0.6}, Severity.WARNING),
        ("dropout", {"dropout": 0.9}, Severity.WARNING),
        # Usual from scratch, and far too high for a pretrained model.
        ("peak-lr", {"peak_lr": 5e-3, "init_from": "gpt2"}, Severity.WARNING),
        ("warmup", {"warmup_steps": 0}, Severity.WARNING),
        ("warmup", {"warmup_steps": 0, "optimizer": "sgd"}, Severity.NOTE),
        ("warmup", {"warmup_steps": 50_000}, Severity.WARNING),
        ("warmup", {"warmup_steps": 20}, Severity.WARNING),
        ("warmup", {"warmup_steps": 200_000}, Severity.ERROR),
        ("schedule-length", {"lr_decay_iters": 60_000}, Severity.WARNING),
        ("schedule-length", {"lr_decay_iters": 300_000}, Severity.WARNING),
        ("schedule-length", {"schedule": "constant_with_warmup"}, Severity.NOTE),
        ("grad-clip", {"grad_clip": 0}, Severity.WARNING),
        ("grad-clip", {"grad_clip": 0, "optimizer": "sgd"}, Severity.NOTE),
        ("grad-clip", {"grad_clip": 0.001}, Severity.NOTE),
        ("grad-clip", {"grad_clip": 1000}, Severity.NOTE),
        ("weight-decay", {"weight_decay": -0.1}, Severity.ERROR),
        ("weight-decay", {"weight_decay": 5}, Severity.WARNING),
        ("epsilon", {"epsilon": 0}, Severity.ERROR),
        ("epsilon", {"dtype": "fp16"}, Severity.NOTE),
        ("epsilon", {"optimizer": "adamw", "epsilon": 0.1}, Severity.WARNING),
        ("dtype", {"dtype": "fp16"}, Severity.NOTE),
        ("loss-scaling", {"dtype": "fp16", "static_loss_scale": True}, Severity.WARNING),
        ("checkpoints", {"checkpoint_every": 200_000}, Severity.ERROR),
        ("checkpoints", {"checkpoint_every": 50_000}, Severity.WARNING),
        ("evaluations", {"eval_interval": 40_000}, Severity.WARNING),
        ("evaluations", {"eval_strategy": "no"}, Severity.WARNING),
    ],
)
def test_unusual_settings_fail(slug, changes, severity):
    item = get_item(slug, **changes)
    assert (item.state, item.severity) == (State.FAILED, severity)
    assert all(
        text.endswith(".") for text in (item.summary, *(action.text for action in item.actions))
    )
    assert item.actions


@pytest.mark.parametrize(
    ("slug", "changes", "state"),
    [
        ("peak-lr", {"optimizer": "sgd", "peak_lr": 0.1}, State.PASSED),
        ("peak-lr", {"optimizer": "adamw_torch_fused", "peak_lr": 6e-4}, State.PASSED),
        ("peak-lr", {"optimizer": "muon"}, State.UNKNOWN),
        ("peak-lr", {"optimizer": None}, State.UNKNOWN),
        ("warmup", {"warmup_steps": 0, "warmup_ratio": 0.03}, State.PASSED),
        ("warmup", {"total_steps": None}, State.PASSED),
        (
            "warmup",
            {"warmup_steps": 0, "warmup_ratio": 0.03, "total_steps": None},
            State.UNKNOWN,
        ),
        # A ratio above 1 is a number of steps.
        ("warmup", {"warmup_steps": None, "warmup_ratio": 2000}, State.UNKNOWN),
        ("epsilon", {"optimizer": "sgd", "epsilon": 0}, State.PASSED),
        ("epsilon", {"optimizer": "rmsprop", "epsilon": 0.1}, State.PASSED),
        ("epsilon", {"optimizer": "adamw", "epsilon": 1e-3}, State.PASSED),
        ("epsilon", {"dtype": "fp16", "loss_scale_window": 1000}, State.PASSED),
        ("loss-scaling", {"dtype": "fp16", "loss_scale_window": 1000}, State.PASSED),
        ("loss-scaling", {"dtype": "fp32"}, State.PASSED),
        ("loss-scaling", {"dtype": "fp16"}, State.UNKNOWN),
        ("schedule-length", {"lr_decay_iters": 99_000}, State.PASSED),
        ("schedule-length", {"lr_decay_iters": None}, State.UNKNOWN),
        ("schedule-length", {"total_steps": None, "num_train_epochs": 3}, State.UNKNOWN),
        ("evaluations", {"eval_interval": 0.25}, State.PASSED),
        ("checkpoints", {"total_steps": None}, State.PASSED),
    ],
)
def test_near_misses_are_fine_or_unknown(slug, changes, state):
    assert get_item(slug, **changes).state is state


def test_nested_keys_of_frameworks_are_found():
    raw = {"trainer": {"max_steps": 1000, "val_check_interval": 500}, "optim": {"warmup_ratio": 1}}
    items = items_by_slug(raw)
    assert "2 in the run" in items["evaluations"].summary
    assert items["warmup"].severity is Severity.ERROR


def test_limits_can_be_overridden():
    limits = Limits().override({"preflight.adam_lr_high": 1.0})
    assert get_item("peak-lr", limits, peak_lr=0.3).state is State.PASSED


def test_the_first_loss_names_the_loss_of_guessing():
    assert "log 50257 = 10.82" in get_item("initial-loss").summary
    assert "log K" in get_item("initial-loss", vocab_size=None).summary


def test_a_null_means_that_gradients_are_not_clipped():
    assert items_by_slug({"grad_clip": None})["grad-clip"].state is State.FAILED


def test_a_single_step_is_in_the_singular():
    assert get_item("checkpoints", checkpoint_every=1).summary.startswith("One every step;")
    assert "1 steps" not in get_item("warmup", warmup_steps=1).summary


@pytest.mark.parametrize(("peak", "to"), [(30, "to 0.01 "), (0.05, "to 0.005 ")])
def test_the_suggested_learning_rate_is_not_too_high_either(peak, to):
    assert to in get_item("peak-lr", peak_lr=peak).first_action
