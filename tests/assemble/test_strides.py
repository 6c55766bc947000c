"""The gaps between the steps of a run."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.assemble.order import Median


@given(st.lists(st.lists(st.integers(-50, 50))))
def test_the_median_of_numbers_that_come_bit_by_bit(parts):
    median = Median()
    for part in parts:
        median.add(np.array(part, dtype=np.int64))
    together = [value for part in parts for value in part]
    assert median.value == (float(np.median(together)) if together else None)
