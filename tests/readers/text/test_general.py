"""Logs of names and values that no framework's grammar knows."""

from __future__ import annotations

import pytest

import stabdiag
from stabdiag.readers.text.general import recognises


def log(line: str, count: int = 60) -> str:
    return "".join(line.format(n=n, loss=4 - n / 100) + "\n" for n in range(1, count + 1))


@pytest.mark.parametrize(
    "line",
    [
        "Step {n} | loss: {loss} | lr: 1e-4",
        "step={n} loss={loss:.4f} lr=1e-4",
        "2026-01-05 10:00:00,123 INFO train: global_step: {n}, loss: {loss}, grad_norm: 1.5",
        "[{n}/100] iteration {n}: loss {loss}",
        "Iter: {n:06d}  Loss: {loss:.3e}  time: 00:12:13",
        "epoch 1 iter {n} loss = {loss}",
        "INFO: 'step': {n}, 'train_loss': {loss}, 'eta': 0:12:13",
        "update {n:>8}; total loss: {loss}; acc: 0.5",
        "\x1b[32mbatch {n}\x1b[0m loss \x1b[1m{loss:.4f}\x1b[0m",
    ],
)
def test_it_is_read(tmp_path, line):
    path = tmp_path / "run.txt"
    path.write_text(log(line), encoding="utf-8")
    history = stabdiag.read(path)
    loss = history.series["loss"]
    assert history.source.format == "text"
    assert loss.steps.tolist() == list(range(1, 61))
    assert loss.values.tolist() == pytest.approx([4 - n / 100 for n in range(1, 61)], abs=6e-4)
    assert "(sure)" in history.events[0].message


def test_how_sure_it_is(read):
    def message(count: int) -> str:
        return read("text", log("step {n} loss {loss}", count)).events[0].message

    assert message(60) == (
        "read by its names and values (sure): 'loss' stands on 60 lines on which 'step' rises 100%"
        " of the time"
    )
    assert "(likely)" in message(20)
    assert "(unsure)" in message(5)


def test_an_evaluation_is_no_training_loss(values):
    found = values("text", log("step {n} loss {loss}\n[Validation] step {n} loss: 9.5", 5))
    assert found["val loss"] == [None, 9.5] * 5
    assert found["loss"].count(None) == 5


def test_a_counter_that_starts_again_each_epoch(tmp_path):
    lines = [
        f"Epoch [{epoch}/3], Step [{step * 10}/100], Loss: {4 - epoch / 2 - step / 50:.3f}\n"
        for epoch in range(1, 4)
        for step in range(1, 11)
    ]
    path = tmp_path / "run.log"
    path.write_text("".join(lines), encoding="utf-8")
    loss = stabdiag.read(path).series["loss"]
    assert loss.steps.tolist() == list(range(10, 310, 10))


def test_epochs_are_steps_where_there_is_nothing_finer(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(log("Epoch {n}: train loss {loss}, val loss 2.5"), encoding="utf-8")
    history = stabdiag.read(path)
    assert history.series["loss"].steps.tolist() == list(range(1, 61))
    assert len(history.series["eval_loss"]) == 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n" * 100,
        "loss: 2.5\n" * 100,
        "step 1 loss 2.5\n" * 100,
        "".join(f"step {n} reward {n}\n" for n in range(100)),
        "".join(f"step {(n * 37) % 100} loss {n}\n" for n in range(100)),
        "def loss(step):\n    loss = 0.0\n    return loss\n" * 20,
        "I am at a loss: 3 steps\n" * 20,
    ],
)
def test_no_evidence(text):
    assert not recognises(text.encode(), whole=True)
