"""Lines that people and other programs write above, between and below the records of a log."""

import numpy as np
import pytest

import stabdiag as api
from stabdiag.errors import LogError

EPOCHS = np.arange(1, 61)
LOSS = 1.3 + 2.5 * np.exp(-EPOCHS / 15) + np.random.default_rng(8).normal(0, 0.02, 60)

RECORDS = {
    "dict": "{{'loss': {loss:.4f}, 'grad_norm': 1.2, 'learning_rate': 1e-4, 'epoch': {epoch}.0}}",
    "keras": "Epoch {epoch}/60\n100/100 [==============================] - 3s 31ms/step"
    " - loss: {loss:.4f} - val_loss: {loss:.4f}",
    "line": "step {epoch} loss {loss:.4f} lr 1.00e-03 dt 120.3ms",
    "pairs": "Epoch [{epoch}/60], Train Loss: {loss:.4f}, Val Loss: {loss:.4f}",
    "logger": "2026-01-02 03:{epoch:02d}:10,123 - trainer - INFO - Epoch {epoch}"
    " | train_loss={loss:.4f}",
    "bar": "Epoch {epoch}: 100%|██████████| 200/200 [00:12<00:00, 16.1it/s, loss={loss:.4f}]",
}
OTHERS = {
    "sentence": "I trained this with a loss of 0.5 at epoch 10 last week, but now it's 0.7.",
    "question": "My loss was 0.9 in epoch 12 with another seed, why does it stay at 1.5 now?",
    "summary": "wandb: Run summary:\nwandb:       epoch 10\nwandb:        loss 0.1234",
    "matrix": "[[970   2   3]\n [  1 1120   4]\n [  5   3 990]]",
    "list": "[[970, 2], [1, 1120]]",
    "object": '{"event": "checkpoint", "step": 500, "path": "ckpt/500"}',
    "report": "              precision    recall  f1-score   support\n\n           0       0.98"
    "      0.99      0.98       980\n           1       0.99      0.99      0.99      1135",
}


def losses(tmp_path, lines):
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    series = api.read(path).series["loss"]
    return series.steps.tolist(), series.values.tolist()


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_other_lines_change_no_loss(tmp_path, record, other):
    rows = zip(EPOCHS.tolist(), LOSS.tolist(), strict=True)
    records = [record.format(epoch=epoch, loss=loss) for epoch, loss in rows]
    alone = losses(tmp_path, records)
    assert len(alone[0]) == 60
    assert losses(tmp_path, [other, *records]) == alone
    assert losses(tmp_path, [*records, other]) == alone
    assert losses(tmp_path, [*records[:30], other, *records[30:]]) == alone


def test_a_log_may_consist_of_sentences(tmp_path):
    rows = zip(EPOCHS.tolist(), LOSS.tolist(), strict=True)
    lines = [f"In epoch {epoch} we see that our loss is {loss:.4f}" for epoch, loss in rows]
    assert len(losses(tmp_path, lines)[0]) == 60


def test_a_sentence_about_nan_is_not_hidden(tmp_path):
    rows = zip(EPOCHS.tolist(), LOSS.tolist(), strict=True)
    lines = [f"epoch {epoch} loss {loss:.4f}" for epoch, loss in rows]
    (tmp_path / "run.log").write_text("\n".join([*lines, "epoch 61 loss is nan, why is it so?\n"]))
    assert api.diagnose(tmp_path / "run.log").diagnosis.slug != "healthy"


def test_objects_that_are_the_records_are_not_skipped_for_a_few_other_losses(tmp_path):
    lines = [f'{{"step": {epoch}, "foo": {loss}}}' for epoch, loss in enumerate(LOSS)]
    lines[10::10] = [f"{line}\nval loss: 0.5{at}" for at, line in enumerate(lines[10::10])]
    (tmp_path / "run.log").write_text("\n".join(lines))
    with pytest.raises(LogError, match="no column looks like a training loss"):
        api.read(tmp_path / "run.log")


@pytest.mark.parametrize("line", ["cost = {}", "loss: {}", "nll {}", "Reward: {}"])
@pytest.mark.parametrize("value", ['"lr": 0.1', '"event": "epoch"', '"gpu_hours": 1.5'])
def test_objects_above_the_losses_of_their_epochs(tmp_path, line, value):
    lines = [
        f'{{"epoch": {epoch}, {value}}}\n{line.format(round(2 - epoch / 40, 3))}'
        for epoch in range(1, 41)
    ]
    (tmp_path / "run.log").write_text("\n".join(lines))
    series = api.read(tmp_path / "run.log").series["reward" if "Reward" in line else "loss"]
    assert series.steps.tolist() == [*range(1, 41)]
    assert series.values.tolist() == [round(2 - epoch / 40, 3) for epoch in range(1, 41)]


def test_objects_with_a_measure_are_the_records(tmp_path):
    lines = [f'{{"step": {n}, "mse": {2 - n / 40}}}\nsaved model {n}' for n in range(40)]
    (tmp_path / "run.log").write_text("\n".join(lines))
    assert len(api.read(tmp_path / "run.log").series["loss"]) == 40
