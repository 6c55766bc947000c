"""Where two series part, against cases that are known by hand."""

import numpy as np
import pytest

from stabdiag.stats.divergence_points import find_divergence_points, lasting, local_noise, wander


def find_divergence(x, y, *, coarse=True, points=10):
    return find_divergence_points(
        np.asarray(x, float),
        np.asarray(y, float),
        rounding=1e-5,
        sigmas=1.0,
        points=points,
        coarse=coarse,
    )


def noisy(n=1000, seed=0):
    return 3.0 + np.random.default_rng(seed).normal(0, 0.1, n)


@np.errstate(all="ignore")  # as all that calls it has
def test_equal_series_do_not_part():
    x = noisy()
    x[[3, 7]] = np.nan, np.inf
    assert find_divergence(x, x.copy()) is None


def test_rounding_noise_and_divergence_are_distinguished():
    x = noisy()
    gap = np.zeros(1000)
    gap[100:], gap[300:], gap[600:] = 1e-6, 1e-3, 1.0
    result = find_divergence(x, x + gap)
    assert (result.first, result.unrounded, result.lasting) == (100, 300, 600)
    assert result.largest >= 600
    assert result.noise == pytest.approx(0.1, rel=0.3)


def test_the_last_digit_that_was_written_is_rounding():
    x = np.round(noisy(), 3)
    y = x.copy()
    y[10] += 0.001
    assert find_divergence(x, np.round(y, 3)).unrounded is None
    assert find_divergence(x, np.round(y, 3), coarse=False).unrounded == 10
    y[20] += 0.002
    assert find_divergence(x, np.round(y, 3)).unrounded == 20


def test_bfloat16_is_coarse():
    bits = noisy(200).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    x = bits.view(np.float32).astype(float)
    y = x.copy()
    y[50] *= 1 + 2.0**-8
    assert find_divergence(x, y).unrounded is None
    y[60] *= 1.05
    assert find_divergence(x, y).unrounded == 60


def test_noise_is_independent_of_slope_and_spikes():
    x = noisy(2000) + np.linspace(0, 50, 2000)
    x[::97] += 30
    assert np.median(local_noise(x)) == pytest.approx(0.1, rel=0.1)


def test_a_mean_varies_by_its_error_and_a_smoothed_series_by_more():
    noise = np.random.default_rng(6).normal(0, 1, 20_000)
    assert wander(noise, 100) == pytest.approx(0.1, rel=0.15)
    smooth = np.convolve(noise, 0.05 * 0.95 ** np.arange(200))[:20_000]
    assert wander(smooth, 20) > 5 * np.median(local_noise(smooth)) / np.sqrt(20)
    jump = noise + np.where(np.arange(20_000) > 9_000, 50.0, 0.0)
    assert wander(jump, 100) == pytest.approx(wander(noise, 100), rel=0.1)
    assert wander(noise[:250], 100) == 0


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_points_have_no_noise(n):
    assert np.array_equal(local_noise(np.ones(n)), np.zeros(n))


def test_noise_ignores_non_finite_values():
    x = noisy(500)
    x[100:200] = np.nan
    assert np.isfinite(local_noise(x)).all()
    assert np.array_equal(local_noise(np.full(9, np.nan)), np.zeros(9))


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("...........", None),
        ("..#........", None),
        ("..#.#.#.#.#", 2),
        ("..........#", None),
        ("........###", 8),
        (".........##", None),
        ("###########", 0),
    ],
)
def test_a_lasting_difference_is_dated(marks, expected):
    assert lasting(np.array([mark == "#" for mark in marks]), 8) == expected
