"""Several runs in one log that no falling counter separates: headings, totals, processes."""

from __future__ import annotations

import pytest

import stabdiag

FALLING = [2.4 * 0.8**n + 0.2 for n in range(12)]
LOST = [*FALLING[:8], *[float("nan")] * 4]

RUNS = pytest.mark.parametrize(
    ("runs", "slug"),
    [
        ((FALLING, FALLING), "healthy"),
        ((LOST, FALLING), "earlier-run-failed"),
        ((FALLING, LOST), "nan-dtype-unknown"),
    ],
)

HEADINGS = [
    "Run {n}",
    "=========== Repeat {n} of 2 ===========",
    "lr=0.0{n}, width={n}28",
    "$ python fit.py --seed {n}",
    "2024-03-05 10:0{n}:12 INFO building model {n}",
    "{{'lr': 0.{n}, 'layers': {n}}}",
    "Using device: cuda:0",
]

POSITIONS = [
    "[{n}00/{total}] loss: {loss:.4f}",
    "| epoch   1 | {n:3d}00/ {total} batches | ms/batch 10.5 | loss {loss:5.2f}",
    "Step [{n}00/{total}], Loss: {loss:.4f}",
]


def lines(losses, form="loss: {loss:.4f}", **values):
    return "".join(
        form.format(n=n, loss=loss, **values) + "\n" for n, loss in enumerate(losses, start=1)
    )


@pytest.mark.parametrize("heading", HEADINGS)
@RUNS
def test_a_heading_begins_a_run_of_losses_without_a_counter(put, heading, runs, slug):
    text = "".join(heading.format(n=n) + "\n" + lines(own) for n, own in enumerate(runs, start=1))
    report = stabdiag.diagnose(put(text))
    assert len(report.history.series["loss"]) == len(FALLING)
    assert report.diagnosis.slug == slug


@pytest.mark.parametrize("between", ["Saving model {n}", "Epoch took {n}.5 s"])
def test_a_line_that_is_also_between_other_losses_begins_no_run(put, between):
    losses = [*FALLING, *FALLING[2:8]]
    text = "".join(
        (between.format(n=n) + "\n" if n % 3 == 0 else "") + f"loss: {loss:.4f}\n"
        for n, loss in enumerate(losses)
    )
    assert len(stabdiag.diagnose(put(text)).history.series["loss"]) == len(losses)


@pytest.mark.parametrize("form", POSITIONS)
@RUNS
def test_another_total_begins_a_run(put, form, runs, slug):
    text = "".join(
        lines(own, form, total=total) for own, total in zip(runs, (3452, 1823), strict=True)
    )
    report = stabdiag.diagnose(put(text))
    assert len(report.history.series["loss"]) == len(FALLING)
    assert report.diagnosis.slug == slug


def test_bars_of_an_evaluation_are_no_run(put):
    epochs = [
        lines(FALLING[at : at + 4], "[{n}00/400] loss: {loss:.4f}", total=400)
        + lines(FALLING[at : at + 2], "[{n}00/200] loss: {loss:.4f}", total=200)
        for at in (0, 4, 8)
    ]
    history = stabdiag.diagnose(put("".join(epochs))).history
    assert history.source.attempts == 1


@pytest.mark.parametrize("total", [12, 20])
def test_the_epochs_of_a_later_run_have_another_total(put, total):
    form = "Epoch [{n}/{total}] train_loss: {loss:.4f}"
    text = lines(LOST, form, total=15) + lines(FALLING, form, total=total)
    report = stabdiag.diagnose(put(text))
    assert report.history.unit == "epoch"
    assert report.diagnosis.slug == "earlier-run-failed"


@pytest.mark.parametrize("label", ["(train pid={n}1)", "(Trainable pid=40{n}, ip=10.0.0.1)"])
@RUNS
def test_processes_one_after_another_are_runs(put, label, runs, slug):
    text = "".join(
        lines(own, label.format(n=n) + " epoch {n} loss {loss:.4f}")
        for n, own in enumerate(runs, start=1)
    )
    assert stabdiag.diagnose(put(text)).diagnosis.slug == slug


@pytest.mark.parametrize("count", [5, 12, 25, 60])
@pytest.mark.parametrize(
    "line", ["loss: 0.0", "{{'tagger': 0.0}}", "loss 0", "{{'loss': 0.0, 'acc': 0.5}}"]
)
def test_a_loss_of_zero_on_each_line_is_a_log_of_any_length(put, line, count):
    text = (line.format() + "\n") * count
    assert stabdiag.diagnose(put(text)).diagnosis.slug == "loss-constant"
