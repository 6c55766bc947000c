"""Words that every part of the program may use."""

from __future__ import annotations

import pytest

from stabdiag.model.text import every, in_epochs, num, plural, sigmas, times


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), ("0.5", "0.5 steps")]
)
def test_plurals(count: int | str, text: str) -> None:
    assert plural(count, "step") == text


def test_a_count_that_is_written_already() -> None:
    assert plural("1", "step") == "1 step"


def test_irregular_plurals() -> None:
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
def test_numbers_are_plain_where_that_is_short(value: float, text: str) -> None:
    assert num(value) == text


def test_what_became_smaller_is_told_in_per_cent() -> None:
    assert [times(ratio) for ratio in (13.194, 1.0, 0.1721, 0.02676)] == [
        "13.19 x",
        "1 x",
        "17%",
        "2.7%",
    ]


def test_deviations_that_mean_nothing_any_more_are_not_counted() -> None:
    assert [sigmas(score) for score in (10.25, 127_511.0)] == ["10.25σ", "far beyond all noise"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Steps 3 to 9, and step 12: 1 step later", "Epochs 3 to 9, and epoch 12: 1 epoch later"),
        ("from step -1 on", "from step -1 on"),
        ("within 10 steps of step 4", "within 10 epochs of epoch 4"),
        ("a probe every 2000 steps", "a probe every 2000 steps"),
        ("spiked 9 times, every 15 steps", "spiked 9 times, every 15 epochs"),
        ("one is written every step", "one is written every epoch"),
        ("step one batch forward; every step", "step one batch forward; every step"),
        ("misstep 3, 4 stepped", "misstep 3, 4 stepped"),
    ],
)
def test_texts_about_epochs_say_so(text: str, told: str) -> None:
    assert in_epochs(text) == told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (1, "every step"),
        (1.0, "every step"),
        (2, "every 2 steps"),
        ("20", "every 20 steps"),
        (0.5, "every 0.5 steps"),
    ],
)
def test_what_comes_at_each_step_comes_every_step(steps: float | str, told: str) -> None:
    assert every(steps) == told
