"""Rows of a name and its value: ``Loss, 2.31`` on each line."""

import math

import pytest

import stabdiag
from stabdiag.errors import StabdiagError

LOSSES = [2.5 - n / 20 for n in range(30)]


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("separator", [", ", ",", ";", "; "])
@pytest.mark.parametrize("name", ["loss.csv", "train.log"])
def test_a_name_on_each_line_is_a_column(tmp_path, separator, name):
    path = write(tmp_path / name, *(f"Loss{separator}{loss}" for loss in LOSSES))
    assert [*stabdiag.diagnose(path).history.finite("loss").values] == LOSSES


def test_names_that_recur_are_columns(tmp_path):
    lines = [
        f"{name}, {value}"
        for loss in LOSSES
        for name, value in (("Train Loss", loss), ("Accuracy", 1 - loss / 3))
    ]
    path = write(tmp_path / "log.csv", *lines, "Train Loss, nan")
    report = stabdiag.diagnose(path)
    assert math.isnan(report.history.series["loss"].values[-1])
    assert len(report.history.series["accuracy"]) == len(LOSSES)


@pytest.mark.parametrize(
    "lines",
    [
        ["alice, 2.3", "bob, 0.1"] * 5,
        ["Loss, 2.3", "Loss, 2.1", "Accuracy, 0.1", "Loss, 1.9"],
        ["Loss, 2.3", "Loss, 2.1"],
    ],
)
def test_other_rows_are_refused(tmp_path, lines):
    with pytest.raises(StabdiagError):
        stabdiag.diagnose(write(tmp_path / "log.csv", *lines))
