"""Lines of an evaluation that look like training lines, below a heading."""

import pytest

import stabdiag

EPOCHS = range(1, 13)
TRAINED = [4 - epoch / 10 for epoch in EPOCHS]
EVALUATED = [5 - epoch / 10 for epoch in EPOCHS]


@pytest.fixture
def series(tmp_path):
    def series(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return series


def alternating(heading, after=""):
    line = "epoch: {epoch},  loss is: {loss}, acc is: 0.5\n"
    return "".join(
        line.format(epoch=epoch, loss=trained)
        + f"{heading}\n"
        + line.format(epoch=epoch, loss=evaluated)
        + after
        for epoch, trained, evaluated in zip(EPOCHS, TRAINED, EVALUATED, strict=True)
    )


@pytest.mark.parametrize(
    "heading",
    [
        "testing in eval mode……",
        "Start validation",
        "===== Validating =====",
        "2024-01-05 10:00:00,123 - INFO - Evaluating on the test set",
        "[03/10 18:38:38] Validation at epoch 5",
        "开始验证",
    ],
)
def test_a_heading_announces_the_line_of_an_evaluation(series, heading):
    read = series(alternating(heading))
    assert read["loss"].values.tolist() == TRAINED
    assert read["eval_loss"].values.tolist() == EVALUATED


@pytest.mark.parametrize(
    "heading",
    [
        "Validation set: 1000 images",
        "test_every: 5",
        "saving the best validation model",
        "testing finished in 12 s",
    ],
)
def test_other_lines_are_not_headings(series, heading):
    read = series(alternating(heading))
    assert "eval_loss" not in read


def test_training_continues_with_the_next_epoch(series):
    """Nothing is printed below the heading."""
    text = "".join(
        f"epoch: {epoch}, loss: {loss}\nvalidating\n"
        for epoch, loss in zip(EPOCHS, TRAINED, strict=True)
    )
    read = series(text)
    assert read["loss"].values.tolist() == TRAINED
    assert "eval_loss" not in read


def test_batches_of_an_evaluation_are_not_steps(series):
    batch = "  batch: {at}/50, iter: {at}, loss: {loss}\n"
    text = "".join(
        f"Training at epoch {epoch}\n"
        + "".join(batch.format(at=at, loss=trained) for at in range(0, 50, 10))
        + f"Validation at epoch {epoch}\n"
        + "".join(batch.format(at=at, loss=9.0) for at in range(0, 50, 10))
        for epoch, trained in zip(EPOCHS, TRAINED, strict=True)
    )
    read = series(text)
    assert read["loss"].values.tolist() == [loss for loss in TRAINED for _ in range(5)]
    assert (read["loss"].steps[1:] > read["loss"].steps[:-1]).all()


def test_a_heading_holds_across_the_blocks_of_a_long_log(series):
    """A log is read in blocks of 64 kB."""
    filler = "".join(f"processed file number {n}\n" for n in range(4000))
    read = series(alternating("Start validation\n" + filler))
    assert read["loss"].values.tolist() == TRAINED
    assert read["eval_loss"].values.tolist() == EVALUATED
