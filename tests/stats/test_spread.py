"""How evenly a rise is spread over what goes with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stabdiag.stats.spread import lag_and_lead

N = 401


@pytest.mark.parametrize(
    ("power", "lag", "lead"), [(1.0, 0.0, 0.0), (2.0, 0.25, 0.0), (3.0, 0.38, 0.0), (0.5, 0.0, 0.2)]
)
def test_a_power_of_what_goes_with_it(power: float, lag: float, lead: float) -> None:
    course = np.linspace(3.0, 5.0, N)
    rise = np.linspace(0.0, 1.0, N) ** power
    assert lag_and_lead(7.0 + 2.0 * rise, course) == pytest.approx((lag, lead), abs=0.02)


def test_what_is_made_in_the_second_half_lags() -> None:
    rise = np.maximum(np.linspace(-1.0, 1.0, N), 0.0)
    lag, lead = lag_and_lead(rise, np.linspace(0.0, 1.0, N))
    assert lag == pytest.approx(0.5, abs=0.02)
    assert lead == pytest.approx(0.0, abs=0.02)


def test_stages_are_made_where_the_course_has_them() -> None:
    course = np.repeat(np.arange(11.0), 40)
    assert lag_and_lead(3.0 * course, course)[0] < 0.11


@pytest.mark.parametrize(
    ("x", "course"),
    [
        (np.linspace(1.0, 0.0, N), np.linspace(0.0, 1.0, N)),
        (np.linspace(0.0, 1.0, N), np.zeros(N)),
        (np.ones(1), np.ones(1)),
        (1.7e308 * np.linspace(-1.0, 1.0, N), np.linspace(0.0, 1.0, N)),
    ],
)
@np.errstate(all="ignore")  # as all that calls it has
def test_what_does_not_rise_goes_with_nothing(x: np.ndarray, course: np.ndarray) -> None:
    assert lag_and_lead(x, course) == (math.inf, math.inf)
