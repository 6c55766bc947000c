"""Facts from the recorder: which are reported, and their order."""

import gzip
import json

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Severity
from tests.conftest import RUNS, program


def rows_of(run):
    """Return the rows of a recorded run."""
    with gzip.open(RUNS / run / "log.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def diagnosed(tmp_path, rows):
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return stabdiag.diagnose(str(path))


def slugs(report):
    return [finding.slug for finding in report.findings]


def test_checks_that_need_the_recorder_do_not_count_without_it():
    report = stabdiag.diagnose({"step": np.arange(300), "loss": np.linspace(3, 2, 300)})
    needs = [check for check in report.not_checked if check.needs_recorder]
    assert len(needs) >= 17
    others = len(report.not_checked) - len(needs)
    assert f"{others} checks skipped because " in report.diagnosis.summary
    assert {check.because for check in needs} == {"needs a run that stabdiag.torch recorded"}


def test_a_recorded_run_needs_no_manifest():
    report = stabdiag.diagnose(str(RUNS / "healthy-recorded-cnn" / "log.jsonl.gz"))
    manifest = report.manifest
    assert (manifest.dtype, manifest.optimizer, manifest.vocab_size) == ("fp32", "AdamW", 8)
    assert manifest.peak_lr == pytest.approx(2e-3)
    assert report.history.source.records == len(rows_of("healthy-recorded-cnn"))
    assert not [event for event in report.history.events if event.kind == "steps"]


def test_a_fact_comes_before_tree_findings(tmp_path):
    rows = rows_of("recorded-log-of-softmax")
    for row in rows:
        if row["step"] > 100:
            row["loss"] = float("nan")
    report = diagnosed(tmp_path, rows)
    assert slugs(report)[:2] == ["log-of-softmax", "nan-fp32"]
    assert report.diagnosis.severity is Severity.ERROR


def test_a_fact_is_a_warning_if_nothing_failed():
    report = stabdiag.diagnose(str(RUNS / "recorded-log-of-softmax" / "log.jsonl.gz"))
    assert report.diagnosis.severity is Severity.WARNING


def test_layers_that_were_thawed_later_are_not_frozen(tmp_path):
    rows = rows_of("recorded-frozen-at-init")
    for row in rows:
        if row["step"] > 60 and "recorder/frozen_random" in row:
            row["recorder/frozen_random"] = 0.0
    assert "frozen-at-init" not in slugs(diagnosed(tmp_path, rows))


def test_a_small_idle_part_is_a_note(tmp_path):
    rows = rows_of("recorded-no-gradient")
    rows[0]["config"]["recorder"]["trainable_values"] = 10**6
    severities = {f.slug: f.severity for f in diagnosed(tmp_path, rows).findings}
    assert severities["no-gradient"] is Severity.NOTE


def test_single_evaluations_in_training_mode_are_not_reported(tmp_path):
    rows = rows_of("recorded-evaluated-in-training-mode")
    evaluations = [row for row in rows if "eval_loss" in row]
    for row in evaluations[1:]:
        row["recorder/evaluated_in_training_mode"] = 0.0
    assert "evaluated-in-training-mode" not in slugs(diagnosed(tmp_path, rows))


@pytest.mark.parametrize(
    ("ratios", "is_reported"),
    [
        ((0.5, 0.05, 0.5), False),
        ((0.05, 0.05, 0.5), True),
        ((0.5, 3.9, 0.5), False),
        ((5.0, 0.5, 0.5), True),
    ],
)
def test_initial_weights_that_are_far_off(ratios, is_reported, tmp_path):
    rows = rows_of("healthy-recorded-cnn")
    names = [name for name in rows[0] if name.startswith("recorder/initial_std/")]
    for row in rows[:2]:
        row.update(dict(zip(names, ratios, strict=True)))
    assert ("initial-weights-off" in slugs(diagnosed(tmp_path, rows))) is is_reported


def test_updates_that_round_to_zero_at_the_end_of_a_schedule_are_not_reported(tmp_path):
    rows = rows_of("healthy-recorded-bf16")
    peak = max(row["lr"] for row in rows if "lr" in row)
    for row in rows:
        if "recorder/unchanged" in row:
            row["recorder/unchanged"] = 0.1 if row["lr"] >= peak / 2 else 0.9
    assert "updates-lost" not in slugs(diagnosed(tmp_path, rows))


def test_unchanged_weights_in_fp32_are_not_lost_to_rounding(tmp_path):
    rows = rows_of("recorded-updates-lost")
    rows[0]["config"]["recorder"]["stored_as"] = "float32"
    assert "updates-lost" not in slugs(diagnosed(tmp_path, rows))


def test_a_restart_is_not_a_lost_optimizer_state(tmp_path):
    rows = rows_of("healthy-recorded-cnn")
    assert "optimizer-replaced" not in slugs(diagnosed(tmp_path, rows + rows))


def test_a_manifest_can_declare_a_random_layer(tmp_path):
    log = RUNS / "recorded-frozen-at-init" / "log.jsonl.gz"
    config = tmp_path / "stabdiag.toml"
    config.write_text(
        '[[ignore]]\nfinding = "frozen-at-init"\nreason = "random"\nuntil = 2099-01-31\n'
    )
    done = program("diagnose", log, "--config", config, "--format", "json", cwd=tmp_path)
    (finding,) = [f for f in json.loads(done.stdout)["findings"] if f["slug"] == "frozen-at-init"]
    assert finding["severity"] == "note"


def test_a_better_average_at_a_decayed_rate_is_not_reported(tmp_path):
    rows = rows_of("recorded-ends-at-noise-floor")
    assert "ends-at-noise-floor" in slugs(diagnosed(tmp_path, rows))
    for row in rows[-60:]:
        if "lr" in row:
            row["lr"] *= 0.1
    assert "ends-at-noise-floor" not in slugs(diagnosed(tmp_path, rows))


def test_layers_that_recover_from_saturation_are_not_reported(tmp_path):
    rows = rows_of("recorded-saturated-from-start")
    last = [row for row in rows if any(name.startswith("saturated_fraction/") for name in row)][-1]
    for name in last:
        if name.startswith("saturated_fraction/"):
            last[name] = 0.1
    assert "saturated-from-start" not in slugs(diagnosed(tmp_path, rows))


@pytest.mark.parametrize(
    ("examples", "mode", "is_reported"),
    [(2, 0.0, True), (1, 0.0, True), (3, 0.0, False), (2, 1.0, False), (2, None, False)],
)
def test_statistics_of_two_examples_are_reported_if_evaluation_uses_them(
    examples, mode, is_reported, tmp_path
):
    """A translator of images may be evaluated with the statistics of its batch."""
    rows = rows_of("healthy-recorded-cnn")
    for row in rows:
        row.pop("recorder/evaluated_in_training_mode", None)
        if "recorder/batch_norm_values" in row:
            row["recorder/batch_norm_values"] = 64 * examples
            row["recorder/batch_norm_examples"] = examples
        if "eval_loss" in row and mode is not None:
            row["recorder/evaluated_in_training_mode"] = mode
    assert ("batch-norm-of-few" in slugs(diagnosed(tmp_path, rows))) is is_reported


SCALE = 1.4 + 0.05 * np.sin(7.3 * np.arange(400))


def batches_of(scale):
    return {
        "step": np.arange(1, 401),
        "loss": np.linspace(3, 1, 400) + 0.01 * np.cos(2.1 * np.arange(400)),
        "recorder/input_std": scale,
    }


def factors(factor, *places):
    """Return scales that differ by a factor at some places."""
    scale = SCALE.copy()
    for place in places:
        scale[place] *= factor
    return scale


@pytest.mark.parametrize(
    ("scale", "says", "step"),
    [
        (factors(2, slice(200, None)), "the batches from step 201 on", 201),
        (factors(0.4, slice(200, None)), "the batches from step 201 on", 201),
        # The majority of the batches has the new scale.
        (factors(4, slice(100, None)), "the batches from step 101 on", 101),
        (factors(3, slice(200, 260)), "the batches from step 201 to 260", 201),
        (factors(10, slice(36, None, 37)), "10 of 400 batches, the first at step 37,", 37),
        (factors(10, slice(50, 53)), "3 of 400 batches", 51),
    ],
)
def test_inputs_of_another_scale_are_reported(symptom, scale, says, step):
    finding = symptom("inputs-rescaled", batches_of(scale))
    assert says in finding.summary
    assert finding.step == step


@pytest.mark.parametrize(
    "scale",
    [
        SCALE,
        # Augmentation that is switched off.
        factors(1.2, slice(300, None)),
        # A scale that drifts.
        SCALE * np.linspace(1, 5, 400),
        # Sources that alternate.
        factors(2, slice(None, None, 2)),
        # Two outliers, and heavy tails without a gap.
        factors(10, 30, 200),
        np.random.default_rng(0).lognormal(0, 0.8, 400),
        # Inputs that are all zero.
        np.zeros(400),
    ],
)
def test_inputs_of_one_scale_are_not_reported(symptom, scale):
    assert symptom("inputs-rescaled", batches_of(scale)) is None


@pytest.mark.parametrize(
    ("end", "is_reported"),
    [(2.3, True), (0.6, False), (0.1, True)],
)
def test_losses_of_ranks_that_part_are_reported(end, is_reported):
    steps = np.arange(200)
    rng = np.random.default_rng(0)

    def course(last):
        return (last + (2.3 - last) * np.exp(-steps / 30)) * np.exp(rng.normal(0, 0.05, 200))

    log = {
        "step": np.repeat(steps, 2),
        "rank": np.tile([0, 1], 200),
        "loss": np.column_stack((course(0.4), course(end))).ravel(),
    }
    report = stabdiag.diagnose(log)
    finding = next((item for item in report.findings if item.slug == "ranks-differ"), None)
    assert (finding is not None) == is_reported
    if finding is not None:
        assert (finding.severity, finding.title) == ("warning", "The losses of the ranks differ")
        assert finding.confidence == "medium"


def test_a_stage_without_a_loss_does_not_differ():
    steps = np.arange(200)
    loss = np.column_stack((0.4 + np.exp(-steps / 30), np.full(200, 1.0))).ravel()
    log = {"step": np.repeat(steps, 2), "rank": np.tile([0, 1], 200), "loss": loss}
    assert "ranks-differ" not in [item.slug for item in stabdiag.diagnose(log).findings]
