"""The step of each record."""

import pytest

import stabdiag
from stabdiag.model.history import EventKind


def notes(history):
    return [event.message for event in history.events if event.kind is EventKind.STEPS]


def log(values, name="step"):
    return [{name: value, "loss": 3.0 - i / 100} for i, value in enumerate(values)]


def test_steps_as_they_were_logged(build):
    history = build(log([10, 20, 40, 80]))
    assert history.series["loss"].steps.tolist() == [10, 20, 40, 80]
    assert notes(history) == []


def test_whole_numbers_may_be_floats_and_negative(build):
    assert build(log([-2.0, -1.0, 0.0, 1.0])).series["loss"].steps.tolist() == [-2, -1, 0, 1]


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), 1e300])
def test_records_without_a_usable_step_are_left_out(build, bad):
    history = build(log([0, 1, bad, 3]))
    assert history.series["loss"].steps.tolist() == [0, 1, 3]
    assert notes(history) == ["1 record has no usable step in 'step' and is left out"]


def test_several_records_without_a_step(build):
    assert notes(build(log([0, None, None, 3]))) == [
        "2 records have no usable step in 'step' and are left out"
    ]


def test_fractional_steps_are_no_steps(build):
    history = build(log([0.5, 1.0, 1.5, 2.0]))
    assert history.series["loss"].steps.tolist() == [0, 1, 2, 3]
    assert notes(history) == [
        "the step column 'step' is not in whole numbers",
        "no step was logged: the record's number serves as the step",
    ]


@pytest.mark.parametrize("values", [[None] * 4, [float("nan")] * 4, ["a", "b", "c", "d"]])
def test_a_step_column_without_numbers(build, values):
    history = build(log(values))
    assert history.series["loss"].steps.tolist() == [0, 1, 2, 3]
    assert notes(history)[0] == "the step column 'step' holds no numbers"


def test_steps_that_were_logged_are_not_counted_by_the_manifest():
    log = {"step": range(40), "loss": [2.0] * 40}
    history = stabdiag.diagnose(log, manifest={"logging_steps": 10}).history
    assert history.series["loss"].steps.tolist() == list(range(40))


def test_no_step_at_all(build):
    history = build([{"loss": 3.0}, {"loss": 2.0}])
    assert history.series["loss"].steps.tolist() == [0, 1]
    assert notes(history) == ["no step was logged: the record's number serves as the step"]


def test_the_epoch_serves_where_there_is_one_record_each(build):
    history = build(log([1, 2, 3, 4], "epoch"))
    assert history.series["loss"].steps.tolist() == [1, 2, 3, 4]
    assert notes(history) == ["no step was logged: 'epoch' serves as the step"]


def test_an_epoch_of_many_records_does_not_serve(build):
    history = build(log([1, 1, 2, 2], "epoch"))
    assert history.series["loss"].steps.tolist() == [0, 1, 2, 3]


def test_a_fractional_epoch_does_not_serve(build):
    history = build(log([0.1, 0.2, 0.3], "epoch"))
    assert history.series["loss"].steps.tolist() == [0, 1, 2]


def epochs(*runs, name="epoch"):
    """Runs that were appended: their epochs, and the loss that each begins with."""
    return [{name: n, "loss": first - n / 10} for ns, first in runs for n in ns]


def test_epochs_of_runs_that_were_appended(build):
    history = build(epochs((range(10), 3.0), (range(10), 2.6), (range(6), 2.5)))
    assert (history.source.attempts, history.source.attempt) == (3, 3)
    assert history.series["loss"].steps.tolist() == list(range(6))
    assert notes(history) == ["no step was logged: 'epoch' serves as the step"]


def test_epochs_that_start_again_while_the_loss_goes_on(build):
    history = build(epochs((range(1, 8), 3.0), (range(1, 8), 2.4)))
    assert history.source.attempts == 1
    assert history.series["loss"].steps.tolist() == list(range(1, 15))


def test_epochs_that_a_resume_goes_over_again(build):
    history = build(epochs((range(10), 3.0), (range(6, 14), 3.0)))
    assert history.source.attempts == 1
    assert history.series["loss"].steps.tolist() == list(range(14))
    assert notes(history)[1:] == ["4 losses are superseded by later ones"]


@pytest.mark.parametrize(("times", "serves"), [(20, True), (22, False)])
def test_what_starts_again_too_often_counts_within_something_else(build, times, serves):
    runs = [(range(6 + i % 2), 3.0 - i / 10) for i in range(times)]
    told = "'epoch' serves" if serves else "the record's number serves"
    assert told in notes(build(epochs(*runs)))[0]


def test_epochs_in_another_language(build):
    assert notes(build(log([1, 2, 3, 4], "época"))) == [
        "no step was logged: 'época' (the epoch) serves as the step"
    ]


def test_rounds_serve_where_there_is_one_record_each(build):
    assert build(log([5, 10, 15, 20], "round")).series["loss"].steps.tolist() == [5, 10, 15, 20]
