"""Counts alone on the line above their values."""

import pytest

import stabdiag

STEPS = range(10, 210, 10)


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "train.log"
        path.write_text(text)
        return stabdiag.read(path).series

    return read


@pytest.mark.parametrize(
    "heading",
    ["#{}", "{}", "E{}", "t={}", "[{}]", "({})", "n = {}", "{}:", "--- {} ---", "== {}/200 =="],
)
@pytest.mark.parametrize("name", ["loss", "reward"])
def test_a_count_above_a_measure_is_its_step(read, heading, name):
    series = read("".join(f"{heading.format(n)}\n{name}: {3 - n / 100}\n" for n in STEPS))[name]
    assert series.steps.tolist() == [*STEPS]
    assert series.values.tolist() == pytest.approx([3 - n / 100 for n in STEPS])


@pytest.mark.parametrize(
    "form",
    [
        "loss: {loss}\n{n}\n",  # behind its values, or in front of the next ones
        "32\nloss: {loss}\n",
        "{time}\nloss: {loss}\n",
        "{n}\n\nacc 0.5\nepoch {n} loss: {loss}\n",
    ],
)
def test_other_numbers_on_lines_of_their_own_are_no_counts(read, form):
    text = "".join(form.format(n=n, loss=3 - n / 100, time=n + n // 30) for n in STEPS)
    steps = read(text)["loss"].steps.tolist()
    assert steps == ([*STEPS] if "epoch" in form else [*range(20)])
