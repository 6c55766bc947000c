"""The levels of a series, and the digits that it was printed with."""

import numpy as np
import pytest

from stabdiag.stats.levels import last_digit


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([0.0, 0.0001, 0.0003], 1e-4),
        ([2.31, 1.9, 1.87], 0.01),
        ([4.0, 3.0, 2.0], 1.0),
        (list(np.random.default_rng(0).standard_normal(50)), 0.0),
        ([1 / 3, 2 / 3], 0.0),
    ],
)
def test_the_last_digit_is_the_one_that_was_printed(values, unit):
    assert last_digit(np.array(values)) == pytest.approx(unit)
