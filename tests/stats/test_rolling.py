"""Rolling statistics against a loop that takes every window by itself."""

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.stats.rolling import trailing_median, trailing_moments

ordinary = st.floats(-1e6, 1e6)
outliers = st.sampled_from([1e18, -1e18, 1e30, 0.0, 1e-300])
points = st.lists(ordinary | outliers, min_size=0, max_size=90).map(np.array)


def naive(x, window):
    mean, deviation = np.full(len(x), np.nan), np.full(len(x), np.nan)
    for at in range(window, len(x)):
        mean[at], deviation[at] = x[at - window : at].mean(), x[at - window : at].std()
    return mean, deviation


def assert_moments_of_a_loop(x, window):
    mean, deviation = trailing_moments(x, window)
    expected_mean, expected_deviation = naive(x, window)
    # No window can be better than the rounding of its own largest value.
    size = np.array([np.abs(x[max(i - window, 0) : i]).max(initial=0.0) for i in range(len(x))])
    assert np.array_equal(np.isnan(mean), np.arange(len(x)) < window)
    assert np.array_equal(np.isnan(deviation), np.isnan(mean))
    is_known = ~np.isnan(mean)
    assert (np.abs(mean - expected_mean) <= 1e-12 * size + 1e-300)[is_known].all()
    assert (np.abs(deviation - expected_deviation) <= 1e-6 * size + 1e-300)[is_known].all()


@given(points, st.integers(2, 40))
def test_moments_are_those_of_a_loop(x, window):
    assert_moments_of_a_loop(x.astype(np.float64), window)


@pytest.mark.parametrize("level", [1e9, 1e12, -1e9])
def test_a_small_deviation_far_from_zero_does_not_cancel(level):
    noise = np.round(np.random.default_rng(1).standard_normal(3000) * 1024) / 1024
    _, deviation = trailing_moments(level + noise, 100)
    _, expected = naive(noise, 100)
    assert np.allclose(deviation[100:], expected[100:], rtol=1e-4)


@pytest.mark.parametrize("level", [0.0, 0.1, 1e18, -3.3e-300])
def test_a_constant_has_no_deviation(level):
    mean, deviation = trailing_moments(np.full(300, level), 100)
    assert np.all(mean[100:] == level)
    assert np.all(deviation[100:] == 0.0)


@given(points, st.integers(1, 40))
def test_medians_are_those_of_a_loop(x, window):
    x = x.astype(np.float64)
    out = trailing_median(x, window)
    assert len(out) == len(x)
    assert np.isnan(out[:1]).all()
    for at in range(1, len(x)):
        assert out[at] == pytest.approx(median(x[max(at - window, 0) : at].tolist()), rel=1e-12)


@pytest.mark.parametrize("hop", [2, 3, 7, 100])
def test_with_a_hop_the_last_median_is_kept(hop):
    x = np.random.default_rng(2).standard_normal(200)
    every, some = trailing_median(x, 20), trailing_median(x, 20, hop)
    np.testing.assert_array_equal(some[1:20], every[1:20])
    for at in range(20, 200):
        assert some[at] == every[20 + (at - 20) // hop * hop]
