import pytest

from stabdiag.readers.text.lines.spans import SpanFinder, find_spans
from stabdiag.readers.text.lines.tokens import has_number

LINES = [
    b"Epoch: 1.5 | step 10/600 | loss: 2.31 | lr: 1e-4",
    b"Epoch: 2 | step 20/600 | loss: nan | lr: 1e-4",
    b"Epoch: 2.5 | step 30/600 | loss: 2.25 | lr: 1e-4",
    b"Epoch: 3 | step 40/600 | loss: 2.2 | lr: 1e-4",
    b"val loss: 2.4, acc: 0.5",
    b"val loss: 2.3, acc: 0.55 (best)",
    b"loss of prose without a number",
]


@pytest.mark.parametrize("lines", [LINES, LINES[::-1]])
def test_spans_are_those_of_each_line_alone(lines):
    finder = SpanFinder(b"oss")
    for line in lines:
        assert [*finder.find(line).items()] == [*find_spans(line).items()], line


def test_lines_of_one_shape_are_looked_at_once(monkeypatch):
    finder = SpanFinder(b"oss")
    finder.find(b"step 1 loss: 2.31")
    monkeypatch.setattr("stabdiag.readers.text.lines.spans.find_spans", None)
    assert finder.find(b"step 2 loss: 2.25") == {"loss": (13, 17)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"words alone", False),
        (b"gpu7 xinf", False),
        (b"a NaN", True),
        (b"-.5", True),
        (b"inf", True),
    ],
)
def test_a_line_has_a_number_only_outside_words(line, expected):
    assert has_number(line) == expected
