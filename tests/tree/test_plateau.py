"""Advice for a loss that has stopped falling, based on the logged series."""

from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.model.history import Series
from stabdiag.tree.case import Case
from stabdiag.tree.walk import walk

STEPS = np.arange(0, 1000, 100)
FLAT = [4.0, 3.0, 2.5, 2.2, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
FALLING = [4.0, 3.0, 2.5, 2.2, 2.0, 1.9, 1.8, 1.7, 1.6, 1.5]
RISING = [4.0, 3.0, 2.5, 2.2, 2.0, 2.1, 2.2, 2.4, 2.6, 2.8]


def advised(runs, **series):
    """Return the plateau of the fixture with other evaluation losses and learning rates."""
    report = stabdiag.diagnose(next((runs / "plateau").glob("log.*")))
    kept = {r: s for r, s in report.history.series.items() if r not in ("eval_loss", "lr")}
    for role, values in series.items():
        kept[role] = Series(role=role, column=role, steps=STEPS, values=np.array(values))
    history = replace(report.history, series=kept)
    (result,) = walk(Case(history=history, manifest=report.manifest, limits=report.limits)).findings
    assert result.slug == "plateau"
    return result


@pytest.mark.parametrize(
    ("eval_loss", "first"),
    [
        (FLAT, "Stop the run: the evaluation loss is flat as well (2 at step"),
        (FALLING, "Keep the run going: the evaluation loss still falls (1.8 at step 600, 1.5"),
        (RISING, "Stop the run: the evaluation loss rose (2.2 at step 600, 2.8"),
    ],
    ids=["flat", "falling", "rising"],
)
def test_evaluation_loss_over_the_plateau_is_reported(runs, eval_loss, first):
    assert advised(runs, eval_loss=eval_loss).first_action.startswith(first)


def test_the_best_checkpoint_is_kept_where_the_evaluation_loss_rose(runs):
    (expected,) = advised(runs, eval_loss=RISING).next_actions
    assert expected == "Keep the checkpoint nearest to step 400, where it was lowest."


def test_a_missing_evaluation_loss_is_requested(runs):
    result = advised(runs)
    assert result.first_action.startswith("Check the evaluation loss")
    assert "consider decaying the learning rate." in result.next_actions[0]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([1.0] * 10, "Consider decaying the learning rate (now 1)."),
        ([1.0] * 5 + [0.1] * 5, "For a lower loss, restart with a longer schedule"),
    ],
    ids=["constant", "decayed"],
)
def test_a_decayed_rate_is_not_decayed_again(runs, rates, expected):
    (text,) = advised(runs, eval_loss=FALLING, lr=rates).next_actions
    assert text.startswith(expected)


def test_a_rate_of_zero_ends_the_run_regardless_of_eval_loss(runs):
    result = advised(runs, eval_loss=FALLING, lr=[1.0] * 6 + [0.0] * 4)
    assert result.first_action.startswith("Stop the run: the learning rate is 0 from step 600")
    never = advised(runs, lr=[0.0] * 10)
    assert "0 from step 0 on" in never.first_action
