"""The Python API."""

import itertools
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stabdiag
from stabdiag.api.diagnosis import _both as both
from stabdiag.errors import (
    ColumnError,
    LimitError,
    LogError,
    ManifestError,
    NoUsableRecord,
    StabdiagError,
)
from stabdiag.formats import render
from stabdiag.model.findings import Confidence
from stabdiag.model.history import History, Series, Source
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.roles.table import ROLES as EVERY_ROLE
from stabdiag.tree.case import Case
from tests.strange import numbers


def falling(n=300, seed=0):
    rng = np.random.default_rng(seed)
    loss = 2.0 + 2.0 * np.exp(-np.arange(n) / 80) + 0.05 * rng.standard_normal(n)
    return {"step": np.arange(n), "loss": loss, "lr": np.full(n, 1e-3)}


def spiky():
    log = falling()
    log["loss"][200] += 3.0
    return log


def write(folder, log, name="run.jsonl"):
    path = folder / name
    rows = pd.DataFrame(log).to_dict("records")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


# What a run may be given as.


def test_everything_that_holds_the_run_gives_the_same_report(tmp_path):
    log = spiky()
    log["loss"][-1] = np.nan
    lists = {name: values.tolist() for name, values in log.items()}
    records = pd.DataFrame(log).to_dict("records")
    path = write(tmp_path, log)
    sources = [log, lists, pd.DataFrame(log), pa.table(log), records, path, str(path)]
    reports = [stabdiag.diagnose(source) for source in (*sources, stabdiag.read(log))]
    assert [finding.slug for finding in reports[0].findings] == [
        "nan-dtype-unknown",
        "spike-recovered",
    ]
    # A missing cell of a DataFrame looks like NaN, so this NaN is less certain.
    expected = [replace(f, confidence=Confidence.HIGH) for f in reports[0].findings]
    for report in reports:
        assert [replace(f, confidence=Confidence.HIGH) for f in report.findings] == expected


@pytest.mark.parametrize("source", [3, None, object(), [1, 2], "none.jsonl"])
def test_other_objects_are_not_logs(source):
    with pytest.raises(LogError):
        stabdiag.diagnose(source)


@pytest.mark.parametrize(
    "wrong",
    [
        {"manifest": 3},
        {"manifest": ["a.json"]},
        {"columns": "loss"},
        {"settings": 3},
        {"limits": 3},
    ],
    ids=str,
)
def test_an_option_of_the_wrong_type_gives_one_sentence(wrong):
    with pytest.raises(StabdiagError, match=r"not (a value of )?(int|list|str)$"):
        stabdiag.diagnose(falling(), **wrong)


@pytest.mark.parametrize("folder", [str, Path])
def test_one_folder_of_ranks_needs_no_list(folder):
    job = Path(__file__).parents[1] / "fixtures" / "pairs" / "rank-died"
    assert stabdiag.compare(folder(job)).diagnosis.slug == "rank-died"


@pytest.mark.parametrize(
    "runs",
    [None, falling(), pd.DataFrame(falling()), 3],
    ids=["none", "mapping", "frame", "number"],
)
def test_runs_to_compare_are_a_list(runs):
    with pytest.raises(StabdiagError, match="as a list"):
        stabdiag.compare(runs)


def test_a_history_needs_a_loss():
    nothing = Series(
        role="loss", column="loss", steps=np.empty(0, np.int64), values=np.empty(0, np.float64)
    )
    source = Source(name="run", format="memory", records=0)
    for series in ({}, {"loss": nothing}):
        with pytest.raises(NoUsableRecord, match="run: the history has no loss"):
            stabdiag.diagnose(History(series=series, source=source))


# Options.


def test_columns_are_chosen_by_role():
    log = falling()
    log["objective"] = log.pop("loss")
    with pytest.raises(ColumnError):
        stabdiag.read(log)
    assert stabdiag.read(log, columns={"loss": "objective"}).series["loss"].column == "objective"
    assert stabdiag.diagnose(log, columns={"loss": "objective"}).diagnosis.slug == "healthy"


def test_an_attempt_is_selected():
    two = {name: np.concatenate([column, column]) for name, column in falling().items()}
    two["loss"][:300] = spiky()["loss"]
    assert stabdiag.diagnose(two).diagnosis.slug == "healthy"
    assert stabdiag.diagnose(two, attempt=1).diagnosis.slug == "spike-recovered"
    assert stabdiag.read(two, attempt=1).source.attempt == 1


