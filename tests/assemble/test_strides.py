"""The gaps between the steps of a run, as far as a log was gone through."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.assemble.strides import Median, Strides


@given(st.lists(st.lists(st.integers(-1000, 1000), max_size=6)))
def test_the_median_of_what_has_come_so_far(parts: list[list[int]]) -> None:
    median, so_far = Median(), list[int]()
    for part in parts:
        so_far += part
        median.add(np.array(part, dtype=np.int64))
        assert median.value == (float(np.median(so_far)) if so_far else None)


@given(st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=6), min_size=1))
def test_a_run_in_parts_has_the_gaps_of_the_whole(parts: list[list[int]]) -> None:
    whole, in_parts = Strides(), Strides()
    whole.add(np.array([step for part in parts for step in part], dtype=np.int64))
    for part in parts:
        in_parts.add(np.array(part, dtype=np.int64))
    assert in_parts.next_one() == whole.next_one()
    for new in ([1, 2, 3], [0, 50, 100], [5]):
        steps = np.array(new, dtype=np.int64)
        assert in_parts.other_than(steps) == whole.other_than(steps)
