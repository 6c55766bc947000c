"""Slow waves as against noise."""

import numpy as np

from stabdiag.stats.smooth import count_waves

AT = np.arange(200)


def test_waves_are_counted_that_come_down_again():
    assert count_waves(-np.cos(2 * np.pi * AT / 50), 1.0) == 4
    assert count_waves(-np.cos(2 * np.pi * AT[:70] / 50), 1.0) == 1


def test_waves_that_are_too_low_are_not():
    assert count_waves(0.4 * -np.cos(2 * np.pi * AT / 50), 1.0) == 0


def test_a_climb_and_a_fall_are_no_waves():
    assert count_waves(AT / 10, 1.0) == 0
    assert count_waves(-AT / 10, 1.0) == 0


def test_noise_has_no_waves():
    for seed in range(50):
        assert count_waves(np.random.default_rng(seed).normal(0, 1, 200), 1.0) == 0
