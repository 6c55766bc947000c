"""How two values are told apart in words."""

from __future__ import annotations

import math

import pytest

from stabdiag.comparison.words import close


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (None, "NaN against NaN"),
        ((2.0, 3.0), "2 against 3"),
        ((2.5, math.inf), "2.5 against inf"),
        ((2.5, 2.500001), "2.5 against 2.500001"),
        ((0.1, math.nextafter(0.1, 1)), "0.1 against 0.10000000000000002"),
        ((1e16, 1e16 + 2), "1e+16 against 1.0000000000000002e+16"),
    ],
)
def test_values_have_as_many_digits_as_tell_them_apart(
    values: tuple[float, float] | None, told: str
) -> None:
    assert close(values) == told
