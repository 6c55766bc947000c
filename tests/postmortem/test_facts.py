"""The facts of an incident: onset, detection and cost."""

import re
from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.api.diagnosis import first_detected
from stabdiag.formats.postmortem import Incident, build_incident
from stabdiag.formats.postmortem.cost import read_clock
from stabdiag.model.history import History, Series, Source
from tests.conftest import diagnosed
from tests.postmortem.conftest import broken

BEGAN = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
SECONDS = np.arange(600) * 30.0


@pytest.mark.parametrize(
    ("run", "facts"),
    [
        ("spike-lr-jump", {"onset": 260, "first_bad": 261, "worst": 262, "recovered": 276}),
        # A checkpoint from after the jump, at 300, is not the last good one.
        ("spike-lr-jump-sgd", {"onset": 300, "first_bad": 301, "checkpoint": 200}),
        ("divergence-lr-endless-warmup", {"onset": 262, "first_bad": None}),
        (
            "nan-dtype-unknown",
            {"first_bad": 193, "last_good": 188, "not_finite": 192, "onset": 189},
        ),
        ("nan-log0-fp32", {"not_finite": 516}),
        ("nan-filtered-fp16", {"not_finite": 209}),
        ("nan-empty-mask-fp32", {"not_finite": 523}),
    ],
)
def test_the_steps_that_matter(run, facts):
    incident = build_incident(diagnosed(run))
    assert {name: getattr(incident, name) for name in facts} == facts


def test_a_surge_of_the_gradients_begins_before_the_nan():
    norms = np.ones(600)
    norms[497:] = 1000.0
    report = broken({"grad_norm": norms}, checkpoint_every=249)
    assert "Reload the checkpoint of step 249," in report.diagnosis.first_action
    incident = build_incident(report)
    assert (incident.onset, incident.checkpoint, incident.not_finite) == (497, 249, 500)


# Detection.


def severity_before(report, step):
    """Return the severity of the diagnosis of the log up to a step."""
    cut = replace(report.history.before(step + 1), events=())
    early = stabdiag.diagnose(cut, manifest=report.manifest, limits=report.limits)
    return early.diagnosis.severity


@pytest.mark.parametrize(
    "run",
    [
        "divergence-grad-norm-rotting-labels",
        "gradient-overflow-fp16",
        "loss-scale-collapsed-padding",
        "nan-activations-fp16",
        "spike-persistent-fp16",
        "spike-recovered-labels",
    ],
)
def test_detection_is_the_first_step_with_a_finding(run):
    report = diagnosed(run)
    onset, detected = build_incident(report).onset, first_detected(report)
    assert detected.step >= onset
    assert severity_before(report, detected.step).rank <= report.diagnosis.severity.rank
    if detected.step > onset:
        steps = report.history.series["loss"].steps
        before = int(steps[steps < detected.step][-1])
        assert severity_before(report, before).rank > report.diagnosis.severity.rank


def test_a_spike_that_led_to_a_nan_is_detected_before_the_nan():
    report = diagnosed("nan-activations-fp16")
    detected = first_detected(report)
    assert detected.slug == "spike-unresolved"
    assert detected.step < build_incident(report).first_bad


def test_a_symptom_is_detected_by_its_own_check():
    report = diagnosed("symptom-plateau-at-chance")
    detected = first_detected(report)
    assert detected.slug == report.diagnosis.slug == "plateau-at-chance"
    assert detected.step < report.history.series["loss"].steps[-1]


# The clock.


def clock(values, steps=None):
    logged_steps = np.arange(len(values)) if steps is None else np.array(steps)
    series = Series(
        role="clock", column="t", steps=logged_steps, values=np.array(values, dtype=float)
    )
    source = Source(name="run.jsonl", format="jsonl", records=len(values))
    return read_clock(History(series={"clock": series}, source=source))


@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
def test_time_stamps_are_utc_in_any_unit(unit):
    result = clock([(BEGAN + 60 * n) * unit for n in range(5)])
    assert (result.calendar, result.at(2)) == (True, "2023-11-14 22:15:20")
    assert result.between(0, 4) == pytest.approx(240)


def test_seconds_since_the_start_are_shown_as_such():
    result = clock([5.0, 3605.0, 7325.0])
    assert not result.calendar
    assert [result.at(step) for step in range(3)] == ["0:00:00", "1:00:00", "2:02:00"]


def test_between_two_time_stamps_and_outside_of_them():
    result = clock([BEGAN, BEGAN + 100], steps=[100, 200])
    assert result.at(150) == "about 2023-11-14 22:14:10"
    assert result.at(201) == ""
    assert result.between(0, 50) is None
    assert result.between(0, 110) == 10.0


def test_times_of_a_restarted_process_are_added():
    assert clock([0.0, 10.0, 20.0, 1.0, 11.0]).between(0, 4) == 30.0


