"""Jumps of a level between one stretch and the next."""

import numpy as np
import pytest

from stabdiag.stats.levels import jump_up, level_jump

BEFORE = 2.0 + np.random.default_rng(0).normal(0, 0.1, 400)
AFTER = 2.0 + np.random.default_rng(1).normal(0, 0.1, 10)


@pytest.mark.parametrize(("rise", "jumped"), [(0.0, False), (-1.0, False), (1.0, True)])
def test_a_jump_is_a_rise_beyond_the_noise(rise, jumped):
    result = level_jump(BEFORE, AFTER + rise, 10)
    assert result.exceeds(6.0, 0.0) is jumped
    assert result.new - result.old == pytest.approx(rise, abs=0.15)
    assert not result.exceeds(6.0, floor=2.0)


def test_too_few_points_are_unknown():
    assert level_jump(BEFORE[:39], AFTER, 10) is None
    assert level_jump(BEFORE, AFTER[:9], 10) is None


@pytest.mark.parametrize(("restless_until", "jumped"), [(500, True), (700, False)])
def test_a_jump_is_compared_with_the_recent_level(restless_until, jumped):
    old = 2.0 + np.random.default_rng(0).normal(0, 0.01, 1000)
    old[:restless_until] += np.arange(restless_until) // 10 % 2
    new = np.full(10, old[-10:].mean() + 1.5)
    assert (jump_up(old, new, 10, sigmas=6.0, min_range_share=0.1) is not None) is jumped
