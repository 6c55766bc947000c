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
        "03/10 06:38:38 PM: Validating...",
        "[Sun Mar 10 18:38:38 2024] Start evaluation",
        "Mar 10, 2024 6:38:38 PM - Testing",
        "开始验证",
        "└── Validation",
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
        "End Val 5",
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


def other_positions(epochs, batches=(0, 200, 400), last="* LOSS"):
    lines = []
    for epoch in epochs:
        for batch in batches:
            lines += [f"Epoch: [{epoch}][{batch}/518]\tTime 1.087 (1.087)\tLoss {4 - epoch / 4}"]
        lines += [f"[{batch}/155]\tTime 0.727 (0.727)\tLoss {8.0 + epoch}" for batch in (0, 100)]
        lines += ["", f" {last} - {8 + epoch}", ""]
    return lines


def test_positions_without_an_epoch_are_those_of_an_evaluation(series):
    read = series("\n".join(other_positions(range(6))))
    assert read["loss"].values.max() == 4
    assert sorted({*read["eval_loss"].values.tolist()}) == [*range(8, 14)]


def test_positions_of_a_training_that_sums_up_each_epoch_are_no_evaluation(series):
    lines = []
    for epoch in range(1, 7):
        lines += [f"[{batch}/518]\tTime 0.727\tLoss {4 - epoch / 4}" for batch in (0, 200, 400)]
        lines += [f"Epoch [{epoch}/6]\tTime 90.7\tLoss {4 - epoch / 4}"]
    assert "eval_loss" not in series("\n".join(lines))


def test_a_line_of_scores_names_the_split_of_the_loss_below(series):
    text = "".join(
        f"Epoch {epoch}\nTrain:   auc 61.5, f1 0.5\nloss {trained}, aux 0.5\n\n"
        f"Validation: auc 58.2, f1 0.4\nloss {evaluated}, aux 0.6\n\n"
        for epoch, trained, evaluated in zip(EPOCHS, TRAINED, EVALUATED, strict=True)
    )
    result = series(text)
    assert result["loss"].values.tolist() == pytest.approx(TRAINED)
    assert result["eval_loss"].values.tolist() == pytest.approx(EVALUATED)


def test_scores_of_both_splits_above_a_loss_are_no_headings(series):
    text = "".join(
        f"Epoch {epoch}\nTrain Acc: 0.61\nVal Acc: 0.58\nloss: {trained}\n"
        for epoch, trained in zip(EPOCHS, TRAINED, strict=True)
    )
    assert series(text)["loss"].values.tolist() == pytest.approx(TRAINED)


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Train:", "Valid:"),
        ("== train ==", "== test =="),
        ("Train", "Val"),
        ("train:\n", "test:\n"),
    ],
)
@pytest.mark.parametrize(
    "form", ["loss: {}", "\tAverage loss: {}\n\tError: 3\n\tCount: 5", "loss {}"]
)
@pytest.mark.parametrize("records", [2, 12])
def test_blocks_of_two_splits_need_no_counter(series, train, test, form, records):
    trained = [2.5 - n / 8 for n in range(records)]
    blocks = [
        f"{train}\n{form.format(loss)}\n{test}\n{form.format(loss + 1)}\n" for loss in trained
    ]
    result = series("".join(blocks))
    assert result["loss"].values.tolist() == trained
    assert result["eval_loss"].values.tolist() == [loss + 1 for loss in trained]
