"""DataFrames in and out of the Python API, and what a notebook shows."""

import html
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import stabdiag
from stabdiag.errors import StabdiagError
from tests.conftest import ROOT, python

RUNS = ROOT / "fixtures" / "runs"
PAGE = ROOT / "docs" / "python.md"


def falling(steps):
    return 2.0 + 2.0 * np.exp(-np.asarray(steps) / 80) + 0.01 * (np.arange(len(steps)) * 7 % 5)


# History to DataFrame and back.


@pytest.mark.parametrize(
    "run",
    [
        "spike-lr-jump",
        "nan-after-spike-fp32",  # NaN in the gradient norm, weight norms at some steps
        "symptom-eval-nonfinite",  # NaN in the evaluation loss
        "divergence-weight-norm-collapsing-logged",  # a setting that changes
        "healthy-new-stage",  # a setting in words
        "healthy-recorded-one-hot",  # norms of groups
    ],
)
def test_a_history_survives_a_data_frame(run):
    history = stabdiag.read(RUNS / run)
    frame = history.to_pandas()
    loaded = stabdiag.read(frame)
    assert loaded.series.keys() == history.series.keys()
    for role, series in history.series.items():
        np.testing.assert_array_equal(loaded.series[role].steps, series.steps)
        np.testing.assert_array_equal(loaded.series[role].values, series.values)
        assert loaded.series[role].words == series.words or set(loaded.series[role].words) <= set(
            series.words
        )
    assert_frame_equal(pd.DataFrame(history), frame)


def test_a_frame_has_a_row_for_each_step():
    log = [{"step": 0, "loss": 3.0}, {"step": 5, "val_loss": 2.5}, {"step": 10, "loss": np.nan}]
    frame = stabdiag.read(log).to_pandas()
    assert frame["step"].tolist() == [0, 5, 10]
    assert frame["step"].dtype == np.int64
    assert frame["loss"].isna().tolist() == [False, True, True]
    assert frame["eval_loss"].isna().tolist() == [True, False, True]


def test_nan_and_missing_stay_apart_after_rows_are_selected():
    losses = falling(range(40)).tolist()
    losses[20] = float("nan")
    log = [{"step": step, "loss": value} for step, value in enumerate(losses)]
    log += [{"step": step + 0.0, "val_loss": 2.0} for step in (41, 42, 43)]
    frame = stabdiag.read(log).to_pandas()
    part = stabdiag.read(frame[frame["step"] > 5]).series["loss"]
    assert part.steps[np.isnan(part.values)].tolist() == [20]
    assert part.steps[-1] == 39


def test_nan_steps_of_another_table_are_ignored():
    frame = pd.DataFrame({"loss": [3.0, 2.0, np.nan]})
    frame.attrs["stabdiag.nan_steps"] = "x"
    assert np.isnan(stabdiag.read(frame).series["loss"].values[-1])


def test_a_history_without_series_is_an_empty_frame():
    history = stabdiag.History(series={}, source=stabdiag.read({"loss": [1.0, 2.0, 3.0]}).source)
    assert history.to_pandas().empty


def test_series_are_arrays_without_a_copy():
    series = stabdiag.read({"loss": [3.0, 2.0, 1.5]}).series["loss"]
    assert np.shares_memory(np.asarray(series), series.values)
    assert np.shares_memory(series.to_pandas().to_numpy(), series.values)
    assert not np.shares_memory(np.array(series), series.values)
    assert np.asarray(series, dtype=np.float32).dtype == np.float32
    assert float(np.max(series)) == 3.0
    assert series.to_pandas().index.name == "step"
    assert series.to_pandas().name == "loss"


def test_a_history_is_one_run_to_compare():
    with pytest.raises(StabdiagError, match="as a list"):
        stabdiag.compare(stabdiag.read({"loss": [3.0, 2.0, 1.5]}))


# The index of a DataFrame.


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (range(0, 400, 10), [0, 10]),
        (pd.Index(np.arange(5, 45)), [5, 6]),
        (pd.Index(np.arange(0, 400, 10), name="step"), [0, 10]),
        (pd.Index(np.arange(100, 140), name="epoch"), [100, 101]),
        # These count the rows, or are in no order.
        (None, [0, 1]),
        (range(40), [0, 1]),
        (pd.Index([*range(20), *range(20)]), [0, 1]),
        (pd.Index(range(40, 0, -1)), [0, 1]),
        (pd.Index([f"run {number}" for number in range(40)]), [0, 1]),
    ],
)
def test_an_index_of_steps(index, expected):
    frame = pd.DataFrame({"loss": falling(range(40))}, index=index)
    assert stabdiag.read(frame).series["loss"].steps[:2].tolist() == expected


@pytest.mark.parametrize("counter", ["step", "epoch"])
def test_a_column_of_steps_precedes_the_index(counter):
    frame = pd.DataFrame({counter: range(40), "loss": falling(range(40))})
    frame.index = pd.RangeIndex(0, 400, 10)
    assert stabdiag.read(frame).last_step == 39


@pytest.mark.parametrize("name", [None, "when", "timestamp", "time"])
def test_an_index_of_times(name):
    times = pd.date_range("2026-01-05", periods=40, freq="30s", name=name, tz="UTC")
    frame = pd.DataFrame({"step": range(40), "loss": falling(range(40))}, index=times)
    clock = stabdiag.read(frame).series["clock"].values
    assert np.diff(clock).tolist() == [30.0] * 39


