"""Lists of different lengths in one log."""

import json

import pytest

import stabdiag

NAME = "run.json"
NAN = float("nan")


def values(columns, name):
    column = columns.load(name)
    return [v if p else None for v, p in zip(column.values.tolist(), column.present, strict=True)]


FALLING = [3 - n / 50 for n in range(100)]


@pytest.mark.parametrize(
    ("lists", "name", "contents", "message"),
    [
        (
            {"losses": FALLING, "val_losses": [2.5, 2.25, 2.0, NAN]},
            "val_losses",
            {24: 2.5, 49: 2.25, 74: 2.0, 99: NAN},
            "'val_losses' has 4 values, others have 100: one is matched with every 25 records",
        ),
        (
            {"train_loss": FALLING[:4], "lr": [n / 100 for n in range(100)]},
            "lr",
            {0: 0.24, 1: 0.49, 2: 0.74, 3: 0.99},
            "'lr' has 100 values, others have 4: one of every 25 is used",
        ),
        (
            {"loss": FALLING[:10], "hits": [0.5] * 3, "val_acc": [0.25, 0.5, 0.75]},
            "val_acc",
            {2: 0.25, 5: 0.5, 9: 0.75},
            "'val_acc' has 3 values, others have 10: one is matched with every 3.333 records",
        ),
        (
            {"box_loss": FALLING[:9], "class_loss": FALLING[:6], "class_val_loss": FALLING[:6]},
            "#1/class_loss",
            dict(enumerate(FALLING[:6])),
            "'class_loss' and 1 more list have 6 values, others have 9: the first 6 of both are "
            "matched",
        ),
    ],
)
def test_lists_of_other_lengths_are_aligned(log, lists, name, contents, message):
    columns = log(lists)
    expected = [contents.get(row) for row in range(columns.rows)]
    assert repr(values(columns, name)) == repr(expected)
    assert message in [event.message for event in columns.events]


def test_a_nan_in_a_shorter_list_is_reported(put):
    lists = {"train_losses": FALLING, "val_losses": [2.5, 2.25, NAN, NAN, NAN]}
    assert stabdiag.diagnose(put(json.dumps(lists))).diagnosis.slug == "eval-nonfinite"
    lists = {"box_loss": FALLING[:30], "class_loss": [*FALLING[:12], *[NAN] * 12]}
    assert stabdiag.diagnose(put(json.dumps(lists))).diagnosis.slug == "nan-dtype-unknown"


def test_no_value_at_the_end_of_a_longer_evaluation_is_lost(put):
    lists = {"train_loss": FALLING[:19], "val_loss": [*FALLING[5:24], *[NAN] * 11]}
    report = stabdiag.diagnose(put(json.dumps(lists)))
    assert report.diagnosis.slug == "eval-nonfinite"
    assert len(report.history.series["eval_loss"]) == 30


@pytest.mark.parametrize(
    "form",
    [
        "history: {{'loss': {losses}, 'val_loss': {evaluations}}}\n",
        "train_losses = {losses}\nval_losses = {evaluations}\n",
        "Train loss: {losses}\nVal loss: {evaluations}\nlr: [0.1, 0.01]\n",
    ],
)
@pytest.mark.parametrize("evaluations", [[2.5, 2.25, NAN, NAN, NAN], [2.5, NAN]])
def test_printed_lists_of_other_lengths_are_aligned(put, form, evaluations):
    report = stabdiag.diagnose(put(form.format(losses=FALLING, evaluations=evaluations)))
    assert report.diagnosis.slug == "eval-nonfinite"
    assert len(report.history.series["loss"]) == 100
    assert "lr" not in report.history.series
