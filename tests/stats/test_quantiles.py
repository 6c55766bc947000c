import numpy as np
import pytest

from stabdiag.stats.quantiles import median, medians, quantiles


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101, 1000, 2001, 5000])
def test_they_are_those_of_numpy(count):
    x = np.random.default_rng(count).standard_t(3, count)
    shares = [0.0, 0.01, 0.25, 0.5, 0.875, 0.99, 1.0]
    np.testing.assert_array_equal(quantiles(x, shares), np.quantile(x, shares))
    assert median(x) == np.median(x)


@pytest.mark.parametrize("width", [1, 2, 7, 10, 2001, 2500])
def test_medians_are_computed_per_row(width):
    rows = np.random.default_rng(width).integers(0, 5, (50, width)).astype(np.float64)
    np.testing.assert_array_equal(medians(rows), np.median(rows, axis=1))


def test_the_values_stay_in_their_order():
    x = np.array([3.0, 1.0, 2.0])
    assert median(x) == quantiles(x, [0.5])[0] == 2.0
    assert x.tolist() == [3.0, 1.0, 2.0]
