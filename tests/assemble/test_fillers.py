"""NaN that fills the gaps of a table."""

import numpy as np
import pytest

NAN = float("nan")


def trained(n=60, lost=1000):
    """Records of losses, of a monitor and of evaluations, NaN in all gaps."""
    log = []
    for step in range(n):
        gaps = {"step": step, "loss": NAN, "lr": NAN, "eval_loss": NAN}
        log.append({**gaps, "lr": 1e-3})
        log.append({**gaps, "loss": 3.0 - step / n if step < lost else NAN})
        if step % 10 == 9:
            log.append({**gaps, "eval_loss": 3.5 - step / n})
    return log


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_nan_that_fills_gaps(build, format):
    history = build(trained(), format)
    loss, eval_loss, lr = (history.series[role] for role in ("loss", "eval_loss", "lr"))
    assert np.isfinite(loss.values).all()
    assert loss.steps.tolist() == lr.steps.tolist() == list(range(60))
    assert eval_loss.steps.tolist() == list(range(9, 60, 10))
    assert np.isfinite(eval_loss.values).all()
    assert np.isfinite(lr.values).all()
    assert any("NaN fills the gaps" in event.message for event in history.events)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_loss_that_became_nan_among_filled_gaps(build, format):
    loss = build(trained(lost=40), format).series["loss"]
    assert loss.steps[np.isnan(loss.values)].tolist() == list(range(40, 60))


def test_nan_in_the_record_of_an_evaluation(build):
    log = [
        {"epoch": n, "loss": 3.0 - n / 40 if n < 30 else NAN, "eval_loss": 3.1} for n in range(40)
    ]
    loss = build(log).series["loss"]
    assert loss.steps[np.isnan(loss.values)].tolist() == list(range(30, 40))


def evaluated(lost=1000):
    """Return records of epochs: every fifth has an evaluation, the others have NaN."""
    return [
        {"epoch": n, "loss": 3.0, "val_loss": 3.2 if n % 5 == 4 and n < lost else NAN}
        for n in range(60)
    ]


def test_nan_of_epochs_without_an_evaluation(build):
    eval_loss = build(evaluated()).series["eval_loss"]
    assert eval_loss.steps.tolist() == list(range(4, 60, 5))
    assert np.isfinite(eval_loss.values).all()
    lost = build(evaluated(lost=40)).series["eval_loss"]
    assert lost.steps[np.isnan(lost.values)].tolist()[0] == 44


def test_an_evaluation_that_is_occasionally_nan(build):
    log = [
        {"epoch": n, "loss": 3.0, "val_loss": NAN if n in (7, 8, 30) else 3.2} for n in range(60)
    ]
    eval_loss = build(log).series["eval_loss"]
    assert eval_loss.steps[np.isnan(eval_loss.values)].tolist() == [7, 8, 30]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_nan_before_the_first_loss(build, format):
    log = [{"step": n, "loss": 3.0 - n / 40 if n else NAN, "lr": 1e-3} for n in range(40)]
    history = build(log, format)
    assert history.series["loss"].steps.tolist() == list(range(1, 40))
    assert any("precedes the first measurement" in event.message for event in history.events)
    log[20]["loss"] = NAN
    loss = build(log, format).series["loss"]
    assert loss.steps[np.isnan(loss.values)].tolist() == [20]


@pytest.mark.parametrize("columns", [{"grad_norm": 1.0}, {"step": 1}, {"loss": NAN}])
def test_a_first_nan_that_was_measured(build, columns):
    """The NaN has a gradient norm, the step of the next record, or a NaN after it."""
    log = [{"step": n, "loss": 3.0 if n else NAN, "lr": 1e-3} | columns for n in range(2)]
    log += [{"step": n, "loss": 3.0} for n in range(2, 40)]
    log[0]["loss"] = NAN
    history = build(log)
    assert not any("precedes the first measurement" in event.message for event in history.events)


@pytest.mark.parametrize(("name", "is_used"), [("ValidDeviance", False), ("val_loss", True)])
def test_gbm_writes_nan_without_a_validation_set(build, name, is_used):
    log = [{"step": n, "loss": 3 - n / 60, name: NAN} for n in range(60)]
    assert ("eval_loss" in build(log, "csv").series) == is_used


def test_a_validation_loss_of_gbm_that_became_nan(build):
    log = [{"Iter": n, "TrainDeviance": 3.0, "ValidDeviance": 3.0} for n in range(60)]
    log[-1]["ValidDeviance"] = NAN
    assert "eval_loss" in build(log, "csv").series
