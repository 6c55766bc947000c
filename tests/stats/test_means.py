"""Means and their spread, against what is known of them, and by simulation."""

import math

import numpy as np
import pytest

from stabdiag.stats.means import (
    chi_squared_quantile,
    chi_squared_tail,
    mean_and_error,
    spread,
)


@pytest.mark.parametrize(
    ("share", "degrees", "value"),
    [
        # Tables of chi-squared.
        (0.05, 1, 3.841459),
        (0.05, 2, 5.991465),
        (0.01, 4, 13.276704),
        (0.025, 9, 19.022768),
        (0.975, 9, 2.700389),
        (0.975, 1, 0.000982),
        (0.001, 30, 59.703064),
    ],
)
def test_chi_squared_tails_match_the_tables(share, degrees, value):
    assert chi_squared_tail(value, degrees) == pytest.approx(share, rel=1e-3)
    assert chi_squared_quantile(share, degrees) == pytest.approx(value, rel=1e-3)


def test_the_error_of_independent_points_is_the_usual_one():
    rng = np.random.default_rng(0)
    estimates = [mean_and_error(rng.normal(5, 0.3, 200)) for _ in range(50)]
    usual = 0.3 / math.sqrt(200)
    assert np.median([estimate.error for estimate in estimates]) == pytest.approx(usual, rel=0.15)
    assert np.median([estimate.deviation for estimate in estimates]) == pytest.approx(0.3, rel=0.05)


def test_autocorrelation_is_honored():
    """The error of an AR(1) mean is sqrt((1 + a) / (1 - a)) times that without correlation."""
    rng, a, n = np.random.default_rng(1), 0.8, 2000
    errors, means = [], []
    for _ in range(60):
        shock, x = rng.normal(0, 1, n), np.zeros(n)
        for i in range(1, n):
            x[i] = a * x[i - 1] + shock[i]
        estimate = mean_and_error(x)
        errors.append(estimate.error)
        means.append(estimate.value)
    naive = 1 / math.sqrt(1 - a**2) / math.sqrt(n)
    assert np.median(errors) == pytest.approx(3 * naive, rel=0.2)
    assert np.std(means) == pytest.approx(float(np.median(errors)), rel=0.35)


def test_a_constant_has_a_nonzero_error():
    assert mean_and_error(np.full(50, 2.0)).error > 0


def test_two_values_leave_a_factor_of_seventy():
    estimate = spread(np.array([1.0, 2.0]), np.array([0.1, 0.1]))
    assert estimate.deviation == pytest.approx(math.sqrt(0.5))
    assert estimate.high / estimate.low == pytest.approx(71.5, rel=0.01)
    assert estimate.p_value == pytest.approx(math.erfc(math.sqrt(50) / math.sqrt(2)), rel=1e-6)
