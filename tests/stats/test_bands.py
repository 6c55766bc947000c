"""Levels on a grid of steps, the band of references, and the deviation from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.stats.bands import (
    Prior,
    bin_levels,
    bin_start,
    deviation_bar,
    levels_of_rows,
    make_band,
    measure_deviation,
    step_bins,
)

LOSS = Prior(level=0.01, shift=0.06)


def levels(loss, stride=1):
    steps = np.arange(stride, len(loss) * stride + 1, stride)
    return bin_levels(steps, np.asarray(loss, float), int(steps[-1]))


def good(seed, size=400):
    rng = np.random.default_rng(seed)
    step = np.arange(1, size + 1)
    return (0.5 + 2.5 / (1 + step / 20)) * np.exp(0.02 * rng.standard_normal(size))


@given(st.integers(1, 1 << 40))
def test_every_step_is_in_its_bin(step):
    (number,) = step_bins(np.array([step]))
    assert bin_start(number) <= step < bin_start(number + 1)


def test_a_power_of_two_starts_a_bin():
    powers = 2 ** np.arange(40)
    assert step_bins(powers).tolist() == list(range(0, 320, 8))
    assert step_bins(np.array([0])) == step_bins(np.array([1]))


@given(st.integers(20, 3000), st.integers(1, 50))
def test_a_growing_log_only_adds_bins(size, added):
    loss = good(0, size + added)
    before, after = levels(loss[:size]), levels(loss)
    kept = len(before)
    assert after.bins[:kept].tolist() == before.bins.tolist()
    # The last bin may still have been filling up.
    assert after.log_mean[: kept - 1] == pytest.approx(before.log_mean[: kept - 1])


def test_the_last_bin_counts_once_half_of_it_was_seen():
    first, end = bin_start(64), bin_start(65)
    steps = np.arange(1, end)
    half = (first + end) // 2
    for last, counts in ((half - 2, False), (half, True)):
        result = bin_levels(steps[:last], np.ones(last), last)
        assert (result.bins[-1] == 64) == counts


def test_values_that_are_not_finite_are_left_out():
    loss = good(1)
    loss[[5, 100, 399]] = np.nan, np.inf, -np.inf
    result = levels(loss)
    assert np.isfinite(result.log_mean).all()
    assert result.count.sum() == (~np.isnan(loss) & np.isfinite(loss)).sum() - _after(result)


def _after(result):
    """Return the number of finite values in the last bin, which is less than half complete."""
    return 400 - bin_start(int(result.bins[-1]) + 1) + 1 - 1


def test_noise_is_that_of_single_values():
    rng = np.random.default_rng(2)
    result = levels(1 + 0.05 * rng.standard_normal(20_000))
    assert result.noise[-1] == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("references", [1, 2, 3, 5, 10])
def test_a_good_run_is_inside_the_band(references):
    band = make_band([levels(good(seed)) for seed in range(references)], LOSS)
    assert measure_deviation(levels(good(99)), band).peak < deviation_bar(references)


@pytest.mark.parametrize("references", [2, 3, 5, 10])
def test_a_run_that_ends_higher_is_outside_the_band(references):
    loss = good(99)
    loss[200:] *= 1.5
    band = make_band([levels(good(seed)) for seed in range(references)], LOSS)
    deviation = measure_deviation(levels(loss), band)
    outside = deviation.outside(deviation_bar(references))
    assert outside[-1]
    assert 190 <= bin_start(int(deviation.bins[np.argmax(outside)])) <= 215


def test_a_single_bin_is_not_outside():
    loss = good(99)
    loss[bin_start(60) - 1 : bin_start(61) - 1] *= 3
    band = make_band([levels(good(seed)) for seed in range(5)], LOSS)
    assert measure_deviation(levels(loss), band).peak < deviation_bar(5)


def test_two_bins_of_different_sign_are_not_outside():
    loss = good(99)
    loss[bin_start(60) - 1 : bin_start(61) - 1] *= 3
    loss[bin_start(61) - 1 : bin_start(62) - 1] /= 3
    band = make_band([levels(good(seed)) for seed in range(5)], LOSS)
    assert not measure_deviation(levels(loss), band).outside(deviation_bar(5)).any()


@given(st.permutations(range(5)))
def test_the_order_of_the_references_does_not_matter(order):
    profiles = [levels(good(seed)) for seed in range(5)]
    band, other = make_band(profiles, LOSS), make_band([profiles[i] for i in order], LOSS)
    assert other.variance == pytest.approx(band.variance)
    assert other.center == pytest.approx(band.center)


@given(st.floats(1e-6, 1e6))
def test_the_unit_of_the_loss_does_not_matter(unit):
    band = make_band([levels(unit * good(seed)) for seed in range(3)], LOSS)
    deviation = measure_deviation(levels(unit * good(9)), band)
    same = measure_deviation(levels(good(9)), make_band([levels(good(s)) for s in range(3)], LOSS))
    assert deviation.values == pytest.approx(same.values, abs=1e-6)


@given(st.integers(1, 20))
def test_any_stride_fits(stride):
    sparse = [bin_levels(*_every(stride, good(seed, 2000)), 2000) for seed in range(3)]
    run = levels(good(9, 2000))
    assert measure_deviation(run, make_band(sparse, LOSS)).peak < deviation_bar(3)


def _every(stride, loss):
    return np.arange(stride, len(loss) + 1, stride), loss[stride - 1 :: stride]


def test_losses_that_are_not_positive_compare_by_their_values():
    shifted = [levels(good(seed) - 1) for seed in range(3)]
    band = make_band(shifted, LOSS)
    assert not band.log
    assert measure_deviation(levels(good(9) - 1), band).peak < deviation_bar(3)
    assert measure_deviation(levels(good(9) + 1), band).peak > deviation_bar(3)


def test_a_run_that_is_not_positive_shares_no_bin_with_a_band_of_logarithms():
    band = make_band([levels(good(seed)) for seed in range(3)], LOSS)
    assert len(measure_deviation(levels(good(9) - 1), band).bins) == 0


def test_references_that_differ_show_it_in_the_factor():
    alike = make_band([levels(good(seed)) for seed in range(3)], LOSS)
    apart = make_band([levels(good(seed) * (1 + seed)) for seed in range(3)], LOSS)
    assert alike.factor < 2
    assert apart.factor > 12


def test_a_bin_counts_if_half_of_the_references_have_it():
    long, short = levels(good(0, 1000)), levels(good(1, 100))
    assert make_band([long, short], LOSS).bins[-1] == long.bins[-1]
    assert make_band([long, short, short], LOSS).bins[-1] == short.bins[-1]


def test_more_references_lower_the_bar():
    bars = [deviation_bar(number) for number in range(1, 40)]
    assert bars == sorted(bars, reverse=True)
    assert bars[-1] == 3.0


@pytest.mark.parametrize("last", [300, 301, 340])
def test_series_with_the_same_steps_have_the_levels_of_each(last):
    steps = np.arange(0, 300, 3)
    rows = np.random.default_rng(5).standard_normal((4, len(steps)))
    rows[1:3] = np.exp(rows[1:3])
    for together, values in zip(levels_of_rows(steps, rows, last), rows, strict=True):
        alone = bin_levels(steps, values, last)
        for name in ("bins", "count", "mean", "noise", "log_mean", "log_noise"):
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
