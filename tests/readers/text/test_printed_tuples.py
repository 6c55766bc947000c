"""Values that ``print`` writes as a tuple in Python 2."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = [2.3 * np.exp(-n / 9) + 0.2 + 0.01 * (n * 7 % 5) for n in range(1, 31)]


@pytest.fixture
def history(tmp_path):
    def read(text):
        path = tmp_path / "run.txt"
        path.write_text(text)
        return stabdiag.read(path)

    return read


@pytest.mark.parametrize(
    "line",
    [
        "('Epoch', {n}, 'loss', {loss!r}, 'acc', 0.5)",
        "('Epoch: ', {n}, ', loss: ', {loss!r})",
        "('epoch %d', {n}, '\\tloss:\\t', '{loss:.6f}')",
        "(u'Epoch #', {n}, u'loss =', {loss!r})",
        '("epoch", {n}, "loss", {loss!r})',
    ],
)
def test_printed_tuples(history, line):
    loss = history("".join(f"{line.format(n=n, loss=loss)}\n" for n, loss in _epochs())).series[
        "loss"
    ]
    assert loss.steps.tolist() == [*range(1, 31)]
    assert loss.values == pytest.approx(LOSSES, abs=1e-5)


def test_last_tuple_may_be_cut(history):
    text = "".join(f"('Epoch', {n}, 'loss', {loss!r}, 'lr', 0.01)\n" for n, loss in _epochs())
    assert history(text[:-6]).series["loss"].values.size == 30


@pytest.mark.parametrize(
    "nan",
    ["nan", "None", "'nan'", "tensor(nan, device='cuda:0')", "array([nan], 'f')"],
)
def test_nan_in_a_tuple(history, nan):
    text = "".join(f"('Epoch', {n}, 'loss', {loss!r})\n" for n, loss in _epochs())
    loss = history(text + "".join(f"('Epoch', {n}, 'loss', {nan})\n" for n in (31, 32))).series[
        "loss"
    ]
    assert loss.steps.tolist() == [*range(1, 33)]
    assert math.isnan(loss.values[-1])


def test_reward_in_a_tuple(history):
    text = "".join(
        f"('Episode #', {100 * n}, '\\tfinished with reward', {-loss!r})\n" for n, loss in _epochs()
    )
    assert history(text).series["reward"].values == pytest.approx(np.negative(LOSSES))


def test_tuples_of_other_values_are_no_log(history):
    with pytest.raises(LogError, match="without a training loss"):
        history("".join(f"('conv{n}', {64 * n}, 'relu', {n})\n" for n in range(1, 20)))


@pytest.mark.parametrize("end", ["", ","])
def test_tuples_of_a_count_and_several_values_are_rows(tmp_path, end):
    path = tmp_path / "loss.txt"
    path.write_text("".join(f"({n}, {loss}, {loss + 1}){end}\n" for n, loss in _epochs()))
    series = stabdiag.read(path).series
    assert series["loss"].values == pytest.approx(LOSSES)
    assert series["other_loss/loss_2"].values == pytest.approx(np.add(LOSSES, 1))


@pytest.mark.parametrize("value", ["2.42.5", "None"])
def test_tuples_with_another_value_are_not_refused(history, value):
    values = [value if n == 6 else loss for n, loss in _epochs()]
    text = "".join(f"({n}, {loss}, 0.5)\n" for n, loss in enumerate(values, start=1))
    assert history(text).series["loss"].values == pytest.approx([*LOSSES[:5], *LOSSES[6:]])


def _epochs():
    return enumerate(LOSSES, start=1)


def test_a_long_row_that_is_no_tuple_takes_linear_time(history):
    row = "('a'" + ", 1" * 39 + " 'x\n"
    text = "".join(f"('Epoch', {n}, 'loss', {loss!r})\n" for n, loss in _epochs())
    assert history(text + row).series["loss"].values.size == 30
