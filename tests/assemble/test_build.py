"""From raw columns to a history."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import ColumnError, NoUsableRecord
from stabdiag.model.events import EventKind
from tests.assemble.conftest import messages


def test_without_a_loss_there_is_nothing_to_diagnose(build):
    with pytest.raises(ColumnError, match=r"it has step, lr.*--column loss=NAME"):
        build([{"step": 0, "lr": 1.0}])


def test_a_measure_is_used_if_there_is_no_loss(build):
    log = [{"epoch": i, "mse": 3.0 - i / 10, "val_mse": 3.0} for i in range(9)]
    history = build(log)
    assert history.series["loss"].column == "mse"
    assert history.series["eval_loss"].column == "val_mse"
    assert messages(history, EventKind.COLUMN) == ["took 'mse' as the loss, by its name"]


def test_a_measure_is_not_used_next_to_a_loss(build, rows):
    assert build(rows(20, mse=1.0)).series["loss"].column == "loss"
    log = [{"epoch": i, "mse": 3.0, "val_loss": 2.0} for i in range(9)]
    assert build(log).series["loss"].column == "val_loss"


def test_words_are_not_a_loss(build):
    with pytest.raises(ColumnError, match=r"'loss' contains words instead of numbers.*--column"):
        build([{"step": 0, "loss": "low"}])


def test_words_are_not_a_learning_rate(build, rows):
    history = build(rows(20, loss_scale="dynamic"))
    assert "loss_scale" not in history.series
    assert messages(history, EventKind.COLUMN) == [
        "'loss_scale' contains words instead of numbers: not used as loss_scale"
    ]


def test_words_may_name_batches(build):
    log = [{"step": i, "loss": 3.0, "batch_hash": f"x{i % 3}"} for i in range(9)]
    values = build(log).series["batch_id"].values
    assert values[0] == values[3] != values[1]


@pytest.mark.parametrize("loss", [None])
def test_records_without_a_loss_are_an_error(build, loss):
    with pytest.raises(NoUsableRecord, match="no record has both a step and a loss"):
        build([{"step": i, "loss": loss} for i in range(5)])


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss_scale", -1.0), ("loss_scale", 0.0), ("grad_norm", 0.0), ("grad_norm", -1.0)],
)
def test_placeholders_are_dropped_with_a_note(build, rows, name, value):
    history = build([{**record, name: value} for record in rows(20)])
    assert name not in history.series
    assert messages(history, EventKind.PLACEHOLDER) == [
        f"{name!r} is {value:g} in every record, a placeholder: not used as {name}"
    ]


@pytest.mark.parametrize(("count", "kept"), [(2, True), (3, False)])
def test_one_or_two_records_are_not_a_placeholder(build, rows, count, kept):
    history = build([{**record, "grad_norm": 0.0} for record in rows(count)])
    assert ("grad_norm" in history.series) is kept


@pytest.mark.parametrize(("name", "value"), [("loss_scale", 1.0), ("lr", 0.0), ("grad_norm", 1.0)])
def test_other_constants_are_measurements(build, rows, name, value):
    assert name in build([{**record, name: value} for record in rows(20)]).series


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (1, "1 line was not readable (line 3: not JSON)"),
        (7, "7 lines were not readable (line 3: not JSON)"),
    ],
)
def test_unreadable_lines_are_counted(build, rows, bad, message):
    history = build(rows(20), bad=bad)
    assert history.source.unreadable == bad
    assert messages(history, EventKind.UNREADABLE) == [message]


def test_a_series_of_records_without_a_step_is_left_out():
    # The evaluation of step 10 comes late, and the only throughput has no step.
    steps = [*range(30), 10, None]
    loss = [*(5.0 - 0.1 * step for step in range(30)), None, None]
    history = stabdiag.read(
        {
            "step": steps,
            "loss": loss,
            "eval_loss": [None] * 30 + [4.5, None],
            "tokens_per_second": [None] * 31 + [1.0],
        }
    )
    assert history.series["eval_loss"].steps.tolist() == [10]
    assert "tokens_per_second" not in history.series


@pytest.mark.parametrize(
    ("names", "loss"),
    [
        (("ce", "aux_loss"), "ce"),
        (("nll", "reg_loss"), "nll"),
        (("cls_loss", "box_loss", "total"), "total"),
        (("loss_weight", "mse"), "mse"),
        (("kl_loss", "accuracy"), "kl_loss"),
    ],
)
def test_a_penalty_or_a_part_is_not_the_loss(build, names, loss):
    log = [{"step": i, **dict.fromkeys(names, 3.0 - 0.1 * i)} for i in range(9)]
    assert build(log).series["loss"].column == loss


@pytest.mark.parametrize("column", ["Model", "trial", "team"])
def test_a_table_of_results_is_not_a_log(build, column):
    results = [{column: f"no {i}", "loss": 3.0 - i} for i in range(4)]
    with pytest.raises(NoUsableRecord, match=f"each record has a different '{column}'"):
        build(results)
    assert len(build([{**row, "step": i} for i, row in enumerate(results)]).series["loss"]) == 4
    assert len(build([{**row, column: "same"} for row in results]).series["loss"]) == 4
    assert len(build([{**row, "step": np.inf} for row in results]).series["loss"]) == 4
    assert len(build(results, chosen={"loss": "loss"}).series["loss"]) == 4


def test_nan_in_runs_that_are_not_diagnosed_is_reported(build):
    log = [{"step": i, "loss": 3.0 / (1 + i) if i < 20 else float("nan")} for i in range(30)]
    log += [{"step": i, "loss": 3.0 / (1 + i)} for i in range(30)]
    (message,) = messages(build(log), EventKind.ATTEMPT)
    assert message.endswith("not all losses of number 1 are finite")


@pytest.mark.parametrize("column", ["metric", "tag"])
def test_a_long_table_has_a_column_for_each_measurement(build, column):
    log = [
        {"step": i, column: measure, "value": value}
        for i in range(30)
        for measure, value in (
            ("loss", 3.0 - 0.1 * i),
            ("accuracy", 0.1 * i),
            ("grad_norm", 1.0 + i),
        )
    ]
    history = build(log)
    assert history.series["loss"].values.tolist() == [3.0 - 0.1 * i for i in range(30)]
    assert history.series["grad_norm"].values.tolist() == [1.0 + i for i in range(30)]
    assert len(history.series["loss"]) == 30
    assert any("contains one measurement" in event.message for event in history.events)


def test_a_null_evaluation_loss_is_not_a_nan(build):
    log = []
    for i in range(40):
        log.append({"type": "train", "step": i, "loss": 3.0 - 0.01 * i})
        if i % 10 == 9:
            log.append({"type": "eval", "step": i, "loss": None, "acc": 0.5})
    history = build(log)
    assert len(history.series["loss"]) == 40
    assert np.isfinite(history.series["loss"].values).all()
    assert any("contain no training loss" in event.message for event in history.events)


def test_values_without_a_loss_name_stay_together(build):
    log = [{"step": i, "tag": "a" if i % 2 else "b", "value": 3.0} for i in range(9)]
    assert len(build(log).series["loss"]) == 9


def test_sums_of_right_answers_are_no_accuracy():
    log = {"step": range(40), "loss": [2.0] * 40, "acc": [69.0 * n for n in range(40)]}
    assert "accuracy" not in stabdiag.read(log).series
    assert "accuracy" in stabdiag.read({**log, "acc": [2.5 * n for n in range(40)]}).series
