"""The number of correct examples next to an accuracy is not a counter: Acc: 61.0% (610/1000)."""

import pytest

import stabdiag
from stabdiag.readers.text.lines.counters import line_counters

LOSSES = [2.25, 1.75, 1.5, 1.25, 1.125]
EVALUATED = [2.5, 2.0, 1.875, 1.9375, 2.125]


def test_the_share_of_right_answers_is_no_step(put):
    lines = []
    for epoch, (trained, evaluated) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        right = 610 + epoch
        lines += [f"Epoch: {epoch}"]
        lines += [f" [===>] Tot: 2s | Loss: {trained} | Acc: {right / 10}% ({right}/1000) 60/60"]
        right = 59 + epoch
        lines += [f" [===>] Tot: 1s | Loss: {evaluated} | Acc: {right}.0% ({right}/100) 9/9"]
    read = stabdiag.diagnose(put("\n".join(lines))).history.series
    assert read["loss"].steps.tolist() == [0, 1, 2, 3, 4]
    assert read["eval_loss"].values.tolist() == EVALUATED


@pytest.mark.parametrize(
    ("line", "counters"),
    [
        (b"Acc: 61.2% (612/1000) 9/9", {b"N/9"}),
        (b"acc 0.61 (61/100)", set()),
        (b"Accuracy: 612/1000 (61%)", set()),
        (b"correct=612/1000", set()),
        (b"acc: 61.2% (300/1000)", {b"N/1000"}),
        (b"acc: 0.5 | 10/600", {b"N/600"}),
        (b"acc: 50 [10/600] loss: 2.5", {b"N/600"}),
        (b"100% (640/640) loss: 2.5", {b"N/640"}),
    ],
)
def test_a_score_of_all_is_no_counter(line, counters):
    assert line_counters(line).keys() == counters
