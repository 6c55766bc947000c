"""A log as Parquet gives the same answers as the log itself."""

import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from stabdiag import StabdiagError, convert, diagnose, read
from stabdiag.api import postmortem
from stabdiag.errors import LogError
from tests.conftest import ONE_EACH, RUNS, diagnosed, log_of

KEY = b"stabdiag"


@pytest.mark.parametrize("run", ONE_EACH)
def test_the_diagnosis_is_that_of_the_log(run, tmp_path):
    log = log_of(run)
    convert(log, tmp_path / "run.parquet")
    before, after = diagnosed(run), diagnose(tmp_path / "run.parquet")
    assert after.findings == before.findings
    assert after.tree.answers == before.tree.answers
    assert after.not_logged == before.not_logged
    paths = {"path": None, "logged": (), "also": {}, "unknown": {}}
    assert replace(after.manifest, **paths) == replace(before.manifest, **paths)
    assert after.history.events[1:] == before.history.events  # with how far an attempt came
    assert after.history.events[0].message.startswith(f"converted from {log} (")


def test_options_apply_to_the_columns_of_a_converted_log(tmp_path):
    convert({"step": range(9), "loss": [2.0] * 9, "eval_loss": [3.0] * 9}, tmp_path / "a.parquet")
    chosen = read(tmp_path / "a.parquet", columns={"loss": "eval_loss"})
    assert set(chosen.series["loss"].values) == {3.0}
    assert chosen.series["loss"].column == "eval_loss"
    with pytest.raises(LogError, match="no attempt 2"):
        read(tmp_path / "a.parquet", attempt=2)


def climbing(**series):
    """Return a loss that comes down and then climbs, with other columns."""
    steps = np.arange(600)
    noise = np.random.default_rng(3).normal(0, 0.03, 600)
    loss = 1.0 + 2.0 * np.exp(-steps / 60) + np.clip(steps - 350, 0, None) / 150 + noise
    return {"step": steps, **{name: make(loss) for name, make in series.items()}}


@pytest.mark.parametrize(
    "log",
    [
        climbing(**{"train/policy_loss": lambda loss: loss}),
        climbing(loss_G=lambda loss: loss, loss_D=np.flip),
        climbing(val_loss=lambda loss: loss),
    ],
    ids=["policy", "opponents", "evaluation"],
)
def test_a_loss_stays_the_one_that_it_was(log, tmp_path):
    convert(log, tmp_path / "run.parquet")
    before, after = diagnose(log), diagnose(tmp_path / "run.parquet")
    assert after.history.loss_kind == before.history.loss_kind
    assert after.history.series["loss"].column == before.history.series["loss"].column
    assert after.findings == before.findings
    assert after.tree.answers == before.tree.answers


def test_conversion_keeps_the_cost_of_an_incident(tmp_path):
    steps = np.arange(600)
    loss = np.where(steps < 500, 2.0 + np.sin(steps), np.nan)
    log = {"step": steps, "loss": loss, "step_time_ms": np.full(600, 250.0)}
    manifest = {"checkpoint_every": 100, "batch_size": 8, "model": {"seq_len": 1024}}
    convert(log, tmp_path / "run.parquet", manifest=manifest)
    before, after = diagnose(log, manifest=manifest), diagnose(tmp_path / "run.parquet")
    lost = [re.search(r"\| Lost \| (.*) \|", postmortem(report))[1] for report in (before, after)]
    assert "seconds" in lost[0]
    assert "tokens" in lost[0]
    assert lost[1] == lost[0]


series = st.dictionaries(
    st.sampled_from(["grad_norm", "lr", "loss_scale", "weight_norm/a b", "eval_loss"]),
    st.dictionaries(st.integers(0, 60), st.floats(width=32), min_size=1),
    max_size=4,
)


@given(series, st.dictionaries(st.integers(0, 60), st.floats(width=32), min_size=1))
def test_every_value_comes_back(tmp_path_factory, others, losses):
    steps = sorted({step for points in (losses, *others.values()) for step in points})
    records = [
        {"step": step, **{r: points[step] for r, points in all_.items() if step in points}}
        for all_ in [{"loss": losses, **others}]
        for step in steps
    ]
    output = tmp_path_factory.mktemp("run") / "run.parquet"
    try:
        before = convert(records, output)
    except LogError:
        return
    after = read(output)
    assert after.series.keys() == before.series.keys()
    for role, log in before.series.items():
        np.testing.assert_array_equal(after.series[role].steps, log.steps)
        np.testing.assert_array_equal(after.series[role].values, log.values)


