"""The log of the evaluations of a run in the folder of its training log."""

import json
import math

import pytest

import stabdiag


def lines(name, steps, value):
    return "".join(json.dumps({"step": step, name: value(step)}) + "\n" for step in steps)


def falling(step):
    return 3 - step / 100


def ends_nan(step):
    return math.nan if step > 100 else 2.5


TRAINING = lines("loss", range(200), falling)
EVALUATIONS = lines("eval_loss", range(0, 200, 20), ends_nan)


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(**files):
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
        return stabdiag.diagnose(tmp_path)

    return diagnose


@pytest.mark.parametrize(
    ("training", "evaluation"),
    [
        ("train.jsonl", "eval.jsonl"),
        ("train.jsonl", "val.jsonl"),
        ("log.jsonl", "eval_log.jsonl"),
        ("lr3.jsonl", "lr3_valid.jsonl"),
        ("train_metrics.jsonl", "test_metrics.jsonl"),
        ("run.jsonl", "eval.jsonl"),
    ],
)
def test_evaluations_in_a_file_of_their_own_are_judged(diagnosed, training, evaluation):
    report = diagnosed(**{training: TRAINING, evaluation: EVALUATIONS})
    assert report.diagnosis.slug == "eval-nonfinite"
    assert len(report.history.series["loss"]) == 200
    assert report.history.series["eval_loss"].steps.tolist() == [*range(0, 200, 20)]


def test_the_loss_of_an_evaluation_needs_no_name_of_its_own(diagnosed):
    table = "step,loss\n" + "".join(f"{step},{ends_nan(step)}\n" for step in range(0, 200, 20))
    report = diagnosed(train__jsonl=TRAINING, val__csv=table)
    assert report.diagnosis.slug == "eval-nonfinite"


@pytest.mark.parametrize(
    ("evaluation", "text"),
    [
        ("lr4_eval.jsonl", EVALUATIONS),  # of another run
        ("eval.jsonl", EVALUATIONS.replace("step", "time")),
        ("eval.jsonl", "no record\n"),
        ("eval.jsonl", lines("examples", range(0, 200, 20), falling)),
    ],
)
def test_other_files_are_no_evaluations_of_the_run(diagnosed, evaluation, text):
    report = diagnosed(**{"lr3.jsonl": TRAINING, evaluation: text})
    assert "eval_loss" not in report.history.series
    assert report.ok


def test_of_two_evaluations_the_one_of_the_validation_counts(diagnosed):
    test = lines("eval_loss", range(0, 200, 20), falling)
    report = diagnosed(train__jsonl=TRAINING, val__jsonl=EVALUATIONS, test__jsonl=test)
    assert report.diagnosis.slug == "eval-nonfinite"
