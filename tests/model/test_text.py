"""Words that every part of the program may use."""

import pytest

from stabdiag.model.text import every, num, plural, sigmas, times, typed


def test_counts_agree_with_their_nouns():
    assert [plural(count, "step") for count in (0, 1, "0.5")] == ["0 steps", "1 step", "0.5 steps"]
    assert plural("1", "step") == "1 step"
    assert plural(2, "finite loss", "finite losses") == "2 finite losses"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (18312.4, "18312"),
        (9_999_999.5, "10000000"),
        (2.5e7, "2.5e+07"),
        (2.466e-05, "2.466e-05"),
        (0.30000000004, "0.3"),
        (-12345.6, "-12346"),
        (2.0**20, "1048576"),
        (0.0, "0"),
        (-2.0, "-2"),
        (float("nan"), "NaN"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_are_plain_where_that_is_short(value, text):
    assert num(value) == text


def test_a_decrease_is_reported_in_percent():
    assert [times(ratio) for ratio in (13.194, 1.0, 0.1721, 0.02676)] == [
        "13.19 x",
        "1 x",
        "17%",
        "2.7%",
    ]


def test_deviations_that_mean_nothing_any_more_are_not_counted():
    assert [sigmas(score) for score in (10.25, 127_511.0)] == ["10.25σ", "far beyond all noise"]


def test_an_interval_of_one_reads_every_step():
    assert [every(count, "step") for count in (1, 1.0, 2, 0.5)] == [
        *("every step", "every step", "every 2 steps", "every 0.5 steps")
    ]
    assert every("20", "epoch") == "every 20 epochs"


@pytest.mark.parametrize(
    ("value", "set_to"),
    [
        (0.004256, 0.0043),
        (0.0079997, 0.008),
        (0.0001, 0.0001),
        (3e-05, 3e-05),
        (123.0, 120.0),
        (0, 0),
    ],
)
def test_suggested_values_have_two_digits(value, set_to):
    assert typed(value) == set_to