def test_missing_is_null_and_nan_is_nan(tmp_path):
    records = [{"step": n, "loss": math.nan if n == 3 else 1.0} for n in range(5)]
    records[2]["val_loss"] = 2.0
    convert(records, tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table.column_names == ["step", "loss", "eval_loss"]
    assert table["eval_loss"].to_pylist() == [None, None, 2.0, None, None]
    assert table["loss"].null_count == 0
    assert math.isnan(table["loss"][3].as_py())


def test_flags_are_kept_and_give_way_to_flags(tmp_path):
    log = RUNS / "spike-lr-jump" / "log.jsonl"
    output = tmp_path / "run.parquet"
    convert(log, output, settings={"dtype": "bf16", "seed": 5})
    manifest = diagnose(output).manifest
    assert (manifest.dtype, manifest.seed, manifest.path) == ("bf16", 5, None)
    assert {"dtype", "seed", "peak_lr"} <= set(manifest.logged)
    assert diagnose(output, settings={"dtype": "fp32"}).manifest.dtype == "fp32"
    (tmp_path / "run.manifest.json").write_text('{"dtype": "fp16"}', encoding="utf-8")
    assert diagnose(output).manifest.dtype == "fp16"


@pytest.mark.parametrize(("by_hand", "every"), [({}, 200), ({"checkpoint_every": 50}, 50)])
def test_checkpoints_at_each_epoch_are_kept(by_hand, every, tmp_path):
    config = {"save_strategy": "epoch", "save_steps": 500, "num_train_epochs": 3, "max_steps": 600}
    convert(climbing(loss=np.copy), tmp_path / "run.parquet", manifest=config, settings=by_hand)
    assert diagnose(tmp_path / "run.parquet").manifest.checkpoint_every == every


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"schema": 2, "source": "x", "manifest": {}, "events": []}',
        b'{"schema": 1, "source": "x", "manifest": [], "events": []}',
        b'{"schema": 1, "source": "x", "manifest": {}, "events": [{"kind": "new"}]}',
        b'{"schema": 1, "source": "x", "manifest": {}, "events": [1]}',
        b'{"schema": 1, "source": "x", "manifest": {}, "events": [], "columns": 1}',
        b'{"schema": 1, "source": "x", "manifest": {}, "events": [], "retaken": [[1, [], 2, 3]]}',
    ],
)
def test_metadata_of_another_kind_is_passed_over(tmp_path, metadata):
    table = pa.table({"step": [1, 2, 3], "train_loss": [3.0, 2.0, 1.0]})
    table = table.replace_schema_metadata({KEY: metadata})
    parquet.write_table(table, tmp_path / "run.parquet")
    history = read(tmp_path / "run.parquet")
    assert history.series["loss"].values.tolist() == [3.0, 2.0, 1.0]
    assert history.config == {}


@pytest.mark.parametrize("steps", [[1, 2, 3], [1, 3, 2], [1, 1, 2], [1, None, 2], ["a", "b", "c"]])
def test_a_log_that_only_says_that_it_was_converted_is_read_as_any(tmp_path, steps):
    metadata = b'{"schema": 1, "source": "x", "manifest": {"seed": 3}, "events": []}'
    table = pa.table({"step": steps, "train_loss": [3.0, 2.0, 1.0]})
    parquet.write_table(table.replace_schema_metadata({KEY: metadata}), tmp_path / "run.parquet")
    assert read(tmp_path / "run.parquet").series["loss"].column == "train_loss"


def test_words_under_the_name_of_a_role_are_not_series(tmp_path):
    metadata = b'{"schema": 1, "source": "x", "manifest": {}, "events": []}'
    table = pa.table({"step": [1, 2], "loss": [3.0, 2.0], "lr": ["high", "low"]})
    parquet.write_table(table.replace_schema_metadata({KEY: metadata}), tmp_path / "run.parquet")
    history = read(tmp_path / "run.parquet")
    assert set(history.series) == {"loss"}
    assert any("contains words" in event.message for event in history.events)


def test_it_is_written_whole_or_not_at_all(tmp_path):
    log = RUNS / "spike-lr-jump" / "log.jsonl"
    with pytest.raises(StabdiagError, match=r"cannot be written \(No such file or directory\)$"):
        convert(log, tmp_path / "nowhere" / "run.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StabdiagError, match="cannot be written"):
        convert(log, tmp_path / "folder")
    output = tmp_path / "run.parquet"
    output.write_text("what was here", encoding="utf-8")
    with pytest.raises(LogError):
        convert(tmp_path / "none.jsonl", output)
    assert output.read_text(encoding="utf-8") == "what was here"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "run.parquet"]
    convert(log, output)
    assert output.read_bytes().startswith(b"PAR1")


def test_a_log_of_placeholders_has_nothing_to_convert(tmp_path):
    records = [{"step": n, "grad_norm": 0.0} for n in range(9)]
    with pytest.raises(LogError, match="no usable data to convert"):
        convert(records, tmp_path / "run.parquet")
    assert list(tmp_path.iterdir()) == []


def test_converted_series_are_listed_by_group_in_80_columns(stabdiag):
    log = RUNS / "healthy-by-layer" / "log.jsonl.gz"
    code, out, _ = stabdiag("convert", log, "-o", "run.parquet", "--dtype", "bf16")
    assert code == 0
    assert diagnose("run.parquet").manifest.dtype == "bf16"
    assert out.startswith("run.parquet: loss (800), ")
    assert f"grad_norm: {len(read(log).group('grad_norm')) - 1} groups" in " ".join(out.split())
    assert "grad_norm/" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_log_that_is_found_in_a_folder_is_not_written_over(tmp_path):
    log = tmp_path / "log.parquet"
    convert(RUNS / "spike-lr-jump", log)
    before = log.read_bytes()
    with pytest.raises(StabdiagError, match="also an input"):
        convert(tmp_path, log)
    assert log.read_bytes() == before


def test_settings_are_kept_with_their_words(tmp_path):
    log = climbing(loss=lambda loss: loss + (np.arange(600) >= 300))
    log["dataset"] = np.where(log["step"] < 300, "wiki", "code")
    log["batch_size"] = np.where(log["step"] < 298, 64, 8)
    convert(log, tmp_path / "run.parquet")
    before, after = diagnose(log), diagnose(tmp_path / "run.parquet")
    assert after.findings == before.findings
    assert after.tree.answers == before.tree.answers
    assert after.history.series["setting/dataset"].words == ("wiki", "code")
    assert after.history.series["setting/batch_size"].words == ()
