"""A watch stops when a run stays worse than its baseline."""

import pytest

import stabdiag
from stabdiag.model.findings import Severity
from stabdiag.watch.certain import InitialLosses, certain
from tests.baseline.made import run

HIGHER = 0.7  # the loss ends at this level, the losses of the good runs at 0.5


def report_at(step, **options):
    columns = {name: values[:step] for name, values in run(50, **options).items()}
    return stabdiag.diagnose(columns, baseline=[run(seed) for seed in range(5)])


@pytest.mark.parametrize(("step", "is_certain"), [(200, False), (400, True)])
def test_a_worse_run_is_certain_after_a_window(step, is_certain):
    report = report_at(step, end=HIGHER)
    assert report.diagnosis.slug == "worse-than-baseline"
    finding = certain(report, Severity.WARNING)
    assert (finding is not None) == is_certain
    if finding is not None:
        assert finding.slug == "worse-than-baseline"
        assert report.history.last_step - finding.step >= report.limits.divergence.window


def test_a_warning_does_not_stop_a_watch_for_errors():
    assert certain(report_at(400, end=HIGHER), Severity.ERROR) is None


def test_a_run_within_the_band_is_not_certain():
    assert certain(report_at(400), Severity.WARNING) is None


def test_a_departure_before_the_watch_is_certain_if_it_lasts():
    early = report_at(200, end=HIGHER)
    initial = InitialLosses.of(early)
    finding = certain(report_at(400, end=HIGHER), Severity.WARNING, initial)
    assert finding is not None
    assert finding.slug == "worse-than-baseline"
