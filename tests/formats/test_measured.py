"""How numbers are written on a page, and what they are called."""

from __future__ import annotations

import numpy as np
import pytest

from stabdiag.formats.measured import in_words, label, number, span
from stabdiag.model.findings import Scalar


def test_a_name_that_says_enough_is_kept() -> None:
    assert [label(name) for name in ("bar", "lr_before")] == ["rise threshold", "lr before"]


def test_values_that_are_all_the_same_are_one_number() -> None:
    assert span(np.array([3e-4, 3e-4])) == "0.0003"
    assert span(np.array([2.0, 1.5])) == "1.5 to 2"


@pytest.mark.parametrize(
    ("name", "measured", "told"),
    [
        ("p_value", 0.0, "below 1e-12"),
        ("recent_p_value", 3e-15, "below 1e-12"),
        ("p_value", 0.014859, "0.01486"),
        ("rise", 0.0, "0"),
        ("checkpoint", None, "unknown"),
    ],
)
def test_no_number_pretends_to_more_than_it_is(name: str, measured: Scalar, told: str) -> None:
    assert in_words(name, measured) == told


def test_numbers_are_as_short_as_they_can_be() -> None:
    told = {
        "3": 3.0,
        "65536": 65536.0,
        "0.1235": 0.123456,
        "123457": 123456.7,
        "1e-07": 1e-7,
        "3.2e+38": 3.2e38,
        "NaN": float("nan"),
        "inf": float("inf"),
        "none": None,
        "yes": True,
        "word": "word",
    }
    assert {number(value): value for value in told.values()}.keys() == told.keys()
