"""The period of a series."""

import numpy as np
import pytest

from stabdiag.stats.period import find_period

COURSE = np.repeat([0.1, -1.5, 1, 0.5, -1, 1.2, -0.3, 0.8, -0.9, 0.6], 8)


def repeated(length, noise, seed=0):
    at = np.arange(length)
    x = COURSE[at % len(COURSE)] + np.random.default_rng(seed).normal(0, noise, length)
    return 5 * np.exp(-at / 200) + x


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.7])
def test_the_course_of_noisy_periods_is_found_on_a_descent(noise):
    assert find_period(repeated(960, noise), 30) == 80


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_does_not_matter(scale):
    assert find_period(scale * repeated(960, 0.3), 30) == 80


def test_noise_a_drift_and_a_constant_have_no_period():
    rng = np.random.default_rng(0)
    assert find_period(rng.normal(0, 1, 1000), 30) is None
    assert find_period(rng.normal(0, 1, 1000).cumsum(), 30) is None
    assert find_period(np.full(1000, 2.0), 30) is None
    assert find_period(repeated(960, 5.0), 30) is None


def test_a_smooth_wave_and_too_few_periods_do_not_count():
    assert find_period(np.sin(2 * np.pi * np.arange(960) / 80), 30) is None
    assert find_period(repeated(240, 0.1), 30) is None
