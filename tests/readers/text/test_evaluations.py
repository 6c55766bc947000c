"""Evaluations in logs of names and values, on lines of their own."""

import pytest

import stabdiag

EVALUATIONS = {
    "with the epoch": "Epoch {epoch}, val loss: {loss}",
    "beside the mean of the training": "Epoch {epoch}: train loss {train}, valid loss {loss}",
    "alone": "Validation loss: {loss}",
    "of PyTorch's MNIST": "\nTest set: Average loss: {loss}, Accuracy: 9000/10000 (90%)\n",
    "a sentence": "Epoch {epoch}, val loss is {loss}, val mse is 0.5.",
    "held out": "Epoch {epoch}, held_out_loss: {loss}",
    "of time series": "Epoch: {epoch} | Train Loss: {train} Vali Loss: {loss} Test Loss: 9.5",
}


def epochs_with(line):
    return "".join(
        "".join(f"Epoch {epoch}, Step {at * 10}, loss: {4 - epoch / 10}\n" for at in range(1, 6))
        + line.format(epoch=epoch, loss=5 - epoch / 10, train=4.5)
        + "\n"
        for epoch in range(8)
    )


@pytest.mark.parametrize("line", EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_evaluation_without_the_counter_is_of_the_step_before_it(put, line):
    series = stabdiag.read(put(epochs_with(line))).series
    assert series["loss"].values.tolist() == [4 - epoch / 10 for epoch in range(8) for _ in "12345"]
    assert series["eval_loss"].values.tolist() == [5 - epoch / 10 for epoch in range(8)]
    assert series["eval_loss"].steps.tolist() == list(range(50, 450, 50))


def test_the_last_mean_counts_of_the_batches_of_an_evaluation(put):
    batch = "Test: [{at}/100]  Time: 0.3 (0.3)  Loss:  9.5 ( {mean:.3f})  Acc@1: 41.0 (41.0)\n"
    text = "".join(
        "".join(f"Epoch {epoch}, Step {at * 10}, loss: {4 - epoch / 10}\n" for at in range(1, 6))
        + "".join(batch.format(at=at, mean=5 - epoch / 10 + 1 - at / 100) for at in (0, 50, 100))
        + "Test: Total time: 0:00:20 (0.3 s / it)\n* Acc@1 50.1 Acc@5 75.1 loss 9.5\n"
        for epoch in range(8)
    )
    held_out = stabdiag.read(put(text)).series["eval_loss"]
    assert held_out.values.tolist() == [5 - epoch / 10 for epoch in range(8)]


def test_a_step_that_is_told_again_without_its_rate_is_evaluated(put):
    text = "".join(
        f"Step... ({n} | Loss: {4 - n / 100}, Learning Rate: 1e-4)\n"
        + (f"Step... ({n} | Loss: {5 - n / 100}, Acc: 0.4)\n" if n % 10 == 0 else "")
        for n in range(1, 61)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 100 for n in range(1, 61)]
    assert series["eval_loss"].values.tolist() == [5 - n / 100 for n in range(10, 61, 10)]


@pytest.mark.parametrize(
    "line",
    [
        "val batch loss: 0.5\nval batch loss: {loss}",
        "best val loss: {loss}",
        "Epoch {epoch}: train loss {loss}",
        "validating {epoch}",
        "Then run eval. If loss is nan, lower the learning rate.",
    ],
    ids=["of batches", "the best so far", "of the training", "none", "a condition"],
)
def test_what_is_no_evaluation(put, line):
    series = stabdiag.read(put(epochs_with(line))).series
    assert "eval_loss" not in series
    assert len(series["loss"]) == 40
