"""Logs whose lines have two forms in turn from some point on."""

import json

import numpy as np
import pytest

import stabdiag

COUNT, FIRST = 60, 30
LOSSES = np.round(0.75 + 2 * np.exp(-np.arange(COUNT) / 9), 4).tolist()

FORMS = {
    "step": lambda n, loss: f"step {n} loss {loss}",
    "position": lambda n, loss: f"[{n}/900] train loss = {loss}, lr = 0.002",
    "cost": lambda n, loss: f"Iteration {n} - cost: {loss} - speed: 3 it/s",
    "json": lambda n, loss: json.dumps({"step": n, "loss": loss}),
    "start": lambda n, loss: f"{n}: avg loss {loss} (2.1 s)",
}
PAIRS = [(first, second) for first in FORMS for second in FORMS if first != second]
# Between objects of JSON, only a loss with its name is looked for.
PAIRS.remove(("json", "cost"))


def mixture(first, second, losses=LOSSES):
    """Return a log with the second form on every other line from the middle on."""
    return "\n".join(
        FORMS[second if n >= FIRST and n % 2 else first](7 * n, loss)
        for n, loss in enumerate(losses)
    )


def failing(value):
    """Return losses that fail only in the lines of the second form."""
    return [value if n > 40 and n % 2 else loss for n, loss in enumerate(LOSSES)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_both_are_read(put, first, second):
    loss = stabdiag.read(put(mixture(first, second))).series["loss"]
    assert loss.steps.tolist() == [7 * n for n in range(COUNT)]
    np.testing.assert_allclose(loss.values, LOSSES)


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("value", [float("nan"), 5000.0])
def test_a_failure_of_the_second_form_is_reported(put, first, second, value):
    report = stabdiag.diagnose(put(mixture(first, second, failing(value))))
    assert not report.ok


@pytest.mark.parametrize(
    "line",
    [
        "step {n}: validation loss {loss}",
        "Saved the model of iteration {n}, loss {loss}",
        "step {n}: router loss {loss}",
        "step {n}: {loss} errors in the data",
    ],
)
def test_other_lines_are_no_records(put, line):
    lines = []
    for n, loss in enumerate(LOSSES):
        lines.append(f"step {10 * n} loss {loss} lr 0.01")
        if n > 20 and n % 3 == 0:
            lines.append(line.format(n=10 * n + 5, loss=0.5 + loss))
    report = stabdiag.diagnose(put("\n".join(lines)))
    assert report.diagnosis.slug != "partly-read"
    assert report.history.series["loss"].steps.tolist() == [10 * n for n in range(COUNT)]


def test_lines_of_another_size_are_left_out(put):
    losses = [9e5 * loss if n > 29 and n % 2 else loss for n, loss in enumerate(LOSSES)]
    text = mixture("step", "position", losses)
    diagnosis = stabdiag.diagnose(put(text)).diagnosis
    assert diagnosis.slug == "partly-read"
    assert "lines of another form" in diagnosis.summary
