"""Epochs that contain the records or lists of their steps."""

import io
import json

import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.readers.json import lines as jsonl
from stabdiag.readers.json.keyed import epoch_steps
from stabdiag.readers.source import Stream
from tests.readers.conftest import read_columns

STEPS = 20
LOSSES = [3 - 0.01 * n for n in range(5 * STEPS)]


def part(epoch):
    return LOSSES[epoch * STEPS : (epoch + 1) * STEPS]


def records(epoch):
    return [{"batch": n, "loss": loss} for n, loss in enumerate(part(epoch))]


def with_records(epoch):
    return {"epoch": epoch, "batches": records(epoch), "val": {"loss": 2.0}}


def with_lists(epoch):
    return {
        "epoch": epoch,
        "train": {"losses": part(epoch), "lr": [0.1] * STEPS},
        "val": {"loss": 2.0},
    }


def read_text(tmp_path, text, name):
    path = tmp_path / name
    path.write_text(text)
    return read_columns(path)


@pytest.mark.parametrize("epoch", [with_records, with_lists])
@pytest.mark.parametrize("name", ["run.json", "run.jsonl"])
def test_the_steps_of_all_epochs_are_read_in_order(tmp_path, epoch, name):
    epochs = [epoch(n) for n in range(5)]
    document = json.dumps({"history": epochs}, indent=1)
    text = document if name == "run.json" else "\n".join(map(json.dumps, epochs)) + "\n"
    columns = read_text(tmp_path, text, name)
    prefix = "train/" if epoch is with_lists else ""
    loss = columns.load(f"{prefix}{'losses' if prefix else 'loss'}")
    assert loss.values.tolist() == LOSSES
    # Values of an epoch are known at its end.
    assert columns.load("val/loss").present.nonzero()[0].tolist() == [
        STEPS * n + STEPS - 1 for n in range(5)
    ]
    assert columns.load("epoch").values.tolist() == [n // STEPS for n in range(5 * STEPS)]


@pytest.mark.parametrize("epoch", [with_records, with_lists])
def test_both_readers_of_json_lines_read_the_same(epoch):
    data = b"".join(json.dumps(epoch(n)).encode() + b"\n" for n in range(5))
    fast, slow = (
        jsonl.read(Stream("run.jsonl", io.BytesIO(data)), small=small) for small in (0, 1 << 20)
    )
    assert fast.rows == slow.rows == 5 * STEPS
    assert fast.names == slow.names


@pytest.mark.parametrize("within", [None, "train"])
def test_records_under_their_epochs_follow_each_other(tmp_path, within):
    document = {
        f"epoch_{n}": {within: records(n), "val_loss": 2.0} if within else records(n)
        for n in (3, 0, 4, 1, 2)
    }
    columns = read_text(tmp_path, json.dumps(document), "run.json")
    assert columns.load("loss").values.tolist() == LOSSES


def test_records_of_folds_do_not_follow_each_other(tmp_path):
    folds = {f"fold_{n}": records(n) for n in range(3)}
    columns = read_text(tmp_path, json.dumps(folds), "run.json")
    assert columns.rows == STEPS


@pytest.mark.parametrize(
    "epochs",
    [
        pytest.param([], id="nothing"),
        pytest.param([{"epoch": 0.0, "loss": 2.5}], id="no list"),
        pytest.param(
            [{"fold": 0.0, "losses": part(0)}, {"fold": 1.0, "losses": part(1)}], id="folds"
        ),
        pytest.param([{"epoch": 1.0, "losses": part(0)}] * 2, id="runs"),
        pytest.param([{"epoch": 0.0, "loss": 2.5, "class_loss": part(0)}], id="classes"),
        pytest.param([{"epoch": 0.0, "losses": [0.5, 0.25]}], id="few"),
        pytest.param([{"epoch": 0.0, "val": [{"loss": 2.5}]}], id="evaluation"),
    ],
)
def test_lists_that_are_not_epochs_of_steps(epochs):
    assert epoch_steps(epochs) == []


def test_an_epoch_without_its_list_has_no_steps():
    epochs = [
        {"epoch": 0.0, "batches": [{"loss": 2.5}]},
        {"epoch": 1.0, "batches": []},
        {"epoch": 2.0},
        {"epoch": 3.0, "batches": [{"loss": 2.25}, None]},
    ]
    assert [step["loss"] for step in epoch_steps(epochs)] == [2.5, 2.25]


def test_the_batches_of_an_evaluation_are_not_steps(tmp_path):
    """skorch appends them to the training batches and stores their mean in the epoch."""
    evaluation = [{"valid_loss": 9.0, "valid_batch_size": 8}] * 4
    epochs = [
        {
            "batches": [{"train_loss": loss, "train_batch_size": 8} for loss in part(n)]
            + evaluation,
            "epoch": n + 1,
            "train_loss": sum(part(n)) / STEPS,
            "valid_loss": 2.0 + n,
        }
        for n in range(5)
    ]
    columns = read_text(tmp_path, json.dumps(epochs), "history.json")
    assert columns.rows == 5 * STEPS
    assert columns.load("train_loss").values.tolist() == LOSSES
    evaluated = columns.load("valid_loss")
    assert evaluated.present.nonzero()[0].tolist() == [STEPS * n - 1 for n in range(1, 6)]
    assert evaluated.values[evaluated.present].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_evaluation_batches_without_a_mean_are_kept(tmp_path):
    epochs = [{"epoch": n, "batches": [{"train_loss": 2.5}, {"valid_loss": 2.0}]} for n in range(5)]
    columns = read_text(tmp_path, json.dumps(epochs), "history.json")
    assert columns.load("valid_loss").present.sum() == 5


@pytest.mark.parametrize("names", [("train_mse", "val_mse"), ("cost", "val_cost")])
def test_a_measure_of_two_splits_under_numbers_is_a_loss(tmp_path, names):
    keyed = {str(n): dict(zip(names, (2 - n / 20, 3 - n / 20), strict=True)) for n in range(1, 21)}
    path = tmp_path / "history.json"
    path.write_text(json.dumps(keyed))
    history = stabdiag.read(path)
    assert (history.series["loss"].column, history.series["eval_loss"].column) == names
    assert history.last_step == 20


def test_a_measure_of_numbered_folds_is_no_loss(tmp_path):
    path = tmp_path / "folds.json"
    path.write_text(json.dumps({str(n): {"mse": 2 - n / 20, "r2": 0.5} for n in range(1, 21)}))
    with pytest.raises(LogError, match="no column looks like a training loss"):
        stabdiag.read(path)
