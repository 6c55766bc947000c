"""Settings that differ: which explain something, and which are not to be blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import stabdiag
from stabdiag.model.comparison import Bearing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.comparison import Comparison

STEPS = np.arange(80)
LOSS = {"step": STEPS, "loss": 1 + 3 * np.exp(-STEPS / 40)}
OTHER = {"step": STEPS, "loss": 1 + 3 * np.exp(-STEPS / 30)}


def of(
    one: Mapping[str, object], other: Mapping[str, object], *, same: bool = False, **more: str
) -> Comparison:
    manifests = [{"seed": 1, **one}, {"seed": 1, **other}]
    return stabdiag.compare([LOSS, LOSS if same else OTHER], manifests=manifests, **more)


@pytest.mark.parametrize(
    "key",
    [
        *("output_dir", "run_name", "name", "logging_dir", "save_steps", "wandb_project"),
        *("trainer.log_every", "checkpoint_every", "hostname", "timestamp", "git.tags"),
        *("experiment_name", "report_to", "logger.save_dir", "job_id", "started_at"),
    ],
)
def test_names_paths_and_times_are_not_blamed(key: str) -> None:
    found = of({key: "1"}, {key: "2"})
    (difference,) = found.differences
    assert difference.bearing is Bearing.CANNOT
    assert found.diagnosis.slug == "nondeterminism"


@pytest.mark.parametrize(
    "key",
    [
        *("learning_rate", "optimizer.betas", "model.dropout", "dtype", "data.path", "dataset"),
        *("num_workers", "warmup_steps", "weight_decay", "git_commit", "n_layers", "batch_size"),
        *("model_name", "model.name", "dataset_id", "load", "resume_from_checkpoint"),
        *("tokenizer", "adam_beta2", "gradient_accumulation_steps", "max_grad_norm"),
    ],
)
def test_what_training_depends_on_explains(key: str) -> None:
    found = of({key: "bf16"}, {key: "fp16"}) if key == "dtype" else of({key: "1"}, {key: "2"})
    assert {one.bearing for one in found.differences} == {Bearing.EXPLAINS}
    assert [one.slug for one in found.findings] == ["config-differs"]


def test_what_a_resume_begins_from_is_expected_of_it() -> None:
    found = of({"load": "a"}, {"load": "b"}, kind="resume")
    assert found.differences[0].bearing is Bearing.EXPECTED


@pytest.mark.parametrize("key", ["frobnicate", "device", "eval_steps"])
def test_of_other_keys_it_cannot_be_told(key: str) -> None:
    found = of({key: "1"}, {key: "2"})
    assert found.differences[0].bearing is Bearing.MAY
    assert found.diagnosis.slug == "config-differs"
    assert "cannot be told from its name" in found.diagnosis.summary


def test_another_spelling_is_no_difference() -> None:
    found = of({"learning_rate": 1e-3}, {"lr": "0.001"})
    assert found.differences == ()


def test_without_an_effect_it_is_a_note() -> None:
    found = of({"peak_lr": 1e-3}, {"peak_lr": 2e-3}, same=True)
    assert found.diagnosis.severity == "note"
    assert "it had no effect" in found.diagnosis.summary


def test_the_seed_explains_reruns_and_is_expected_of_seeds() -> None:
    found = of({"seed": 1}, {"seed": 2})
    assert found.differences[0].bearing is Bearing.EXPECTED
    found = of({"seed": 1}, {"seed": 2}, kind="reruns")
    assert found.differences[0].bearing is Bearing.EXPLAINS


def test_a_key_that_one_run_does_not_tell() -> None:
    found = of({"dropout": 0.1}, {})
    assert found.differences[0].values == {"A": 0.1, "B": None}
    assert "not told in B" in found.diagnosis.summary


@pytest.mark.parametrize("key", ["wandb.api_key", "hf_token", "db.password", "SECRET"])
def test_secrets_are_not_shown(key: str) -> None:
    found = of({key: "abc"}, {key: "def"})
    assert set(found.differences[0].values.values()) == {"(not shown)"}
    assert "abc" not in found.to_json()


def test_runs_of_which_nothing_is_told_differ_in_nothing() -> None:
    found = stabdiag.compare([LOSS, OTHER], kind="reruns")
    assert found.differences == ()
    assert found.notes == ("no configuration is known for A, B",)


def test_what_many_runs_say_is_cut() -> None:
    manifests = [{"seed": i, "peak_lr": 1e-3 * (i % 2), "note": "x" * 99} for i in range(9)]
    found = stabdiag.compare([LOSS] * 9, manifests=manifests)
    assert "0 in A, C, E, G and I, 0.001 in B, D, F and H" in found.diagnosis.summary


def test_many_runs_are_grouped_by_value() -> None:
    manifests = [{"seed": i, "peak_lr": rate} for i, rate in enumerate((1e-3, 1e-3, 2e-3))]
    found = stabdiag.compare([LOSS, OTHER, LOSS], manifests=manifests)
    assert "peak_lr is 0.001 in A and B, 0.002 in C" in found.diagnosis.summary
