"""What a manifest lets expect before the launch."""

from __future__ import annotations

from typing import Any

import pytest

from stabdiag.checks.preflight import CHECKS, preflight
from stabdiag.model.checks import State, Tick
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
    "epsilon": 1e-8,
    "checkpoint_every": 1000,
    "eval_interval": 1000,
    "vocab_size": 50257,
    "seed": 1,
}


def tick(slug: str, limits: Limits | None = None, **changes: Any) -> Tick:
    """Return one line for the good manifest with some keys changed; None takes a key out."""
    raw = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    sheet = preflight(parse_manifest(raw), limits or Limits())
    return next(tick for tick in sheet.ticks if tick.slug == slug)


def test_a_good_configuration_is_fine():
    sheet = preflight(parse_manifest(GOOD), Limits())
    assert [tick.slug for tick in sheet.lists[0].ticks if tick.state is not State.TICKED] == []
    assert sheet.summary == "None of 11 settings needs a look before the launch."


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        ("bf16", "bf16: its range is that of fp32."),
        ("fp64", "fp64: its range is wider than that of fp32."),
    ],
)
def test_the_range_of_a_dtype_is_told(dtype: str, told: str):
    assert tick("dtype", dtype=dtype).because == told


def test_an_empty_manifest_is_unknown_and_never_fine():
    sheet = preflight(parse_manifest({}), Limits())
    assert {tick.state for tick in sheet.lists[0].ticks} == {State.UNKNOWN}
    assert sheet.summary.startswith("Of 11 settings nothing could be checked")


@pytest.mark.parametrize(
    ("slug", "changes", "severity"),
    [
        ("peak-lr", {"peak_lr": 0}, Severity.ERROR),
        ("peak-lr", {"peak_lr": 0.3}, Severity.WARNING),
        ("peak-lr", {"peak_lr": 1e-8}, Severity.WARNING),
        ("peak-lr", {"optimizer": "lion", "peak_lr": 3e-3}, Severity.WARNING),
        ("peak-lr", {"optimizer": "SGD", "peak_lr": 3}, Severity.WARNING),
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
        ("dtype", {"dtype": "fp16"}, Severity.NOTE),
        ("loss-scaling", {"dtype": "fp16", "static_loss_scale": True}, Severity.WARNING),
        ("checkpoints", {"checkpoint_every": 200_000}, Severity.ERROR),
        ("checkpoints", {"checkpoint_every": 50_000}, Severity.WARNING),
        ("evaluations", {"eval_interval": 40_000}, Severity.WARNING),
        ("evaluations", {"eval_strategy": "no"}, Severity.WARNING),
    ],
)
def test_what_wants_a_look(slug: str, changes: dict[str, Any], severity: Severity):
    found = tick(slug, **changes)
    assert (found.state, found.severity) == (State.CROSSED, severity)
    assert found.because.endswith(".")
    assert all(action.endswith(".") for action in found.do)
    assert found.do


@pytest.mark.parametrize(
    ("slug", "changes"),
    [
        ("peak-lr", {"optimizer": "sgd", "peak_lr": 0.1}),
        ("peak-lr", {"optimizer": "adamw_torch_fused", "peak_lr": 6e-4}),
        ("warmup", {"warmup_steps": 0, "warmup_ratio": 0.03}),
        ("warmup", {"total_steps": None}),
        ("epsilon", {"optimizer": "sgd", "epsilon": 0}),
        ("epsilon", {"dtype": "fp16", "loss_scale_window": 1000}),
        ("loss-scaling", {"dtype": "fp16", "loss_scale_window": 1000}),
        ("loss-scaling", {"dtype": "fp32"}),
        ("schedule-length", {"lr_decay_iters": 99_000}),
        ("evaluations", {"eval_interval": 0.25}),
        ("checkpoints", {"total_steps": None}),
    ],
)
def test_near_misses_are_fine(slug: str, changes: dict[str, Any]):
    assert tick(slug, **changes).state is State.TICKED


@pytest.mark.parametrize(
    ("slug", "changes"),
    [
        ("peak-lr", {"optimizer": "muon"}),
        ("peak-lr", {"optimizer": None}),
        ("warmup", {"warmup_steps": 0, "warmup_ratio": 0.03, "total_steps": None}),
        ("warmup", {"warmup_steps": None, "warmup_ratio": 2000}),  # steps, whatever it is called
        ("schedule-length", {"lr_decay_iters": None}),
        ("schedule-length", {"total_steps": None, "num_train_epochs": 3}),
        ("loss-scaling", {"dtype": "fp16"}),
    ],
)
def test_what_the_manifest_does_not_tell_is_unknown(slug: str, changes: dict[str, Any]):
    assert tick(slug, **changes).state is State.UNKNOWN


def test_a_rate_without_an_optimizer_says_what_is_missing():
    sheet = preflight(parse_manifest({"lr": 3e-4}), Limits())
    (told,) = (one.because for one in sheet.ticks if one.slug == "peak-lr")
    assert told == "It is 0.0003; what is usual depends on the optimizer."


def test_nested_keys_of_frameworks_are_found():
    raw = {"trainer": {"max_steps": 1000, "val_check_interval": 500}, "optim": {"warmup_ratio": 1}}
    sheet = preflight(parse_manifest(raw), Limits())
    found = {tick.slug: tick for tick in sheet.ticks}
    assert "2 in the run" in found["evaluations"].because
    assert found["warmup"].severity is Severity.ERROR


def test_limits_count():
    limits = Limits().override({"preflight.adam_lr_high": 1.0})
    assert tick("peak-lr", limits, peak_lr=0.3).state is State.TICKED


def test_the_first_loss_has_its_number():
    assert "log 50257 = 10.82" in tick("initial-loss").because
    assert "does not name K" in tick("initial-loss", vocab_size=None).because


def test_every_line_has_a_name_of_its_own():
    sheet = preflight(parse_manifest({}), Limits())
    slugs = [tick.slug for tick in sheet.ticks]
    assert len(set(slugs)) == len(slugs)
    assert len(sheet.lists[0].ticks) == len(CHECKS)


def test_a_null_says_that_gradients_are_not_clipped():
    sheet = preflight(parse_manifest({"grad_clip": None}), Limits())
    clip = next(tick for tick in sheet.ticks if tick.slug == "grad-clip")
    assert clip.state is State.CROSSED


def test_a_single_step_is_told_in_the_singular():
    assert tick("checkpoints", checkpoint_every=1).because.startswith("One every step;")
    assert "1 steps" not in tick("warmup", warmup_steps=1).because


@pytest.mark.parametrize(
    ("peak", "told"),
    [(30, "Lower it to 0.01 at first"), (0.05, "Lower it by 3 to 10 times, to 0.005 at first.")],
)
def test_a_rate_is_not_lowered_to_one_that_is_too_high_as_well(peak: float, told: str):
    found = tick("peak-lr", peak_lr=peak)
    assert "to 0.01 is usual" in found.because
    assert found.do[0].startswith(told)
