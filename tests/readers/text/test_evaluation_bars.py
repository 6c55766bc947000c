"""The bar of an evaluation below the last epoch of Keras is not a state of that epoch."""

import pytest

import stabdiag

LOSSES = [2.25, 1.75, 1.5, 1.25, 1.125, 1.0, 0.9375, 0.875, 0.84375, 0.8125]
FULL = "=" * 30


def summary_line(total, loss, accuracy=0.5):
    return f"{total}/{total} - 2s - loss: {loss} - accuracy: {accuracy}"


def keras_3(total, loss, accuracy=0.5):
    bar = "━" * 20
    return f"{total}/{total} {bar} 2s 4ms/step - accuracy: {accuracy} - loss: {loss}"


def drawn(total, loss, accuracy=0.5):
    states = (
        f"{n}/{total} [==>...] - ETA: 1s - loss: {loss} - accuracy: 0.25"
        for n in range(1, total, total // 2)
    )
    full = f"{total}/{total} [{FULL}] - 2s 3ms/step - loss: {loss} - accuracy: {accuracy}"
    return "\r".join((*states, full))


def fitted(bar, total=60, losses=LOSSES):
    count = len(losses)
    epochs = (
        (f"Epoch {n}/{count}", bar(total, loss, n / 20)) for n, loss in enumerate(losses, start=1)
    )
    return [line for epoch in epochs for line in epoch]


def read(put, *lines):
    return stabdiag.diagnose(put("\n".join(lines)))


@pytest.mark.parametrize("bar", [summary_line, keras_3])
@pytest.mark.parametrize("total", [9, 60, 400])
@pytest.mark.parametrize("between", [(), ("", "Evaluate on test data")])
def test_it_is_an_evaluation(put, bar, total, between):
    report = read(put, *fitted(bar), *between, bar(total, 7.5, 0.125))
    series = report.history.series
    assert series["loss"].values[-1] == LOSSES[-1]
    assert series["eval_loss"].values[-1] == 7.5
    assert series["eval_accuracy"].values[-1] == 0.125
    assert report.diagnosis.severity != "error"


@pytest.mark.parametrize("total", [9, 400])
def test_the_states_of_its_bar_are_no_training(put, total):
    series = read(put, *fitted(drawn), drawn(total, 7.5)).history.series
    assert series["loss"].values[-1] == LOSSES[-1]
    assert series["loss"].values.max() < 7.5


@pytest.mark.parametrize("bar", [summary_line, keras_3])
def test_each_model_may_be_evaluated(put, bar):
    half = fitted(bar, losses=LOSSES[:5])
    later = fitted(bar, losses=LOSSES[5:])
    series = read(put, *half, bar(9, 3.5), *later, bar(9, 4.5)).history.series
    assert series["loss"].values[[4, -1]].tolist() == [LOSSES[4], LOSSES[9]]
    assert series["eval_loss"].values.tolist() == [3.5, 4.5]


def test_an_evaluation_that_is_nan_is_no_nan_of_the_training(put):
    report = read(put, *fitted(summary_line), summary_line(9, "nan"))
    assert report.diagnosis.slug == "eval-nonfinite"


def test_a_nan_of_the_last_epoch_is_one(put):
    report = read(put, *fitted(summary_line, losses=[*LOSSES, "nan"]), summary_line(9, "nan"))
    assert report.diagnosis.slug.startswith("nan-")


def test_a_bar_that_is_drawn_again_is_the_same_epoch(put):
    lines = []
    for line in fitted(summary_line):
        redrawn = f"{line} - val_loss: 1.5" if line.startswith("60/") else None
        lines += [line, redrawn] if redrawn else [line]
    series = read(put, *lines).history.series
    assert set(series["loss"].values.tolist()) == set(LOSSES)
    assert set(series["eval_loss"].values.tolist()) == {1.5}


def test_epochs_may_be_indented_as_in_a_post(put):
    lines = [
        f"    {line}"
        for n, loss in enumerate(LOSSES, start=1)
        for line in (
            f"Epoch {n}/10",
            f"59/60 [====>.] - ETA: 0s - loss: {loss + 0.0625}",
            f"60/60 [=====] - 2s - loss: {loss} - val_loss: {loss + 0.25}",
        )
    ]
    series = read(put, *lines).history.series
    assert series["eval_loss"].values.tolist() == [loss + 0.25 for loss in LOSSES]


@pytest.mark.parametrize("first", [1, 4])
@pytest.mark.parametrize("count", [3, 10, 25])
@pytest.mark.parametrize("saves", [False, True])
def test_messages_of_callbacks_break_the_bar_of_an_epoch(put, first, count, saves):
    lines = []
    for n in range(first, first + count):
        lines += [f"Epoch {n}/90", keras_3(60, 2 / n + 0.5)]
        verb = "improved from 2.9 to 2.8, saving" if n % 3 else "did not improve from 2.8"
        lines += [f"Epoch {n}: val_loss {verb}"]
        lines += ["", f"Epoch {n}: saving model to last.keras"] if saves else []
        lines += [f"{keras_3(60, 2 / n)} - val_loss: {3 / n}"]
    series = read(put, *lines).history.series
    assert series["loss"].steps.tolist() == [*range(first, first + count)]
    assert series["loss"].values.tolist() == [2 / n for n in range(first, first + count)]
    assert series["eval_loss"].values.tolist() == [3 / n for n in range(first, first + count)]
    assert {*series} == {"loss", "eval_loss", "accuracy"}


def test_two_trainings_of_other_lengths_are_no_evaluations(put):
    series = read(put, *fitted(summary_line), *fitted(summary_line, total=80)).history.series
    assert "eval_loss" not in series