def test_limits_as_values_or_as_limits():
    changed = {"spike.min_rise": 1.0, "spike.sigma": 100}
    limits = stabdiag.Limits().override(changed)
    for given_ in (limits, changed):
        report = stabdiag.diagnose(spiky(), limits=given_)
        assert report.limits == limits
        assert report.diagnosis.slug == "heavy-tailed-loss"  # a note, and no spike
    with pytest.raises(LimitError):
        stabdiag.diagnose(spiky(), limits={"spike.sigmas": 4})


def test_limits_count_for_reading_too():
    log = [{"step": i, "lr": 1.0} | ({} if i == 50 else {"loss": 2.0}) for i in range(100)]
    assert np.isfinite(stabdiag.read(log).series["loss"].values).all()
    strict = stabdiag.Limits().override({"nan.absent_records": 1})
    assert np.isnan(stabdiag.read(log, limits=strict).series["loss"].values).any()


@pytest.mark.parametrize("source", ["mapping", "manifest", "path", "string", "beside"])
def test_a_manifest_is_used(tmp_path, source):
    log = falling()
    log["loss"][-20:] = np.nan
    path = write(tmp_path, log)
    name = "manifest.json" if source == "beside" else "other.json"
    (tmp_path / name).write_text('{"bf16": true}', encoding="utf-8")
    manifest = {
        "mapping": {"bf16": True},
        "manifest": stabdiag.Manifest(dtype="bf16"),
        "path": tmp_path / name,
        "string": str(tmp_path / name),
        "beside": None,
    }[source]
    assert stabdiag.diagnose(path, manifest=manifest).diagnosis.slug == "nan-bf16"


def test_a_log_without_a_manifest_is_diagnosed(tmp_path):
    assert stabdiag.diagnose(write(tmp_path, falling())).manifest == stabdiag.Manifest()
    with pytest.raises(ManifestError):
        stabdiag.diagnose(falling(), manifest=tmp_path / "none.json")


def test_a_report_can_be_shown():
    report = stabdiag.diagnose(spiky())
    assert "spike" in report._repr_html_()
    assert str(report) == render(report, "terminal")
    assert repr(report) == "<Report on dict: warning, spike-recovered, step 200>"


# What must not matter.


