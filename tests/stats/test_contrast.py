"""Exact tests of many splits, compared with sums over all tables."""

from math import comb

import numpy as np
import pytest

from stabdiag.stats.contrast import chance_in_strata, split_chance, upper_tail


def tail(hits, size, total_hits, total):
    tables = (
        comb(total_hits, k) * comb(total - total_hits, size - k) for k in range(hits, size + 1)
    )
    return sum(tables) / comb(total, size)


@pytest.mark.parametrize(
    ("hits", "size", "total_hits", "total"),
    [(16, 20, 20, 100), (3, 3, 3, 20), (5, 6, 5, 20), (6, 6, 9, 10), (40, 50, 60, 300)],
)
def test_the_tail_is_that_of_all_tables(hits, size, total_hits, total):
    result = upper_tail(np.array([hits]), np.array([size]), total_hits, total)
    assert result == pytest.approx([tail(hits, size, total_hits, total)])


def test_expected_counts_are_not_a_contrast():
    assert upper_tail(np.array([0, 2]), np.array([5, 5]), 4, 10).tolist() == [1.0, 1.0]
    # For counts this large, the tail is not summed to its end.
    tails_of_many = upper_tail(
        np.array([5_000, 10_000]), np.array([30_000, 30_000]), 20_000, 60_000
    )
    assert tails_of_many.tolist() == [1.0, 1.0]


def test_a_tail_of_very_many_is_small_where_it_ought_to_be():
    (above,) = upper_tail(np.array([10_500]), np.array([30_000]), 20_000, 60_000)
    assert 0 < above < 1e-15


def test_the_chance_of_any_split_counts_possible_results():
    sizes, total_hits, total = [3, 5, 5, 8], 6, 20
    for p in (1e-4, 0.01, 0.1):
        shown = (
            [tail(hits, size, total_hits, total) for hits in range(total_hits + 1)]
            for size in sizes
        )
        expected = sum(max((t for t in tails if t <= p * 1.000001), default=0.0) for tails in shown)
        result = split_chance(np.array([p]), np.array(sizes), total_hits, total)
        assert result == pytest.approx([expected])


def test_a_split_that_can_show_nothing_so_small_costs_nothing():
    alone = split_chance(np.array([1e-3]), np.array([10]), 5, 20)
    assert split_chance(np.array([1e-3]), np.array([10, 1, 1, 2]), 5, 20) == alone


def test_contrasts_explained_by_a_stratum_are_chance():
    rng = np.random.default_rng(3)
    cause = np.arange(400) < 100
    has = np.where(cause, rng.random(400) < 0.8, rng.random(400) < 0.05)
    follows = cause ^ (rng.random(400) < 0.1)
    nothing = np.zeros(400, dtype=np.int64)
    assert chance_in_strata(follows, has, nothing) < 1e-12
    assert chance_in_strata(follows, has, cause.astype(np.int64)) > 0.01
    assert chance_in_strata(cause, has, cause.astype(np.int64)) == 1.0
    assert chance_in_strata(cause[:0], has[:0], nothing[:0]) == 1.0
