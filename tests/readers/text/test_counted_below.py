"""Records whose counter is on a line below them, which names the end of an epoch."""

import pytest

import stabdiag


@pytest.fixture
def loss(tmp_path):
    def read(text):
        (tmp_path / "run.log").write_text(text)
        return stabdiag.read(tmp_path / "run.log").series["loss"]

    return read


@pytest.mark.parametrize(
    "end",
    [
        "******** Epoch={} end ********",
        "10:23:46 INFO epoch {} finished, took 31 s",
        "--- end of epoch: {} ---",
        "Epoch {}/20 done",
        "Completed epoch {}",
    ],
)
@pytest.mark.parametrize("count", [2, 3, 8])
def test_an_epoch_that_ends_below_its_loss(loss, end, count):
    blocks = [
        f"10:23:45 INFO Train loss: {9 / n:.3f}\n{end.format(n)}\n" for n in range(4, 4 + count)
    ]
    series = loss("".join(blocks))
    assert series.steps.tolist() == [*range(4, 4 + count)]
    assert series.values[0] == 2.25


@pytest.mark.parametrize("line", ["Epoch {} completed.", "Epoch {} of 20", "=== epoch {} ==="])
def test_an_epoch_above_its_loss(loss, line):
    blocks = [f"{line.format(n)}\n  Train loss: {9 / n:.3f}\n" for n in range(4, 9)]
    assert loss("".join(blocks)).steps.tolist() == [4, 5, 6, 7, 8]