@st.composite
def runs(draw):
    """A run with faults of several kinds, or none."""
    n = draw(st.integers(60, 400))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss = 2.0 + 2.0 * np.exp(-np.arange(n) / (n / 4)) + 0.05 * rng.standard_normal(n)
    fault, at = draw(st.sampled_from(["none", "spike", "shift", "climb", "nan"])), 2 * n // 3
    if fault == "spike":
        loss[at] += draw(st.floats(2.0, 50.0))
    elif fault == "shift":
        loss[at:] += draw(st.floats(2.0, 50.0))
    elif fault == "climb":
        loss[n // 2 :] += np.linspace(0.0, draw(st.floats(2.0, 9.0)), n - n // 2)
    elif fault == "nan":
        loss[at:] = np.nan
    norm = 1.0 + 0.1 * rng.standard_normal(n) ** 2
    # Numbers of few digits, so that shifting them rounds nothing away.
    return {"step": np.arange(n), "loss": np.round(loss * 2**20) / 2**20, "grad_norm": norm}


def slugs(log):
    report = stabdiag.diagnose(log, manifest={"dtype": "fp32"})
    return [finding.slug for finding in report.findings]


@given(
    log=runs(),
    shift=st.sampled_from([-64.0, -4.0, -1.0, 0.5, 16.0, 1024.0]),
    factor=st.sampled_from([2.0**-30, 2.0**-3, 2.0, 2.0**10, 2.0**40]),
    base=st.sampled_from([-1000, 1, 777, 10**6, 2**40]),
    twice=st.lists(st.floats(0, 1, exclude_max=True), max_size=20),
)
def test_irrelevant_differences_do_not_change_the_report(log, shift, factor, base, twice):
    n, expected = len(log["step"]), slugs(log)
    assert slugs(log | {"loss": log["loss"] + shift}) == expected
    assert slugs(log | {"loss": log["loss"] * factor}) == expected
    assert slugs(log | {"step": log["step"] + base}) == expected
    order = np.sort([*range(n), *(int(n * at) for at in twice)])
    assert slugs({name: values[order] for name, values in log.items()}) == expected


# Any log gives a report or one of our own errors, without warnings.

ROLES = [
    *("grad_norm", "lr", "loss_scale", "weight_norm/a", "weight_norm/b", "batch_id", "epoch"),
    *("eval_loss", "skipped", "activation_norm/x", "grad_norm/l0", "batch_size", "stage"),
]
MANIFESTS = [
    {},
    *({"dtype": dtype} for dtype in ("fp16", "bf16", "fp32", "fp64", "weird", 3, None, ["fp16"])),
    {"fp16": {"enabled": True, "loss_scale": 0, "loss_scale_window": 5}},
    {"dtype": "fp16", "checkpoint_every": 100, "grad_clip": 1.0, "static_loss_scale": True},
    {"dtype": "fp16", "checkpoint_every": -1, "grad_clip": -1, "loss_scale_min": 0},
    {"dtype": "bf16", "grad_clip": 0.0, "growth_interval": 1e300, "weight_decay": "x"},
]


def steps(rng, n):
    kinds = [
        lambda: np.arange(n),
        lambda: np.arange(n) * int(rng.choice([10, 500])),
        lambda: np.sort(rng.integers(0, 3 * n + 1, n)),
        lambda: rng.integers(-100, 100, n),
        lambda: np.arange(n) % (n // 2 + 1),
        lambda: np.arange(n) + int(rng.choice([2**52, -(2**52), 2**40])),
        lambda: np.arange(n) * rng.choice([0.5, 1e15, 4e12]),
        lambda: numbers(rng, n),
    ]
    return kinds[rng.integers(len(kinds))]()


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 2, 3, 5, 8, 20, 31, 40, 60, 100, 150, 300, 700]),
    roles=st.sets(st.sampled_from(ROLES)),
    has_steps=st.booleans(),
    holes=st.booleans(),
    manifest=st.sampled_from(MANIFESTS),
    limits=st.sampled_from(
        [
            {},
            {"spike.window": 10, "spike.min_points": 8, "divergence.window": 10},
            {"divergence.min_points": 8, "divergence.window": 10, "divergence.significance": 0.5},
            {"spike.sigma": 0.5, "spike.recovery_steps": 1, "spike.false_alarm": 0.5},
            {"spike.min_rise": 0.0, "divergence.material": 0.0, "nan.absent_records": 1},
            {"spike.window": 100_000, "divergence.window": 100_000},
        ]
    ),
    literal=st.booleans(),
)
def test_any_log_gives_a_report_or_a_stabdiag_error(
    seed, n, roles, has_steps, holes, manifest, limits, literal
):
    rng = np.random.default_rng(seed)
    log = {"loss": numbers(rng, n)} | {role: numbers(rng, n) for role in sorted(roles)}
    if has_steps:
        log["step"] = steps(rng, n)
    if holes:
        for name in sorted(log):
            share = rng.choice([0.0, 0.01, 0.1, 0.9])
            log[name] = [None if rng.random() < share else float(v) for v in log[name]]
    report, refusal = None, ""
    try:
        report = stabdiag.diagnose(log, manifest=manifest, limits=limits, literal=literal)
    except stabdiag.StabdiagError as error:
        refusal = str(error)
    if report is None:
        assert refusal
        assert "\n" not in refusal
        return
    json.loads(report.to_json())
    assert report.diagnosis is report.findings[0]
    assert report.tree.answers[0].question == "Q1.1"
    assert all(finding.first_action for finding in report.findings)


NORMS = {"step": range(220), "grad_norm": [1 + n % 7 / 10 for n in range(220)]}


@pytest.mark.parametrize(
    ("log", "slug", "answers"),
    [
        # The evaluation loss is used; checks without a loss still answer; nothing can be tested.
        (
            {"step": range(0, 4000, 100), "eval_loss": [2.0] * 39 + [float("nan")]},
            "nan-bf16",
            {"Q1.1": "yes"},
        ),
        (
            NORMS | {"grad_norm": [1.0] * 200 + [float("inf")] * 20},
            "gradient-overflow",
            {"Q1.1": "unknown", "Q2.1": "unknown", "Q3.1": "yes"},
        ),
        (NORMS, "insufficient-data", {"Q1.1": "unknown", "Q3.1": "no"}),
    ],
)
def test_a_log_without_a_loss(log, slug, answers):
    report = stabdiag.diagnose(log, manifest={"bf16": True})
    assert report.diagnosis.slug == slug
    verdicts = {answer.question: answer.verdict.value for answer in report.tree.answers}
    assert answers.items() <= verdicts.items()


