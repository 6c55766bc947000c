"""The format and the labels of numbers."""

import pytest

from stabdiag.formats.measured import in_words, number


@pytest.mark.parametrize(
    ("name", "measured", "expected"),
    [
        ("p_value", 0.0, "below 1e-12"),
        ("recent_p_value", 3e-15, "below 1e-12"),
        ("p_value", 0.014859, "0.01486"),
        ("rise", 0.0, "0"),
        ("checkpoint", None, "unknown"),
    ],
)
def test_tiny_probabilities_and_unknown_values_are_words(name, measured, expected):
    assert in_words(name, measured) == expected


def test_numbers_are_short():
    expected = {
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
    assert {number(value): value for value in expected.values()}.keys() == expected.keys()


def test_lists_show_their_first_values():
    assert number((100, 200)) == "100, 200"
    assert number(tuple(range(0, 1000, 100))) == "0, 100, 200, 300, 400, 500, 600, 700 and 2 more"
    assert number(()) == "none"
    assert number((0.1234567, None, "a")) == "0.1235, none, a"
