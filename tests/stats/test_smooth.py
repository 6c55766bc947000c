"""Where a smooth series turned, and slow waves as against noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.stats.smooth import count_waves, turning_point


def bent(at, place, slow=0.0, fast=0.005):
    return slow * at + fast * np.maximum(at - place, 0.0)


@given(
    place=st.floats(300.0, 1200.0),
    every=st.sampled_from([1, 2, 10, 20]),
    slow=st.floats(-0.001, 0.002),
    shift=st.floats(-1e3, 1e3),
    scale=st.floats(1e-3, 1e3),
)
def test_a_bend_is_found_between_its_points(place, every, slow, shift, scale):
    at = np.arange(0.0, 1500.0, every)
    result = turning_point(at, shift + scale * bent(at, place, slow), 200.0)
    assert abs(result - place) <= every / 2 + 1e-3


@pytest.mark.parametrize("every", [1, 10])
def test_noise_moves_it_little(every):
    rng = np.random.default_rng(0)
    at = np.arange(0.0, 1500.0, every)
    for _ in range(50):
        place = rng.uniform(300, 1200)
        x = bent(at, place, 0.0003) + 0.002 * rng.standard_normal(len(at))
        result = turning_point(at, x, 200.0)
        assert abs(result - place) <= 20


@pytest.mark.parametrize(
    "x",
    [
        np.linspace(0.0, 5.0, 100),
        np.exp(-np.arange(100) / 30),
        np.zeros(100),
        np.arange(2.0),
        np.arange(4.0) ** 2,
        np.zeros(1),
    ],
    ids=["fast all along", "falling", "still", "two points", "four points", "one point"],
)
def test_a_monotone_curve_has_no_turn(x):
    assert turning_point(10.0 * np.arange(len(x)), x, 200.0) is None


AT = np.arange(200)
CYCLES = -np.cos(2 * np.pi * AT / 50)


@pytest.mark.parametrize(
    ("x", "waves"),
    [(CYCLES, 4), (CYCLES[:70], 1), (0.4 * CYCLES, 0), (AT / 10, 0), (-AT / 10, 0)],
    ids=["four", "one", "too low", "a climb", "a fall"],
)
def test_waves_are_counted_that_come_down_again(x, waves):
    assert count_waves(x, 1.0) == waves


def test_noise_has_no_waves():
    for seed in range(50):
        assert count_waves(np.random.default_rng(seed).normal(0, 1, 200), 1.0) == 0
