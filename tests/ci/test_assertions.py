"""A run as an assertion: ``assert_healthy`` in tests, ``stabdiag check`` before a commit."""

import os
import re
import shlex
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import yaml

import stabdiag
from stabdiag.errors import LogError
from tests.conftest import ROOT, RUNS, python

(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("run", "fail_on", "passes"),
    [
        ("healthy-fp32", "warning", True),
        ("spike-lr-jump", "error", True),
        ("spike-lr-jump", "warning", False),
        ("symptom-overfitting", "warning", False),
        ("insufficient-data", "error", False),  # what could not be tested does not pass
    ],
)
def test_a_run_passes_unless_something_as_severe_is_found(run, fail_on, passes):
    with nullcontext() if passes else pytest.raises(stabdiag.UnhealthyRun):
        report = stabdiag.assert_healthy(RUNS / run, fail_on=fail_on)
        assert report.diagnosis.slug.startswith(run.partition("-")[0])


def test_the_message_is_the_diagnosis():
    with pytest.raises(stabdiag.UnhealthyRun, match="FIRST ACTION") as raised:
        stabdiag.assert_healthy(RUNS / "spike-persistent-lost-layer")
    assert isinstance(raised.value, AssertionError)
    assert raised.value.report.diagnosis.slug == "spike-persistent"
    assert "[spike-persistent]" in str(raised.value).splitlines()[1]


def test_it_takes_what_diagnose_takes():
    steps = np.arange(400)
    table = {"step": steps, "train/ce": 2 + 3 * np.exp(-steps / 80) + 0.01 * np.sin(steps)}
    report = stabdiag.assert_healthy(
        table,
        columns={"loss": "train/ce"},
        manifest={"dtype": "fp32"},
        settings={"peak_lr": 0.1},
        limits={"spike.sigma": 4},
    )
    assert report.manifest.peak_lr == 0.1
    assert report.limits.spike.sigma == 4
    with pytest.raises(LogError):
        stabdiag.assert_healthy("nope.jsonl")


def test_pytest_shows_the_report_and_the_line_of_the_test(tmp_path):
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_smoke.py").write_text(example, encoding="utf-8")

    (tmp_path / "run.jsonl").symlink_to(RUNS / "spike-persistent-lost-layer" / "log.jsonl")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    quiet = ("-q", "-p", "no:cacheprovider")
    done = python("-m", "pytest", *quiet, "test_smoke.py", cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert "FIRST ACTION" in done.stdout
    assert re.search(r"^> +report = stabdiag\.assert_healthy\(", done.stdout, re.MULTILINE)
    assert "stabdiag/testing.py" not in done.stdout


@pytest.fixture
def hook(stabdiag, monkeypatch):
    """Run the hook as pre-commit does: at the top of a repository, all files in one command."""
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(HOOK["entry"])
    assert program == "stabdiag"
    return partial(stabdiag, *arguments)


def test_a_check_fails_at_the_given_severity(hook):
    healthy = ("fixtures/runs/healthy-fp32/log.jsonl", "fixtures/runs/healthy-sgd")
    assert hook(*healthy) == (0, "2 runs: 2 healthy\n", "")
    log = "fixtures/runs/spike-lr-jump"
    assert [hook(log)[0], hook(log, "--fail-on", "warning")[0]] == [0, 1]


def test_a_check_accepts_missing_settings(hook, tmp_path):
    """A log without a known name of the loss asks for one, so that there has to be a way."""
    log = tmp_path / "log.csv"
    losses = [2.0 + (i % 7) / 100 for i in range(60)] + ["nan"] * 20
    log.write_text("step,goal\n" + "".join(f"{i},{x}\n" for i, x in enumerate(losses)))
    assert "--column loss=NAME" in hook(log)[2]
    assert "[nan-dtype-unknown]" in hook(log, "--column", "loss=goal")[1]
    assert "[nan-fp32]" in hook(log, "--column", "loss=goal", "--dtype", "fp32")[1]
    code, out, err = hook(log, "--column", "los=goal")
    assert (code, out) == (2, "")
    assert "did you mean loss?" in err


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("runs/a/log.jsonl", True),
        ("metrics.csv", True),
        ("out/metrics-3.parquet", True),
        ("trainer_state.json", True),
        ("package.json", False),
        ("src/catalog.csv", False),
        ("runs/a/manifest.json", False),
        ("log.py", False),
    ],
)
def test_the_hook_takes_logs_and_leaves_other_files(path, taken):
    assert bool(re.search(HOOK["files"], path)) == taken
