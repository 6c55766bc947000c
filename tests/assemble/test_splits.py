"""Training and evaluation losses in the same column."""

import json

import pytest

import stabdiag
from stabdiag.model.events import EventKind
from stabdiag.model.limits import Limits
from stabdiag.model.roles.choice import may_serve
from stabdiag.sources import ReadRequest, read_source


def records(name="type", words=("train", "validation"), n=30, **settings):
    return [
        {
            "epoch": epoch,
            name: word,
            "loss": round(4.0 - epoch / n + place, 6),
            "lr": 1e-3,
            **settings,
        }
        for epoch in range(1, n + 1)
        for place, word in enumerate(words)
    ]


def hidden(history):
    return [event for event in history.events if event.kind is EventKind.HIDDEN_NAN]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("name", "words", "column"),
    [
        ("type", ("train", "val"), "val/loss"),
        ("phase", ("Training", "Validation"), "Validation/loss"),
        ("split", ("train", "eval"), "eval/loss"),
        ("Mode", ("train", "test"), "test/loss"),
        ("set", ("train", "val"), "val/loss"),
        ("name", ("train", "validation"), "validation/loss"),
        ("stage", ("train", "val"), "val/loss"),
        ("dataset", ("train", "val"), "val/loss"),
        ("event", ("train", "val"), "val/loss"),
        ("dset", ("trn", "dev"), "dev/loss"),
        ("data_loader", ("Training", "Testing"), "Testing/loss"),
        ("is_train", (True, False), "val/loss"),
        ("isTraining", (True, False), "val/loss"),
        ("is_val", (False, True), "val/loss"),
        ("is_eval", (0, 1), "val/loss"),
        ("train", (True, False), "val/loss"),
        ("training", ("yes", "no"), "val/loss"),
        ("train", (1, 0), "val/loss"),
        ("Eval", ("F", "T"), "val/loss"),
    ],
)
def test_a_column_of_words_separates_evaluation_losses(build, format, name, words, column):
    history = build(records(name, words), format)
    loss, eval_loss = history.series["loss"], history.series["eval_loss"]
    assert loss.steps.tolist() == eval_loss.steps.tolist() == list(range(1, 31))
    assert loss.values.tolist() == [round(4.0 - n / 30, 6) for n in range(1, 31)]
    assert eval_loss.values.tolist() == [round(5.0 - n / 30, 6) for n in range(1, 31)]
    assert (loss.column, eval_loss.column) == ("loss", column)
    assert history.unit == "epoch"
    assert not hidden(history)


def test_scores_are_separated_as_well(build):
    log = [
        {**record, "acc": 0.9 if record["type"] == "train" else 0.75, "f1": 0.5}
        for record in records()
    ]
    series = build(log).series
    assert set(series["accuracy"].values) == {0.9}
    assert (series["eval_accuracy"].column, *set(series["eval_accuracy"].values)) == (
        "val/acc",
        0.75,
    )
    assert sorted(logged.column for logged in series.values() if "f1" in logged.column) == [
        "f1",
        "val/f1",
    ]


def test_a_validation_precedes_a_test(build):
    history = build(records("split", ("test", "train", "dev")))
    assert history.series["loss"].values[0] == round(5.0 - 1 / 30, 6)
    assert history.series["eval_loss"].column == "dev/loss"
    assert history.series["eval_loss"].values[0] == round(6.0 - 1 / 30, 6)


def test_records_with_a_step(build, rows):
    logged = [{**row, "mode": "train"} for row in rows(40)]
    logged.insert(20, {"step": 19, "mode": "val", "loss": 9.0})
    logged.append({"step": 39, "mode": "val", "loss": None})
    history = build(logged)
    assert len(history.series["loss"]) == 40
    assert max(history.series["loss"].values) <= 4.0
    assert history.series["eval_loss"].steps.tolist() == [19]
    assert not hidden(history)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("type", ("train", "train")),
        ("type", ("sft", "dpo")),
        ("type", ("val", "val")),
        ("note", ("train", "val")),
        ("is_train", (1, 2)),
        ("is_main", (True, False)),
        ("is_train", (True, True)),
        ("train", (0.25, 0.5)),
        ("train", ("fast", "slow")),
        ("improved", (True, False)),
    ],
)
def test_other_words_do_not_separate_losses(build, name, words):
    history = build(records(name, words))
    assert len(history.series["loss"]) == 60
    assert "eval_loss" not in history.series


def test_every_format_has_the_same_rule(tmp_path):
    rows = 30_000
    logged = records("phase", ("train", "val"), rows)
    (tmp_path / "run.csv").write_text(
        "epoch,phase,loss\n" + "".join(f"{r['epoch']},{r['phase']},{r['loss']}\n" for r in logged)
    )
    (tmp_path / "run.jsonl").write_text(
        "".join(
            f'{{"epoch": {r["epoch"]}, "phase": "{r["phase"]}", "loss": {r["loss"]}}}\n'
            for r in logged
        )
    )
    for name in ("run.csv", "run.jsonl"):
        history = stabdiag.diagnose(tmp_path / name).history
        assert len(history.series["loss"]) == len(history.series["eval_loss"]) == rows
        assert history.series["eval_loss"].values[-1] == 4.0


def test_words_of_each_file_keep_their_codes(tmp_path):
    from stabdiag.assemble import build_history

    head = "step,type,loss\n"
    (tmp_path / "a.csv").write_text(head + "".join(f"{n},train,2.5\n" for n in range(9)))
    lines = [f"{n},valid,3.5\n{n},train,2.25\n" for n in range(9, 18)]
    (tmp_path / "b.csv").write_text(head + "".join(lines))
    columns = read_source(
        [tmp_path / "a.csv", tmp_path / "b.csv"], ReadRequest(is_required=may_serve)
    ).columns
    history = build_history(columns, Limits())
    assert history.series["loss"].values.tolist() == [2.5] * 9 + [2.25] * 9
    assert history.series["eval_loss"].values.tolist() == [3.5] * 9


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_an_evaluation_without_a_loss_takes_no_steps_of_its_own(build, format):
    log = [
        record if record["type"] == "train" else {**record, "loss": None} for record in records()
    ]
    history = build(log, format)
    assert history.series["loss"].steps.tolist() == list(range(1, 31))
    assert history.unit == "epoch"


def test_the_batches_of_an_epoch_are_no_steps_next_to_evaluations(build):
    log = [{**record, "iteration": 21 if record["type"] == "train" else 4} for record in records()]
    history = build(log, "jsonl")
    assert history.series["loss"].steps.tolist() == list(range(1, 31))
    assert history.unit == "epoch"


def optimizer_records(word="opt", n=30):
    """Return one evaluation and three steps for each epoch, with their times."""
    rows = []
    for epoch in range(n):
        loss = 4.0 - epoch / n
        rows.append({"loss": loss + 0.5, "mode": "eval", "epoch": epoch, "time": 3.2})
        rows += [
            {"loss": loss + step / 100, "mode": word, "epoch": epoch, "time": 0.1}
            for step in range(3)
        ]
    return rows


def test_a_single_other_word_names_the_training_records(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in optimizer_records()))
    history = stabdiag.read(path)
    assert len(history.series["eval_loss"]) == 30
    assert history.series["loss"].values.max() < 4.1
    assert history.series["step_time"].values.max() == 0.1


def test_several_other_words_name_no_split(tmp_path):
    rows = optimizer_records()
    for row in rows[::5]:
        row["mode"] = "swap" if row["mode"] == "opt" else row["mode"]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "eval_loss" not in stabdiag.read(path).series
