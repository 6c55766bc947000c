"""The course of a series: its level at the start, at the end and over equal parts."""

import numpy as np
import pytest

from stabdiag.stats.course import (
    change_of_halves,
    early_high,
    end_level,
    evaluation_level,
    flat_part,
    highest_level,
    keeps_growing,
    late_spread,
    level_before,
    level_error,
    lowest_level,
    measure_course,
    moving_medians,
    outer_levels,
    position_after,
    present_level,
    settled,
    start_level,
    usual_change,
    usual_mean,
)
from stabdiag.stats.quantiles import diff_sigma


def test_single_outliers_change_no_level():
    x = np.linspace(10.0, 1.0, 1000)
    spiked = x.copy()
    spiked[[1, 400, 950, 998]] = 1e6
    assert start_level(spiked) == pytest.approx(start_level(x), abs=0.02)
    assert end_level(spiked) == pytest.approx(end_level(x), abs=0.02)
    assert present_level(spiked) == pytest.approx(present_level(x), abs=0.02)
    assert outer_levels(spiked) == pytest.approx(outer_levels(x), abs=0.02)
    assert highest_level(spiked) == pytest.approx(highest_level(x), abs=0.02)
    assert lowest_level(spiked) == pytest.approx(lowest_level(x), abs=0.02)


def test_a_change_just_before_the_end_shows_in_the_present_level_alone():
    x = np.append(np.ones(990), np.full(10, 9.0))
    assert present_level(x) == evaluation_level(x) == 9.0
    assert end_level(x) == 1.0


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_a_few_values_have_every_level(count):
    x = np.arange(count, dtype=float)
    assert end_level(x) == x[-1]
    assert start_level(x) == np.median(x[:3])
    assert evaluation_level(x) == np.median(x[-3:])


@pytest.mark.parametrize("count", [7, 20, 39, 1013])
def test_the_parts_of_a_course_cover_the_end(count):
    x = np.random.default_rng(count).normal(size=count)
    course = measure_course(x)
    assert len(course) == min(count, 20)
    assert course.ends[-1] == count - 1
    assert course.starts[0] == course.first == count - len(course) * course.size
    assert (np.diff(course.starts) == course.size).all()
    for part in range(len(course)):
        values = x[course.span(part, part)]
        assert (values == course.rows(x)[part]).all()
        assert course.levels[part] == np.median(values)
        assert course.starts[part] <= course.middles[part] <= course.ends[part]


def test_the_error_of_a_level_is_the_spread_of_medians():
    noise = np.random.default_rng(0).normal(size=(4000, 51))
    before, after = np.median(noise[:, :26], axis=1), np.median(noise[:, 26:], axis=1)
    assert level_error(1.0, 26) == pytest.approx(before.std(), rel=0.06)
    assert level_error(1.0, 26, 25) == pytest.approx((after - before).std(), rel=0.06)


def test_a_change_of_halves_is_beyond_the_noise_and_not_negligible():
    noise = np.random.default_rng(1).normal(size=(2000, 40))
    assert np.mean([change_of_halves(row, 0.0) != 0 for row in noise]) < 0.02
    step = np.repeat([1.0, 3.0], 20)
    assert change_of_halves(step, 1.9) == 2.0
    assert change_of_halves(-step, 1.9) == -2.0
    assert change_of_halves(step, 2.1) == 0.0
    assert change_of_halves(step + 10 * noise[0], 0.0) == 0.0


def test_slow_variation_counts_as_spread():
    x = np.sin(np.linspace(0, 40, 2000))
    assert late_spread(x, diff_sigma(x)) > 0.5
    assert late_spread(np.ones(100), 0.0) == 0.0


@pytest.mark.parametrize(
    ("tenths", "grows"),
    [
        (np.arange(10.0), True),
        (np.arange(10.0) ** 2, True),
        (1 - 0.5 ** np.arange(10.0), False),  # it settles
        (np.append(np.ones(7), np.full(3, 2.0)), False),  # it jumped
        (-np.arange(10.0), False),
        (np.ones(10), True),
    ],
)
def test_growth_that_slows_down_does_not_count(tenths, grows):
    assert keeps_growing(tenths) is grows


def test_a_single_high_value_is_not_an_early_high():
    x = np.array([1.0, 1.0, 9.0, 1.0, 3.0, 4.0, 5.0, 1.0])
    assert early_high(x, 7) == (3.0, 4)
    assert early_high(x, 4) == (1.0, 1)


def test_moving_medians_drop_single_values():
    assert moving_medians(np.array([1.0, 9.0, 1.0, 2.0, 2.0])).tolist() == [1.0, 2.0, 2.0]


def test_the_position_after_the_last_one():
    assert position_after(np.array([True, False, True, False])) == 3
    assert position_after(np.zeros(3, bool)) == 0
    assert position_after(np.ones(3, bool)) == 3


def test_the_first_tenth_is_not_settled():
    assert np.arange(25)[settled(25)].tolist() == list(range(2, 25))
    assert np.arange(5)[settled(5)].tolist() == list(range(5))


def test_the_level_before_a_position_uses_only_values_before_it():
    x = np.array([1.0, 2.0, 3.0, 100.0, 100.0])
    assert level_before(x, 3, 5) == 2.0
    assert level_before(x, 3, 1) == 3.0
    assert usual_change(np.array([1.0, 2.0, 4.0, 5.0])) == 1.0


def test_a_series_is_flat_from_its_last_clear_fall():
    levels = np.array([10.0, 6.0, 3.0, 2.2, 2.1, 2.0])
    assert flat_part(levels, 8.0) == 3
    assert flat_part(np.ones(5), 0.0) == 0


def test_outliers_do_not_count_in_the_usual_mean():
    x = np.array([1.0, 2.0, 3.0, 500.0])
    assert usual_mean(x, 30.0) == 2.0
    assert usual_mean(x, 1000.0) == 126.5
    assert usual_mean(np.zeros(3), 30.0) == 0.0
