"""Short runs in one log: the epoch on the line above a loss begins again."""

from __future__ import annotations

import pytest

import stabdiag
from stabdiag.errors import StabdiagError


def blocks(epochs):
    return "".join(
        f"epoch: {epoch}\ntrain loss: {2.75 - epoch / 4}\nvalid loss: {3 - epoch / 4}\n"
        for epoch in epochs
    )


def test_short_runs_follow_each_other(put):
    report = stabdiag.diagnose(put(blocks([1, 1, 1, 2, 3, 1, 2, 3, 4, 1, 2])))
    assert report.history.series["loss"].steps.tolist() == [1, 2]
    assert report.history.series["eval_loss"].values.tolist() == [2.75, 2.5]


@pytest.mark.parametrize("epochs", [[1, 2] * 6, [5, 2, 7, 3, 9, 4, 8, 1, 6]])
def test_a_number_that_alternates_is_no_epoch(put, epochs):
    try:
        report = stabdiag.diagnose(put(blocks(epochs)))
    except StabdiagError:
        return
    assert report.history.unit != "epoch"


@pytest.mark.parametrize("score", ["val acc", "test_f1:", "dice ="])
def test_the_scores_of_a_resumed_run_are_read(put, score):
    epochs = [*range(1, 30), *range(20, 50)]
    text = "".join(f"epoch {epoch} {score} {0.4 + epoch / 100:.2f}\n" for epoch in epochs)
    (series,) = stabdiag.diagnose(put(text)).history.series.values()
    assert series.steps.tolist() == list(range(1, 50))


def test_epochs_in_any_order_are_no_log_of_scores(put):
    epochs = [90, 20, 70, 30, 90, 40, 80, 10, 60, 20, 30]
    text = "".join(f"epoch {epoch} acc {0.4 + epoch / 200:.2f}\n" for epoch in epochs)
    with pytest.raises(StabdiagError):
        stabdiag.diagnose(put(text))


BAR = "Epoch {n}/{total}\n40/40 [====] - 3s 71ms/step - loss: {loss:.4f} - val_loss: {loss:.3f}5\n"


def folds(*runs, total=50):
    return "Next fold\n".join(
        "".join(BAR.format(n=n, total=total, loss=loss) for n, loss in run) for run in runs
    )


@pytest.mark.parametrize("later", [[(1, 0.48)], [(1, 0.48), (2, 0.31)]])
def test_a_fold_begins_below_the_end_of_another_one(put, later):
    report = stabdiag.diagnose(put(folds([(48, 0.014), (49, 0.013), (50, 0.012)], later)))
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["loss"].steps.tolist() == [n for n, _ in later]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_folds_of_three_epochs_follow_each_other(put, count):
    runs = [[(1, 0.5 + k / 100), (2, 0.4), (3, 0.3)] for k in range(count)]
    series = stabdiag.diagnose(put(folds(*runs, total=3))).history.series
    assert series["loss"].steps.tolist() == [1, 2, 3]
    assert series["loss"].values.tolist() == [0.49 + count / 100, 0.4, 0.3]


@pytest.mark.parametrize(
    "heading", ["Stage {n}", "=== Phase {n}: larger images ===", "INFO: starting stage {n} (64x64)"]
)
def test_a_stage_explains_a_higher_loss(put, heading):
    text = ""
    for stage, begin in enumerate((1.0, 0.7, 0.55)):
        text += heading.format(n=stage + 1) + "\n"
        for n in range(30):
            loss = begin * (0.55 ** (n / 29)) * (1 + (7 * n % 5 - 2) / 99)
            text += f"Epoch {30 * stage + n + 1}: loss {loss:.4f}\n"
    history = stabdiag.diagnose(put(text)).history
    stages = history.series["setting/stage"].values.tolist()
    assert stages == [1] * 30 + [2] * 30 + [3] * 30


def test_the_loss_of_a_stage_of_a_model_is_no_stage(put):
    text = "".join(f"Epoch {n}: stage 1 loss: {2 / n:.3f}\n" for n in range(1, 13))
    assert "setting/stage" not in stabdiag.diagnose(put(text)).history.series


@pytest.mark.parametrize(
    "runs",
    [
        [range(14, 21), range(1, 21)],  # the beginning of the first run is cut off
        [range(1, 15), range(1, 15)],
        [range(1, 5)] * 6,
    ],
    ids=["cut", "equal", "short"],
)
def test_runs_of_scores_follow_each_other(put, runs):
    text = "".join(f"Epoch {n}: accuracy {1 - 0.9**n:.4f}\n" for run in runs for n in run)
    history = stabdiag.diagnose(put(text)).history
    assert history.source.attempts == len(runs)
    assert history.series["accuracy"].steps.tolist() == [*runs[-1]]


@pytest.mark.parametrize(
    "form",
    [
        "[{n}0]\ttrain-rmse:{loss:.4f}\teval-rmse:{loss:.3f}5",
        "| epoch   1 |  {n}00/ {total} batches | ms/batch 9.5 | loss {loss:5.2f}",
        "iter {n}: loss {loss:.4f}",
    ],
)
@pytest.mark.parametrize("lost", [True, False])
def test_short_runs_of_any_counter(put, form, lost):
    losses = [2.5, 1.25, 0.75, float("nan") if lost else 0.5]
    text = "".join(
        form.format(n=n, loss=loss, total=1400 + 300 * run) + "\n"
        for run in range(6)
        for n, loss in enumerate(losses if run == 4 else [2.5, 1.25, 0.75, 0.5], start=1)
    )
    report = stabdiag.diagnose(put(text))
    assert report.history.source.attempts == 6
    assert len(report.history.series["loss"]) == 4
    assert report.diagnosis.slug == ("earlier-run-failed" if lost else "insufficient-data")