@pytest.mark.parametrize("values", [[], [BEGAN], [float("nan"), BEGAN]])
def test_a_single_time_stamp_gives_no_clock(values):
    assert clock(values) is None


# The cost: 199 steps from the checkpoint of step 400 to the end at 599.


def estimate_cost(report):
    return build_incident(report).lost.cost


STAMPS = {"_timestamp": 1.7e9 + SECONDS}
HOURS = 199 * 30 / 3600


@pytest.mark.parametrize(
    ("columns", "hours", "says"),
    [
        (STAMPS, HOURS, "time stamps"),
        ({"time": SECONDS}, HOURS, "time stamps"),
        ({"elapsed time per iteration (ms)": np.full(600, 3000.0)}, HOURS / 10, "199 steps x 3 s"),
        ({"seconds_per_step": np.full(600, 3.0)}, HOURS / 10, "median step time"),
        ({"step_time": np.full(600, 3.0)}, HOURS / 10, "assumed in seconds"),
    ],
)
def test_hours_come_from_time_stamps_or_step_times(columns, hours, says):
    cost = estimate_cost(broken(columns))
    assert (cost.first, cost.last) == (400, 599)
    assert cost.hours.value == pytest.approx(hours)
    assert says in cost.hours.basis
    assert (cost.work.value, "throughput" in cost.work.basis) == (None, True)


@pytest.mark.parametrize(
    ("column", "unit", "work"),
    [
        ("tokens_per_second", "tokens", 199 * 30 * 64),
        ("train_samples_per_second", "samples", 199 * 30 * 64),
        ("throughput", "tokens", None),  # its unit is unknown
    ],
)
def test_work_is_throughput_times_time(column, unit, work):
    cost = estimate_cost(broken({**STAMPS, column: np.full(600, 64.0)}))
    assert cost.unit == unit
    assert cost.work.value == (None if work is None else pytest.approx(work))


def test_tokens_come_from_batch_size_and_sequence_length():
    cost = estimate_cost(broken(batch_size=8, model={"block_size": 1024}))
    assert cost.work.value == 199 * 8 * 1024
    assert cost.work.basis.startswith("199 steps x 8 sequences x 1024 tokens")
    assert cost.hours.value is None


def test_the_sequence_length_may_come_from_the_logged_configuration():
    report = broken(batch_size=8)
    config = {"eval": {"max_length": 20}, "model": {"block_size": 1024}}
    configured = replace(report, history=replace(report.history, config=config))
    assert estimate_cost(configured).work.value == 199 * 8 * 1024


def test_hours_come_from_tokens_per_step_and_throughput():
    cost = estimate_cost(broken({"tps": np.full(600, 4096.0)}, batch_size=8, seq_len=1024))
    assert cost.hours.value == pytest.approx(199 * 2 / 3600)


def test_without_a_cadence_the_cost_is_a_lower_bound():
    report = broken(checkpoint_every=None)
    assert build_incident(report).lost.at_least
    assert estimate_cost(report).first == 500
    assert "| Steps | at least 99 |" in stabdiag.postmortem(report)


def test_a_checkpoint_after_the_onset_does_not_count():
    assert estimate_cost(broken(checkpoint_every=500)).steps == 599


def test_a_recovered_spike_costs_nothing():
    assert build_incident(diagnosed("spike-lr-jump")).lost.cost is None


def test_a_late_recovery_costs_the_steps_until_then():
    at = np.arange(800)
    loss = 2 + 2 * np.exp(-at / 200) + 0.05 * np.random.default_rng(0).standard_normal(800)
    loss[400:520] += 3
    report = stabdiag.diagnose({"loss": loss}, manifest={"checkpoint_every": 100})
    assert report.diagnosis.slug == "spike-persistent"
    cost = estimate_cost(report)
    assert (cost.first, cost.last) == (400, report.diagnosis.back)


def test_epochs_are_called_epochs_and_not_counted_as_steps():
    loss = np.concatenate([2.0 / np.arange(1, 21), np.full(12, 3.0)])
    manifest = {"batch_size": 32, "seq_len": 128, "checkpoint_every": 5}
    report = stabdiag.diagnose({"epoch": np.arange(32), "loss": loss}, manifest=manifest)
    cost = estimate_cost(report)
    assert (cost.first, cost.last) == (15, 31)
    assert cost.work.value is None
    text = stabdiag.postmortem(report)
    assert "Lost | 16 epochs: from the checkpoint of epoch 15 to the end at 31" in text
    assert not re.search(r"step \d|\d steps? [^x]", text)


def test_a_single_step_can_be_an_incident():
    incident = build_incident(stabdiag.diagnose({"step": [0], "loss": [float("nan")]}))
    assert isinstance(incident, Incident)
    assert (incident.onset, incident.last_good, incident.worst) == (0, None, None)
