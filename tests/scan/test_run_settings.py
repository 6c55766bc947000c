"""The settings of a run from its manifest, its log and its name."""

import pytest

import stabdiag
from stabdiag.scan.report_row import make_row
from stabdiag.scan.run_settings import settings_in_name
from tests.scan.conftest import write_log


@pytest.mark.parametrize(
    ("run", "settings"),
    [
        ("run12_lr0.01_s0", {"peak_lr": 0.01}),
        ("lr=3e-4,batch_size=64,seed=7", {"peak_lr": 3e-4, "batch_size": 64, "seed": 7}),
        ("trainable_2_lr=0.0100,seed=0_2026-11-29_06-15", {"peak_lr": 0.01, "seed": 0}),
        ("lr-sweep/lr0.1/seed1.jsonl", {"peak_lr": 0.1, "seed": 1}),
        ("lr0.1/again-lr0.2", {"peak_lr": 0.2}),
        ("bert_wd0.05_warmup500", {"weight_decay": 0.05, "warmup_steps": 500}),
        # Near misses.
        ("flr0.01", {}),
        ("jobs16", {}),
        ("batch-12", {}),
        ("lr-cosine", {}),
        ("seed1a2b", {}),
    ],
)
def test_settings_are_read_from_names(run, settings):
    assert settings_in_name(run) == settings


def test_a_recorded_setting_has_precedence_over_the_name(tmp_path):
    report = stabdiag.diagnose(write_log(tmp_path / "log.jsonl", 1), manifest={"lr": 0.5, "b": 2})
    row = make_row(report, "log.jsonl", "lr0.1_seed3_wd0.2/log.jsonl")
    assert (row.peak_lr, row.seed) == (0.5, 3)
    assert row.settings["weight_decay"] == "0.2"


def test_a_setting_that_repeats_a_column_is_left_out(tmp_path):
    log = write_log(tmp_path / "log.jsonl", 1)
    row = make_row(stabdiag.diagnose(log, manifest={"learning_rate": 0.5, "b": 2}), "log", "log")
    assert row.peak_lr == 0.5
    assert {"learning_rate", "peak_lr"}.isdisjoint(row.settings)
    assert row.settings["b"] == "2"
