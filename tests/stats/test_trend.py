"""Mann-Kendall: quiet on noise, sure of a rise."""

import numpy as np
import pytest

from stabdiag.stats.trend import block_means, mann_kendall


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
