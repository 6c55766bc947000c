"""Series and histories."""

import numpy as np
import pytest

from stabdiag.model.history import History, Series, Source


def series(role, steps, values=None):
    logged = values if values is not None else [float(step) for step in steps]
    return Series(
        role=role, column=role, steps=np.array(steps, np.int64), values=np.array(logged, np.float64)
    )


def history(*all_series):
    return History(
        series={item.role: item for item in all_series},
        source=Source(name="run", format="memory", records=9),
    )


def test_finite_leaves_out_nan_and_infinities():
    loss = series("loss", [1, 2, 3, 4], [1.0, np.nan, np.inf, 4.0])
    assert loss.finite().steps.tolist() == [1, 4]
    assert loss.finite().column == "loss"
    assert len(loss) == 4


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(2, 4, [2, 4]), (3, 3, []), (0, 99, [0, 2, 4, 6]), (4, 2, []), (6, 6, [6]), (-5, 0, [0])],
)
def test_between_takes_both_ends(first, last, expected):
    assert series("loss", [0, 2, 4, 6]).between(first, last).steps.tolist() == expected


@pytest.mark.parametrize(
    ("last", "expected"), [(4, [0, 2, 4]), (3, [0, 2]), (-1, []), (9, [0, 2, 4])]
)
def test_until_takes_its_end(last, expected):
    assert series("loss", [0, 2, 4]).until(last).steps.tolist() == expected


@pytest.mark.parametrize(
    ("steps", "evaluated", "expected"),
    [
        (list(range(20)), list(range(20)), True),
        (list(range(20)), list(range(19)), True),
        (list(range(20)), list(range(0, 20, 2)), False),
        (list(range(0, 200, 10)), list(range(0, 200, 10)), False),
        (list(range(20)), list(range(20, 40)), False),
        ([0], [0], False),
    ],
)
def test_steps_that_are_each_evaluated_are_epochs(steps, evaluated, expected):
    assert history(series("loss", steps), series("eval_loss", evaluated)).counts_epochs is expected


def test_group_takes_the_role_itself_and_its_groups_and_nothing_else():
    names = ("weight_norm", "weight_norm/a", "weight_norm/b/c", "weight_norms", "loss")
    run = history(*(series(name, [1]) for name in names))
    assert set(run.group("weight_norm")) == {"all", "a", "b/c"}


def test_before_cuts_every_series_and_drops_those_that_begin_later():
    run = history(series("loss", [0, 5, 10]), series("lr", [10]), series("grad_norm", []))
    assert {role: item.steps.tolist() for role, item in run.before(10).series.items()} == {
        "loss": [0, 5]
    }
    assert len(run.series["loss"]) == 3


def test_last_step_is_that_of_any_series():
    assert (
        history(series("loss", [0, 5]), series("eval_loss", [9]), series("lr", [])).last_step == 9
    )
    assert history().last_step is None