def test_a_column_of_times_precedes_the_index():
    times = pd.date_range("2026-01-05", periods=40, freq="30s")
    frame = pd.DataFrame({"timestamp": range(40), "loss": falling(range(40))}, index=times)
    assert stabdiag.read(frame).series["clock"].values[-1] == 39


# Findings and scans.


def test_findings_as_a_frame():
    losses = falling(range(300))
    losses[150] += 3.0
    losses[-1] = np.nan
    report = stabdiag.diagnose({"loss": losses})
    frame = report.to_pandas()
    assert frame["slug"].tolist() == [finding.slug for finding in report.findings]
    assert frame["step"].tolist() == [299, 150]
    assert frame["step"].dtype == "Int64"
    assert frame["action"][0] == report.diagnosis.first_action
    assert frame["action_kind"][0] == report.diagnosis.actions[0].kind.value


def test_a_comparison_as_a_frame():
    losses = falling(range(60))
    compared = stabdiag.compare([{"loss": losses}, {"loss": losses}])
    assert compared.to_pandas()["slug"].tolist() == ["agree"]
    assert compared.to_pandas()["step"].isna().all()


@pytest.fixture(scope="module")
def overview(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    for run, name in (("spike-lr-jump", "a"), ("spike-recovered-fp16", "b")):
        shutil.copytree(RUNS / run, folder / name)
    (folder / "c.jsonl").write_text("{}\n", encoding="utf-8")
    return stabdiag.scan(folder)


def test_a_scan_as_a_frame(overview):
    frame = overview.to_pandas()
    assert len(frame) == overview.runs
    assert frame["outcome"].tolist() == [row.outcome for row in overview.rows]
    assert frame["step"].dtype == "Int64"
    assert frame["loss_last"].dtype == np.float64
    assert frame["peak_lr"].dtype == np.float64
    settings = [name for name in frame.columns if name.startswith("setting/")]
    assert settings
    assert any(frame[name].dtype == np.float64 for name in settings)


def test_an_overview_has_no_truth_value(overview):
    with pytest.raises(TypeError, match="of an overview is ambiguous"):
        bool(overview)


def test_an_overview_is_json_and_text(overview):
    assert overview.to_dict()["runs"] == overview.runs
    from rich.console import Console

    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(overview)
    assert "spike-lr-jump" in console.export_text()


# Notebooks.


def test_a_notebook_shows_pages(overview):
    losses = falling(range(60))
    compared = stabdiag.compare([{"loss": losses}, {"loss": losses}])
    for shown in (overview, compared):
        frame = shown._repr_html_()
        assert frame.startswith("<iframe ")
        (document,) = re.findall(r'srcdoc="([^"]*)"', frame)
        assert html.unescape(document).startswith("<!doctype html>")
        assert frame.endswith("></iframe>")
        assert "<" not in frame.removeprefix("<iframe ").removesuffix("</iframe>")


# The page of the documentation.


def blocks():
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_examples_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec("\n".join(blocks()), {})
    assert "spike-lr-jump" in capsys.readouterr().out


@pytest.mark.skipif(
    shutil.which("mypy", path=Path(sys.executable).parent) is None, reason="no mypy"
)
def test_the_examples_have_types(tmp_path):
    (tmp_path / "shown.py").write_text("\n".join(blocks()), encoding="utf-8")
    done = python("-m", "mypy", tmp_path / "shown.py", cwd=ROOT)
    assert [line for line in done.stdout.splitlines() if "shown.py" in line] == []


@pytest.mark.parametrize(
    "command",
    [
        ("diagnose", "LOG"),
        ("diagnose", "LOG", "--json"),
        ("scan", "RUNS", "--jobs", "1"),
        ("compare", "LOG", "LOG"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_the_command_line_never_imports_pandas(command, tmp_path):
    shutil.copytree(RUNS / "spike-lr-jump", tmp_path / "runs" / "a")
    places = {"LOG": str(tmp_path / "runs" / "a"), "RUNS": str(tmp_path / "runs")}
    words = [places.get(word, word) for word in command]
    code = (
        "import sys\nfrom stabdiag.cli import main\n"
        f"sys.argv[1:] = {words!r}\ntry: main()\nexcept SystemExit: pass\n"
        "sys.exit('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# What a terminal shows.


def test_results_name_themselves_in_one_line():
    run, other = RUNS / "spike-lr-jump", RUNS / "spike-unresolved"
    history = stabdiag.read(run)
    assert repr(history).startswith(f"<History of {run}")
    assert repr(history).endswith(": loss, grad_norm, lr, batch_id and 5 more>")
    assert repr(history.series["loss"]) == "<Series loss: 1000 points, steps 0 to 999>"
    assert repr(history.logged("mfu")) == "<Series mfu: 0 points>"
    overview = stabdiag.scan([run, other])
    assert repr(overview) == "<Overview of 2 runs: 1 failed, 1 with a warning>"
    assert sorted(overview.to_pandas()["run"]) == ["spike-lr-jump", "spike-unresolved"]
    comparison = stabdiag.compare([run, other])
    assert repr(comparison).startswith("<Comparison of spike-lr-jump, spike-unresolved: ")
