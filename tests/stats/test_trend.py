"""Mann-Kendall: quiet on noise, sure of a rise."""

import numpy as np
import pytest

from stabdiag.stats.trend import block_means, kendall_score, mann_kendall


def ar1(seed, n, rho):
    shocks = np.random.default_rng(seed).standard_normal(n)
    out = np.empty(n)
    out[0] = shocks[0] / np.sqrt(1 - rho**2)
    for at in range(1, n):
        out[at] = rho * out[at - 1] + shocks[at]
    return out


@pytest.mark.parametrize(
    ("rho", "chance", "limit"),
    [(0.0, 0.05, 0.1), (0.0, 0.01, 0.02), *((rho, 0.001, 0.04) for rho in (0.3, 0.6, 0.8))],
)
def test_noise_rises_as_often_as_the_p_value_says(rho, chance, limit):
    false_positives = [mann_kendall(ar1(seed, 100, rho)) < chance for seed in range(300)]
    assert np.mean(false_positives) <= limit


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("n", [20, 200, 2000])
def test_a_rise_is_sure(n, noise):
    x = np.linspace(0, 1, n) + noise * np.random.default_rng(n).standard_normal(n)
    assert mann_kendall(x) < 0.001


@pytest.mark.parametrize(
    "x", [[], [1.0], [1.0, 2.0, 3.0], [5.0] * 50, [0.0, 0.0, 0.0, 0.0]], ids=repr
)
def test_too_few_points_and_constants_show_nothing(x):
    assert mann_kendall(np.array(x)) == 1.0


@pytest.mark.parametrize(
    ("n", "limit", "expected"), [(10, 10, 10), (11, 10, 5), (1000, 400, 333), (5, 400, 5)]
)
def test_block_means_cover_all_points(n, limit, expected):
    x = np.arange(n, dtype=np.float64)
    means = block_means(x, limit)
    size = -(-n // limit)
    assert len(means) == expected
    assert means[0] == x[:size].mean()
    assert means[-1] == x[(expected - 1) * size : expected * size].mean()


def _score_by_pairs(x):
    return sum(np.sign(later - earlier) for at, later in enumerate(x) for earlier in x[:at])


@pytest.mark.parametrize("values", [1000, 4, 1])
def test_kendall_score_counts_rising_and_falling_pairs(values):
    x = np.random.default_rng(values).integers(0, values, 60).astype(float)
    score, variance = kendall_score(x)
    assert score == _score_by_pairs(x)
    assert (variance > 0) == (values > 1)


def test_ties_narrow_the_variance_of_the_kendall_score():
    # Kendall 1975, eq. 4.4, for 5 values with ties of 2 and 3.
    score, variance = kendall_score(np.array([1.0, 1.0, 2.0, 2.0, 2.0]))
    assert score == 6
    assert variance == (5 * 4 * 15 - 2 * 1 * 9 - 3 * 2 * 11) / 18
