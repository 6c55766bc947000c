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