def test_a_step_that_no_line_has_is_named_with_its_epoch(tmp_path):
    losses = [2.0, 1.9, 1.8, 1.7, 1.6, "nan"]
    lines = [f"Epoch [{5 + n // 3}][{20 * (n % 3 + 1)}/60] loss: {v}" for n, v in enumerate(losses)]
    (tmp_path / "run.txt").write_text("\n".join(lines))
    diagnosis = stabdiag.diagnose(tmp_path / "run.txt").diagnosis
    assert diagnosis.headline == "The loss went NaN, step 120 (epoch 6)"
    log = {"step": [20, 40, 60], "epoch": [5, 5, 5], "loss": [2.0, 1.9, float("nan")]}
    assert stabdiag.diagnose(log).diagnosis.headline == "The loss went NaN, step 60"


# A long log is looked at by two threads.


@pytest.mark.parametrize("faulty", [False, True])
def test_a_second_thread_changes_nothing(faulty, monkeypatch):
    log = spiky() if faulty else falling()
    alone = stabdiag.diagnose(log).to_json()
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self), start(self)))
    assert stabdiag.diagnose(log).to_json() == alone
    assert not started
    monkeypatch.setattr("stabdiag.api.diagnosis._PARALLEL_LOSSES", len(log["loss"]) - 1)
    assert stabdiag.diagnose(log).to_json() == alone
    assert len(started) == 1


def test_a_case_can_be_copied_while_another_thread_measures():
    history = stabdiag.read(spiky())
    case = Case(history=history, manifest=Manifest(), limits=Limits())
    (spike,) = case.spikes
    done = threading.Event()

    def measure():
        for number in itertools.cycle(range(50)):
            case.__dict__[f"measured {number}"] = number
            case.__dict__.pop(f"measured {(number + 25) % 50}", None)
            if done.is_set():
                return

    thread, switches = threading.Thread(target=measure), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(2000):
            assert case.about(spike).focus is spike
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(switches)


def test_both_calls_are_made_and_the_error_of_either_is_raised():
    assert both(lambda: 1, lambda: "two") == (1, "two")
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1 // 0, lambda: 1)
    largest = np.full(3, 1.7e308)
    with np.errstate(all="ignore"):
        assert both(largest.sum, largest.sum) == (np.inf, np.inf)


@pytest.mark.parametrize("value", [np.nan, -np.inf, 0.0])
@pytest.mark.parametrize("role", [role for role in EVERY_ROLE if role.name not in ("step", "loss")])
def test_an_uninformative_series_changes_nothing(role, value):
    log = {"step": np.arange(120), "loss": np.linspace(3, 2, 120), "loss_scale": np.full(120, 64.0)}
    log[f"{role.name}/a" if role.prefixes else role.name] = np.full(120, value)
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16"})
    json.loads(report.to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("thread", [False, True])
def test_extreme_numbers_cause_no_warnings(thread, monkeypatch):
    if thread:
        monkeypatch.setattr("stabdiag.api.diagnosis._PARALLEL_LOSSES", 0)
    ends = np.tile([5e-324, -1.7e308, 1.7e308], 100)
    for values in (np.geomspace(1e-300, 1e308, 300), ends):
        roles = {f"{role.name}/a" if role.prefixes else role.name: values for role in EVERY_ROLE}
        for log in ({"loss": values}, {"loss": falling()["loss"], **roles}):
            stabdiag.diagnose(log, manifest={"dtype": "fp16"})._repr_html_()
            stabdiag.compare([log, {"loss": falling()["loss"]}]).to_json()


def test_truth_value_of_a_report_is_refused():
    report = stabdiag.diagnose(spiky())
    with pytest.raises(TypeError, match=r"use report\.ok"):
        assert report
    with pytest.raises(TypeError, match=r"use comparison\.diagnosis"):
        assert stabdiag.compare([spiky(), spiky()])
    expected = report.to_dict()
    assert json.loads(json.dumps(expected["findings"])) == expected["findings"]
    assert expected["findings"][0]["slug"] == "spike-recovered"
