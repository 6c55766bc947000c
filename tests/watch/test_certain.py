"""Certain findings are not withdrawn: real runs, read block by block as a watch does."""

from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.api import diagnose
from stabdiag.assemble import build_history
from stabdiag.errors import LogError
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.sources import read_source
from stabdiag.watch.certain import certain
from tests.conftest import NAMES, ONE_EACH, about, diagnosed, log_of

BLOCKS = 3


def source_of(run):
    return read_source([log_of(run)])


def first(columns, rows):
    """Return the columns of the first records of a log."""

    def load(name):
        column = columns.load(name)
        return replace(
            column,
            values=column.values[:rows],
            present=column.present[:rows],
            null=column.null[:rows],
        )

    return replace(columns, rows=rows, load=load, converted=False)


def report_of(run, rows):
    try:
        history = build_history(first(run.columns, rows), Limits())
    except LogError:
        return None
    return diagnose(history, manifest=run.manifest)


def after(run, rows):
    """Return the slug of the certain finding after a number of records, or None."""
    report = report_of(source_of(run), rows)
    sure = None if report is None else certain(report, Severity.ERROR)
    return None if sure is None else sure.slug


def section(slug):
    return slug.partition("-")[0]


def expects(start):
    return [run for run in NAMES if about(run)["expect"].startswith(start)]


# In the middle of its climb, this run is as broken as one that never recovers.
RECOVERS_LATE = "symptom-rise-recovered"


@pytest.mark.parametrize("run", sorted({*ONE_EACH, *expects("healthy")} - {RECOVERS_LATE}))
def test_certain_errors_are_never_withdrawn(run):
    log, final = source_of(run), diagnosed(run)
    errors = {
        section(column.slug) for column in final.findings if column.severity is Severity.ERROR
    }
    for rows in np.linspace(0, log.columns.rows, BLOCKS + 1).astype(int)[1:-1].tolist():
        report = report_of(log, rows)
        sure = None if report is None else certain(report, Severity.ERROR)
        if sure is not None:
            assert section(sure.slug) in errors
            break


@pytest.mark.parametrize("rows", [375, 692])
def test_a_climb_with_growing_weights_is_not_certain(rows):
    """Whether the loss rises with the weight, as a VAE's does, shows only once that has settled."""
    assert after("healthy-loss-weight", rows) is None


@pytest.mark.parametrize("run", [*expects("nan-"), *expects("spike-persistent")])
def test_permanent_failures_are_certain_before_the_end(run):
    assert certain(diagnosed(run), Severity.ERROR) is not None


def test_a_spike_is_certain_when_its_window_is_over():
    run = "spike-persistent-moments"
    onset = diagnosed(run).diagnosis.step
    assert onset == 501
    assert after(run, onset + 40) is None
    assert after(run, onset + 52) == "spike-persistent"


STEPS = np.arange(300)


