"""Values that a post or a page emphasizes."""

import math

import pytest

import stabdiag
from stabdiag.readers.text.lines.emphasis import without_emphasis

MARKS = (
    ("loss = ", "**", "**"),
    ("loss = ", "*", "*"),
    ("loss: ", "`", "`"),
    ("loss ", "`", "`"),
    ("loss: ", "<b>", "</b>"),
    ("loss: ", "<span style='color: red'>", "</span>"),
    ("**loss: ", "", "**"),
    ("acc: 0.**5, loss: ", "", "**"),
)


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log).series["loss"]

    return read


@pytest.mark.parametrize(("name", "begin", "end"), MARKS)
def test_all_values_may_be_emphasized(read, name, begin, end):
    line = f"step {{}}: {name}{begin}{{}}{end} (0.5 sec/step)\n"
    series = read("".join(line.format(n, n / 8) for n in range(4, 9)))
    assert series.steps.tolist() == [4, 5, 6, 7, 8]
    assert series.values.tolist() == [n / 8 for n in range(4, 9)]


@pytest.mark.parametrize(("name", "begin", "end"), MARKS)
def test_an_emphasized_nan_among_plain_values_is_seen(read, name, begin, end):
    lines = [f"step {n}: lr: 0.5, loss: {2 - n / 32}\n" for n in range(30)]
    lines[20] = f"step 20: lr: 0.5, {name}{begin}nan{end}\n"
    values = read("".join(lines)).values
    assert [n for n, value in enumerate(values) if math.isnan(value)] == [20]


@pytest.mark.parametrize("mark", [" ✓", "↓", " ✅", " ⭐"])
@pytest.mark.parametrize(
    "line",
    [
        " iteration {0:8d}/ 900 | learning rate: 3.0E-04 | lm loss: {1}{2} | grad norm: 1.2 |\n",
        "step {0}, loss: {1}{2}, lr: 0.5\n",
        "step {0} lr 0.5 loss {1}{2}\n",
    ],
)
def test_a_mark_behind_a_value_is_no_part_of_it(read, mark, line):
    texts = [f"{2 - n / 32:.4f}" for n in range(30)] + ["nan"] * 3
    marks = [""] * 15 + [mark] * 18
    lines = (line.format(n, *pair) for n, pair in enumerate(zip(texts, marks, strict=True)))
    values = read("".join(lines)).values
    assert values.tolist()[:30] == [float(text) for text in texts[:30]]
    assert all(map(math.isnan, values[30:]))


@pytest.mark.parametrize(
    "line",
    [
        b"return a**2 + b**2",
        b"run(*args, **options)",
        b"(*a, **b), (*c, **d)",
        b"loss = 0.25 (* 2 = 0.5 loss)",
        b"**** EPOCH 3 ****",
        b"*** loss: 0.5 ***",
        b"loss: ***",
        b"size = 3 *4* 5",
        b"the tensor contains `inf`, `nan` or 0",
        b"<s> a </s> <unk>",
    ],
)
def test_other_asterisks_and_tags_stay(line):
    assert without_emphasis(line) == line
