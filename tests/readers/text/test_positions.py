"""Numbers that are named by their positions: rows without words, and words behind numbers."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = [2.5 - n / 8 + 0.02 * (n % 2) for n in range(12)]


@pytest.fixture
def diagnosed(tmp_path):
    def diagnosed(text, name="train.log"):
        path = tmp_path / name
        path.write_text(text)
        return stabdiag.diagnose(path)

    return diagnosed


def lines(form, values=LOSSES):
    return "".join(
        form.format(
            n=n, v=value, w=value + 0.1, acc=0.3 + n / 40, lr=0.001 * 0.9**n, batch=n % 4 * 50
        )
        + "\n"
        for n, value in enumerate(values, start=1)
    )


FORMS = [
    "{n} | {v} | {acc}",
    "[{n}] [{v}, {w}]",
    "{n}/12 {v} {w}",
    "{n} -> {v}",
    "{n}: {v}",
    "- epoch {n}: {v}",
    "epoch {n} (36.{n} s) {v} {w} {lr}",
    "Epoch {n} | {v} | {w} | {lr} | 36s",
    "10:22:{n:02d} {n} {v}",
    "{v} @ {n}",
    "{v} {n}",
    "gpu0 | {n} | {v} | 812{n}MiB",
    "Epoch {n}\n{v} {acc}",
    "{n}\n{v}",
]


@pytest.mark.parametrize("form", FORMS)
def test_the_first_number_that_falls_is_the_loss(diagnosed, form):
    series = diagnosed(lines(form)).history.series
    assert series["loss"].values.tolist() == LOSSES
    assert series["loss"].steps.tolist() == list(range(1, 13))
    assert "lr" not in series
    lost = diagnosed(lines(form, [*LOSSES[:6], *[math.nan] * 6])).diagnosis
    assert (lost.slug, lost.step) == ("nan-dtype-unknown", 7)


@pytest.mark.parametrize("form", [form for form in FORMS if "poch" in form])
def test_a_number_that_falls_next_to_an_epoch_is_the_loss(diagnosed, form):
    assert diagnosed(lines(form), "table.txt").history.series["loss"].values.tolist() == LOSSES
    # The duration of an epoch and a learning rate do not fall in this way.
    for others in ([36.5 + n % 3 / 7 for n in range(12)], [0.1 * 0.7**n for n in range(12)]):
        report = diagnosed(lines(form.replace("{w}", "{v}"), others), "table.txt")
        assert "loss" not in report.history.series


@pytest.mark.parametrize("form", [form for form in FORMS if "poch" not in form])
def test_numbers_of_another_file_are_unknown(diagnosed, form):
    report = diagnosed(lines(form), "table.txt")
    assert report.diagnosis.slug == "partly-read"
    assert "loss" not in report.history.series
    if form in ("{n} | {v} | {acc}", "{n}\n{v}"):
        return  # they are read as CSV
    # The text above may name them.
    report = diagnosed("These are my losses:\n\n" + lines(form), "table.txt")
    assert report.history.series["loss"].values.tolist() == LOSSES


BARE = [
    "{n}: {v}",
    "{n} {v} {acc}",
    "({n}, {v})",
    "{n} [{v}]",
    "{v}",
    "tensor({v}, device='cuda:0')",
]


@pytest.mark.parametrize("form", BARE)
@pytest.mark.parametrize("name", ["17.log", "unet_v2.log", "job-81.out", "output.txt", "my_paste"])
def test_the_name_of_a_file_may_be_neutral(diagnosed, form, name):
    report = diagnosed(lines(form), name)
    assert report.history.series["loss"].values.tolist() == LOSSES
    assert "as the loss" in str(report.history.events)
    lost = diagnosed(lines(form, [*LOSSES[:6], *[math.nan] * 6]), name).diagnosis
    assert lost.slug == "nan-dtype-unknown"
    rising = diagnosed(lines(form, sorted(value / 3 for value in LOSSES)), name)
    assert rising.diagnosis.slug == "partly-read"


@pytest.mark.parametrize("form", BARE)
@pytest.mark.parametrize("name", ["gpu_temp.log", "data.csv", "throughput3.out"])
def test_the_name_of_a_file_may_be_another_measure(diagnosed, form, name):
    assert "loss" not in diagnosed(lines(form), name).history.series


@pytest.mark.parametrize("first", ["inf", "nan"])
def test_two_numbers_that_are_never_finite(diagnosed, first):
    rows = [f"{n}0: {first if not n else 'nan'}  nan" for n in range(8)]
    diagnosis = diagnosed("\n".join(["Starting training", *rows]), "table.txt").diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 0)


@pytest.mark.parametrize("form", ["{n} | {v} | {acc}", "Epoch {n}\n{v} {acc}", "epoch {n} {acc}"])
def test_a_score_is_no_loss(diagnosed, form):
    # In a run that diverges, the accuracy falls.
    values = [*LOSSES[:8], 9.5, 42.0, 188.0, 950.0]
    text = "".join(
        form.format(n=n, v=value, acc=0.3 + n / 40 if n < 9 else 0.6 / n) + "\n"
        for n, value in enumerate(values, start=1)
    )
    report = diagnosed(text)
    assert report.diagnosis.slug != "healthy"
    if "loss" in report.history.series and "{v}" in form:
        assert report.history.series["loss"].values[0] > 1
    rising = diagnosed(lines(form.replace("{v}", "{acc}")))
    assert rising.diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "form",
    [
        "Epoch #{n} - train - {v} - valid - {w}",
        "Epoch {n}, LR = {lr}, {v} (train), {w} (valid)",
        "train {n} {v}\ntest {n} {w}",
        "Epoch\n{n}\nTraining loss:\n{v}\nValidation loss:\n{w}",
        "Epoch {n}:\n\ttrain {v}\n\tval   {w}",
    ],
)
@pytest.mark.parametrize("name", ["train.log", "table.txt"])
def test_words_name_the_split_of_a_number(diagnosed, form, name):
    series = diagnosed(lines(form), name).history.series
    assert series["loss"].values.tolist() == LOSSES
    np.testing.assert_allclose(series["eval_loss"].values, np.add(LOSSES, 0.1))
    assert series["loss"].steps.tolist() == list(range(1, 13))


def test_a_count_that_begins_again_in_each_epoch(diagnosed):
    text = "".join(
        f"[10:22:{n:02d}] [{1 + n // 4}/3] [{n % 4 * 50}/200] [{value}] [0.001]\n"
        for n, value in enumerate(LOSSES)
    )
    series = diagnosed(text).history.series["loss"]
    assert series.values.tolist() == LOSSES
    assert np.all(np.diff(series.steps) > 0)


@pytest.mark.parametrize("row", ["{v}, {n}", "{n} {v}", "({n}, {v})", "[{n}/400] {v} 0.1"])
@pytest.mark.parametrize("heading", ["Epoch: {n}", "--- epoch {n}/3 ---", "Round {n}"])
def test_a_count_that_begins_again_below_each_epoch(diagnosed, heading, row):
    text = "".join(
        (f"{heading.format(n=n // 4)}\n" if n % 4 == 0 else "")
        + f"{row.format(n=n % 4 * 100, v=value)}\n"
        for n, value in enumerate(LOSSES)
    )
    series = diagnosed(text).history.series["loss"]
    assert series.values.tolist() == LOSSES
    assert np.all(np.diff(series.steps) > 0)
    assert "loss" not in diagnosed(text, "table.txt").history.series


@pytest.mark.parametrize("row", ["{n}_{v}", "1_{n}_{v}", "{n}: {v}"])
@pytest.mark.parametrize(
    ("name", "role"),
    [("train_loss.txt", "loss"), ("reward.txt", "reward"), ("accuracy.txt", "accuracy")],
)
def test_a_number_behind_a_count_is_named_after_the_file(diagnosed, row, name, role):
    series = diagnosed(lines(row), name).history.series
    assert series[role].values.tolist() == LOSSES
    assert len(series) == 1


@pytest.mark.parametrize(
    "form",
    [
        "fold {n} {v} {acc}",
        "layer {n}: {v}",
        "rank {n} {v}",
        "Step {n} of the recipe: stir for 5 min",
        "version 1.{n}.{n}",
        "127.0.0.{n} 200 {n}",
        "epoch {n} took {v} s",
        "{n} [{v} 207.5] [{w} 8.5]",
    ],
)
def test_numbers_that_are_no_course(diagnosed, form):
    with pytest.raises(LogError):
        diagnosed(lines(form), "table.txt")


def test_an_empty_bar_is_no_json(diagnosed):
    text = "".join(
        f"[{'#' * n:12s}] {100 * n // 12}% loss {value}\n" for n, value in enumerate(LOSSES)
    )
    assert diagnosed(text).history.series["loss"].values.tolist() == LOSSES


@pytest.mark.parametrize(
    "second", ["nan", "9{n}000.5"], ids=["a second number is lost", "a second number multiplies"]
)
def test_a_log_is_not_healthy_if_another_number_without_a_name_fails(diagnosed, second):
    rows = (
        f"[{n}] {2.5 - n / 20:.4f} {second.format(n=n) if n > 20 else f'{2.7 - n / 20:.4f}'}\n"
        for n in range(1, 41)
    )
    report = diagnosed("training with a loss\n" + "".join(rows))
    assert report.diagnosis.slug == "partly-read"


@pytest.mark.parametrize("name", ["4711.log", "output.txt", "nohup.out", "job_7.out", "stdout"])
@pytest.mark.parametrize("form", ["({n}, {v}, {lr})", "{n}: {v}", "{n},{v},{lr}"])
def test_a_falling_number_of_any_output_is_the_loss(diagnosed, name, form):
    assert diagnosed(lines(form), name).history.series["loss"].values.tolist() == LOSSES


@pytest.mark.parametrize("name", ["rewards.log", "accuracy.out", "temperature.txt", "cooling.csv"])
def test_a_falling_number_of_a_file_of_something_else_is_not(diagnosed, name):
    series = diagnosed(lines("{n},{v},{w}"), name).history.series
    assert "loss" not in series or not series["loss"].present.any()


@pytest.mark.parametrize("form", ["{n},{v},{w}", "[{n}] [{v}, {w}]"])
def test_a_second_number_that_turns_may_be_an_evaluation(diagnosed, form):
    turned = "".join(
        form.format(n=n, v=2.5 - n / 15, w=2.4 - n / 8 if n < 12 else n / 12) + "\n"
        for n in range(30)
    )
    assert diagnosed(turned).diagnosis.slug == "partly-read"


@pytest.mark.parametrize("name", ["output.txt", "train.log", "losses.csv"])
def test_a_column_that_turns_below_the_head_is_an_evaluation_as_well(diagnosed, name):
    def table(lost_from=None):
        return "".join(
            f"{n},{math.nan if lost_from and n >= lost_from else 2.5 * 0.98**n:.4f},"
            f"{2.6 * 0.98**n if n < 120 else n / 90:.4f}\n"
            for n in range(240)
        )

    report = diagnosed(table(), name)
    assert report.diagnosis.slug == "partly-read"
    assert "No column is known to be the loss" in report.diagnosis.title
    assert diagnosed(table(lost_from=200), name).diagnosis.slug == "nan-dtype-unknown"


SCORES_OF_EPOCHS = (32.65, 34.06, 13.81, 12.68, 12.91, 17.25, 20.57)


@pytest.mark.parametrize(
    ("above", "score"),
    [
        ("mIOU for various epochs are as follows.", "mIOU"),
        ("The PSNR after each epoch:", "PSNR"),
        ("## Results (Dice)", "Dice"),
    ],
)
@pytest.mark.parametrize("form", ["{}th Epoch - {}", "Epoch {}: {}", "epoch {} -> {}"])
def test_a_score_above_names_the_only_number(diagnosed, above, score, form):
    rows = "".join(
        form.format(5 * n, value) + "\n" for n, value in enumerate(SCORES_OF_EPOCHS, start=1)
    )
    series = diagnosed(f"Testing - 500\n\n{above}\n\n{rows}").history.series
    assert [*series] == [f"score/{score}"]
    assert series[f"score/{score}"].values.tolist() == [*SCORES_OF_EPOCHS]
    assert series[f"score/{score}"].steps.tolist() == [*range(5, 40, 5)]


def test_a_score_above_does_not_name_a_time(diagnosed):
    rows = "".join(f"epoch {n}: {value} s\n" for n, value in enumerate(SCORES_OF_EPOCHS))
    with pytest.raises(LogError):
        diagnosed(f"The time (the recall is good):\n{rows}")
