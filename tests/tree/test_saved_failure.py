"""Batches that the recorder saved: the report names file, module, operation and command."""

import json

import numpy as np
import pytest

import stabdiag

COMMAND = "python -m stabdiag.torch probe run.nan.pt --factory train:make"
HEADER = {"config": {"dtype": "fp32", "optimizer": "AdamW", "peak_lr": 1e-3}}
FILES = {"nan_file": "run.nan.pt", "spike_file": "run.spike.pt"}


def diagnosis(tmp_path, *, failure=None, files=FILES, steps=400, bad=300, surge=False):
    """Diagnose a run whose loss is NaN from a step on; ``failure`` are columns of that step."""
    generator = np.random.default_rng(0)
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        for step in range(1, steps + 1):
            lost = bad is not None and step >= bad
            row = {
                "step": step,
                "lr": 1e-3,
                "loss": float("nan") if lost else 2 + 0.05 * generator.standard_normal(),
                "grad_norm": float("nan") if lost else 1 + 0.1 * generator.standard_normal(),
            }
            if bad is not None and surge and bad - 5 <= step < bad:
                row["grad_norm"] = 10.0 ** (step - bad + 6)
            if step == 1:
                config = HEADER["config"] | {"recorder": {"version": 1, **files}}
                row = {"config": config, **row}
            if step == bad:
                row |= failure or {}
            file.write(json.dumps(row) + "\n")
    return stabdiag.diagnose(str(path)).diagnosis


def test_the_command_repeats_a_saved_step(tmp_path):
    columns = {"recorder/saved_batches": 2, "recorder/saved_weights": 1}
    result = diagnosis(tmp_path, failure=columns)
    assert result.slug == "nan-fp32"
    assert f"run `{COMMAND}`: it repeats step 300" in result.actions[0].text
    assert any("saved in run.nan.pt" in action.text for action in result.actions[1:])


def test_a_checkpoint_is_needed_if_the_weights_were_not_saved(tmp_path):
    columns = {"recorder/saved_batches": 2, "recorder/saved_weights": 0}
    first = diagnosis(tmp_path, failure=columns).actions[0]
    assert f"`{COMMAND} --weights CHECKPOINT`" in first.text


@pytest.mark.parametrize("files", [{}, FILES])
def test_without_a_saved_step_no_command_is_given(files, tmp_path):
    columns = None if files else {"recorder/saved_batches": 2}
    first = diagnosis(tmp_path, failure=columns, files=files).actions[0]
    assert "isnan checks" in first.text
    assert "stabdiag.torch" not in first.text


@pytest.mark.parametrize(
    ("phase", "operation", "summary", "first"),
    [
        ("forward", "aten.log", "aten.log in module 'body.2' is the first", "aten.log in module"),
        ("loss", "aten.div.Tensor", "in the loss function is the first", "the loss function safe"),
        ("backward", "SqrtBackward0", "first operation with a non-finite gradient", "safe"),
        ("batch", "", "'body.2' of the batch is not finite", "find the NaN in the batch"),
        ("parameters", "", "weights 'body.2' were not finite before", "check what changed"),
        ("optimizer", "Adam.step", "Adam.step makes 'body.2' non-finite", "epsilon"),
    ],
)
def test_the_result_of_the_probe_is_the_cause(phase, operation, summary, first, tmp_path):
    columns = {
        "recorder/saved_batches": 2,
        "recorder/saved_weights": 1,
        f"recorder/failed_phase/{phase}": 1,
        "recorder/failed_module/body.2": 1,
        **({f"recorder/failed_operation/{operation}": 1} if operation else {}),
    }
    result = diagnosis(tmp_path, failure=columns)
    assert summary in result.summary
    assert first in result.actions[0].text
    assert COMMAND in result.actions[1].text


def test_a_blow_up_needs_smaller_steps_although_an_operation_overflows(tmp_path):
    columns = {
        "recorder/saved_batches": 2,
        "recorder/saved_weights": 1,
        "recorder/failed_phase/forward": 1,
        "recorder/failed_module/body.2": 1,
        "recorder/failed_operation/aten.mm": 1,
    }
    result = diagnosis(tmp_path, failure=columns, surge=True)
    assert "blow-up" in result.summary
    assert "learning rate" in result.actions[0].text