@pytest.mark.parametrize(
    ("logged", "settings", "is_certain"),
    [
        ({}, {}, True),
        ({"epoch": STEPS // 100}, {}, False),
        ({"epoch": (STEPS + 1) / 100}, {}, False),
        ({"epoch": (STEPS + 30) // 100}, {}, True),
        ({"epoch": STEPS}, {}, True),
        ({}, {"steps_per_epoch": 100}, False),
        ({}, {"steps_per_epoch": 200}, False),
        ({}, {"total_steps": 1000, "num_train_epochs": 10}, False),
        ({}, {"total_steps": 1999, "epochs": 30}, False),  # 66.6 steps, the third ends at 199.9
        ({"step": STEPS + 1}, {"steps_per_epoch": 100}, False),
        ({"step": 10 * STEPS}, {"steps_per_epoch": 1000}, False),
        ({"step": 10 * STEPS + 9}, {"steps_per_epoch": 1000}, False),
        ({}, {"steps_per_epoch": 130}, True),
        ({}, {"steps_per_epoch": 5}, True),
        ({}, {"total_steps": 1000}, True),
        ({"epoch": (STEPS + 30) // 100}, {"steps_per_epoch": 100}, True),
        ({"batch_id": STEPS % 200 * 7}, {}, False),
        ({"batch_id": STEPS % 150 * 7}, {}, True),
        ({"batch_id": np.full(300, 7)}, {}, True),
    ],
)
def test_a_spike_that_begins_with_an_epoch_is_not_certain(logged, settings, is_certain):
    noise = np.random.default_rng(8).normal(0.0, 0.05, 300)
    log = {"step": STEPS, "loss": np.where(STEPS < 200, 2.0, 3.0) + noise, **logged}
    report = stabdiag.diagnose(log, manifest=settings)
    assert report.diagnosis.slug == "spike-persistent"
    assert (certain(report, Severity.ERROR) is not None) == is_certain


def test_a_climb_is_certain_when_it_was_one_a_window_ago():
    run = source_of("divergence-lr-inverse-cosine")
    verdicts = []
    for rows in range(900, run.columns.rows, 60):
        report = report_of(run, rows)
        is_error = report.diagnosis.severity is Severity.ERROR
        verdicts.append((is_error, certain(report, Severity.ERROR) is not None))
    climbs, sure = (np.array(column) for column in zip(*verdicts, strict=True))
    assert sure.any()
    assert np.argmax(sure) - np.argmax(climbs) >= 200 // 60


def test_a_nan_is_certain_immediately_even_if_a_resume_fixes_it():
    assert after("healthy-failed-attempt", 246) == "nan-fp32"
    assert after("healthy-failed-attempt", 400) is None


@pytest.mark.parametrize(
    ("rows", "nan_at", "is_certain"),
    [(3, 2, False), (5, 2, False), (13, 3, True), (12, 11, False), (12, 10, True)],
)
def test_a_nan_among_few_losses_is_certain_when_the_log_grows(rows, nan_at, is_certain):
    """With more lines, another reader may read a short log differently."""
    losses = np.where(np.arange(rows) >= nan_at, np.nan, 2.0)
    report = stabdiag.diagnose({"step": np.arange(rows), "loss": losses})
    assert report.diagnosis.section == "§1"
    assert (certain(report, Severity.ERROR) is not None) is is_certain


def test_a_nan_inferred_from_a_missing_value_is_certain_later():
    run = "nan-dropped-field-fp32"
    onset = diagnosed(run).diagnosis.step
    rows = source_of(run).columns.rows
    certain_at = [n for n in range(onset, min(onset + 80, rows), 10) if after(run, n) is not None]
    assert certain_at
    assert certain_at[0] >= onset + 50


def test_a_warning_is_certain_in_its_turn():
    report = diagnosed("spike-lr-jump")
    assert certain(report, Severity.ERROR) is None
    sure = certain(report, Severity.WARNING)
    assert sure.slug == "spike-lr-jump"


@pytest.mark.parametrize("run", ["loss-scale-collapsed-often", "symptom-grad-vanishing"])
def test_failures_other_than_climbs_are_certain_earlier(run):
    log = source_of(run)
    begin = about(run)["onset"] or 240
    verdicts = []
    for rows in range(begin, log.columns.rows + 1, 20):
        report = report_of(log, rows)
        is_error = report.diagnosis.severity is Severity.ERROR
        verdicts.append((is_error, certain(report, Severity.ERROR) is not None))
        if verdicts[-1][1]:
            break
    assert verdicts[-1][1]
    assert 50 // 20 <= sum(is_error for is_error, _ in verdicts) < 200 // 20


@pytest.mark.parametrize(("steps", "slug"), [(400, "loss-scale-collapsed"), (340, None)])
def test_a_run_without_a_loss_is_judged_by_what_it_has(steps, slug):
    scale = np.repeat(2.0 ** np.arange(16, -4, -1), 20)[:steps]
    norms = np.where(np.arange(400) % 20 == 19, np.inf, 1.0)[:steps]
    report = stabdiag.diagnose({"step": np.arange(steps), "loss_scale": scale, "grad_norm": norms})
    sure = certain(report, Severity.ERROR)
    assert (sure and sure.slug) == slug


def run_with_a_jump(at, records):
    """Return the report of a loss with one NaN at 120 that stays high from a record on."""
    random = np.random.default_rng(5)
    loss = 2 + 3 * np.exp(-np.arange(records) / 90) + random.normal(0, 0.03, records)
    loss[120] = np.nan
    loss[at:] += 7
    return stabdiag.diagnose({"step": np.arange(records), "loss": loss})


def test_a_jump_after_a_nan_that_recovered_is_certain():
    report = run_with_a_jump(430, 500)
    assert [finding.slug for finding in report.findings] == ["nan-dtype-unknown"]
    finding = certain(report, Severity.ERROR)
    assert (finding.slug, finding.step) == ("spike-persistent", 430)


@pytest.mark.parametrize(("at", "records"), [(430, 430), (430, 440), (130, 138)])
def test_a_nan_that_recovered_is_not_certain(at, records):
    assert certain(run_with_a_jump(at, records), Severity.ERROR) is None
