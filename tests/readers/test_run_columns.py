"""Tables with a column for each run, whose measure the file or the first cell names."""

import json

import pytest

import stabdiag
from stabdiag.errors import ColumnError


def table(*heading, delimiter=",", label=str):
    """Return a table of a counter and a column for each run."""
    rows = [
        [label(n), *(f"{2.5 / run - n / 40:.4f}" for run in range(1, len(heading)))]
        for n in range(9)
    ]
    return "".join(f"{delimiter.join(row)}\n" for row in [heading, *rows])


TABLES = [
    ("loss.csv", table("epoch", "Adam", "RMSProp")),
    ("train_loss.tsv", table("step", "seed 1", "seed 2", "seed 3", delimiter="\t")),
    ("errors.csv", table("iteration", "lr=0.1", "lr=0.01")),
    ("table.csv", table("loss", "dropout 0.2", "dropout 0.4", label="Epoch {}".format)),
    (
        "table.csv",
        table("perplexity ", "hidden 64", "hidden 128", delimiter=";", label="E{}".format),
    ),
]


@pytest.mark.parametrize(("file", "text"), TABLES)
def test_columns_are_named_after_runs(put, file, text):
    series = stabdiag.read(put(text, file)).series
    assert series["loss"].values[0] == 2.5
    assert len(series["loss"].values) == 9


@pytest.mark.parametrize(
    ("file", "heading"),
    [
        ("loss_of_oaks.csv", ("Epoch No.", "Oak", "Elm")),
        ("mse.csv", ("round", "oak", "time")),
        ("loss_parts.csv", ("iteration", "G", "D")),  # two networks, and terms of a loss
        ("loss.csv", ("epoch", "kl", "recon")),
        ("loss.csv", ("epoch", "mean", "max", "std")),
    ],
)
def test_columns_of_any_name_have_the_measure_of_the_file(put, file, heading):
    series = stabdiag.read(put(table(*heading), file)).series
    assert len(series["loss"].values) == 9
    assert series["loss"].values[0] in (2.5, 1.25)


@pytest.mark.parametrize(
    ("file", "runs", "first"),
    [
        ("loss_values.json", ["baseline"], ("loss", 2.5)),
        ("losses.json", ["oak", "elm"], ("loss", 2.5)),
        ("loss_history.json", ["lr=0.1", "lr=0.01"], ("loss", 2.5)),
        ("test_loss.json", ["oak", "elm"], ("loss", 2.5)),
        ("rewards.json", ["oak", "elm"], ("reward", 2.5)),
    ],
)
def test_lists_of_any_name_have_the_measure_of_the_file(put, file, runs, first):
    text = json.dumps({run: [2.5 / n for n in range(1, 12)] for run in runs})
    role, value = first
    assert stabdiag.read(put(text, file)).series[role].values[0] == value
    with pytest.raises(ColumnError):
        stabdiag.read(put(text, "times.json"))


@pytest.mark.parametrize("file", ["loss_log.txt", "history.txt"])
def test_the_only_column_of_a_file_named_after_a_loss_is_one(put, file):
    text = "training error\t\n" + "".join(f" {300 / n:.4e}\t\n" for n in range(1, 30))
    if file == "history.txt":
        with pytest.raises(ColumnError):
            stabdiag.read(put(text, file))
    else:
        assert stabdiag.read(put(text, file)).series["loss"].values[1] == 150


def test_networks_in_a_file_of_losses_that_pandas_numbers(put):
    rows = [f"{n},{(-1) ** n * 3.5 / (n + 1):.4f},{-9.5 - n % 4:.2f}\n" for n in range(30)]
    report = stabdiag.diagnose(put(",G,D\n" + "".join(rows), "loss.csv"))
    assert report.history.series["loss"].column == "D_loss"
    assert report.history.series["other_loss/G_loss"].values[0] == 3.5


@pytest.mark.parametrize("file", ["accuracy.csv", "rewards.csv"])
def test_scores_of_several_runs(put, file):
    report = stabdiag.diagnose(put(table("episode", "run_1", "run_2"), file))
    assert report.diagnosis.slug != "partly-read"
    assert "2.5 to 2.3" in report.diagnosis.summary


@pytest.mark.parametrize(
    ("file", "heading", "shown"),
    [
        ("accuracy.csv", ("epoch", "train", "val"), "The accuracy went"),
        ("oak_acc.csv", ("", "Train", "Validation"), "The accuracy went"),
        ("Accuracy_curve.csv", ("step", "Test", "Train"), "The accuracy went"),
        ("acc_of_oak.csv", ("step", "test"), "The evaluation accuracy went"),
        ("f1.csv", ("epoch", "training", "dev"), "'training_f1' went"),
    ],
)
def test_columns_of_splits_are_scores_in_a_file_named_after_one(put, file, heading, shown):
    rows = [",".join([str(n), *(len(heading) - 1) * [f"{n / 20:.2f}"]]) for n in range(12)]
    text = "\n".join([",".join(heading), *rows, ""])
    summary = stabdiag.diagnose(put(text, file)).diagnosis.summary
    assert f"{shown} from 0 to 0.55" in summary
    if file == "accuracy.csv":
        series = stabdiag.read(put(text, "losses.csv")).series
        assert {"loss", "eval_loss"} <= series.keys()


def test_lists_of_splits_are_scores_in_a_file_named_after_one(put):
    rises = [n / 20 for n in range(12)]
    text = json.dumps({"train": rises, "val": rises[::-1]})
    summary = stabdiag.diagnose(put(text, "accuracy.json")).diagnosis.summary
    assert summary.startswith("'val_accuracy' was 0.5 at step 2 and is 0.05 at the end")


@pytest.mark.parametrize("name", ["episode_id", "episodes", "Game No."])
def test_scores_next_to_an_unusual_counter_are_judged(put, name):
    rows = "".join(f"{n},{n * n % 17 - 8.5}\n" for n in range(1, 40))
    report = stabdiag.diagnose(put(f"{name},score\n{rows}", "log.csv"))
    assert "reward" in report.history.series
    assert "(it has" not in report.diagnosis.summary


def test_each_run_is_checked(put, stabdiag):
    text = table("epoch", "seed 1", "seed 2")
    for value in ("1.1000", "1.0750", "1.0500"):
        text = text.replace(value, "nan")
    path = put(text, "loss.csv")
    assert "'seed 2 - loss' is not finite from epoch 6 on" in stabdiag("check", path).out
    assert "2 runs: 1 failed" in stabdiag("check", path.parent).out


@pytest.mark.parametrize(
    ("file", "heading"),
    [
        ("results.csv", ("epoch", "seed 1", "seed 2")),  # no measure is named
        ("acc.csv", ("epoch", "class_0", "class_1")),
        ("scores.csv", ("step", "avg_q", "max")),
        ("loss.csv", ("epoch", "gpu", "memory")),
        ("loss.csv", ("name", "adam", "sgd")),  # no counter
        ("cost.csv", ("oak", "elm", "fir")),
    ],
)
def test_other_columns_are_no_runs(put, file, heading):
    with pytest.raises(ColumnError, match="no column looks like a training loss"):
        stabdiag.read(put(table(*heading), file))
