"""How numbers are written on a page, and what they are called."""

import pytest

from stabdiag.formats.measured import in_words, number


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
def test_no_number_pretends_to_more_than_it_is(name, measured, told):
    assert in_words(name, measured) == told


def test_numbers_are_as_short_as_they_can_be():
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


def test_lists_are_written_by_their_first_values():
    assert number((100, 200)) == "100, 200"
    assert number(tuple(range(0, 1000, 100))) == "0, 100, 200, 300, 400, 500, 600, 700 and 2 more"
    assert number(()) == "none"
    assert number((0.1234567, None, "a")) == "0.1235, none, a"
