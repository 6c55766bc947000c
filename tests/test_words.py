"""Words that every part of the program may use."""

from __future__ import annotations

import pytest

from stabdiag.words import plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), ("0.5", "0.5 steps")]
)
def test_plurals(count: int | str, text: str) -> None:
    assert plural(count, "step") == text


def test_a_count_that_is_written_already() -> None:
    assert plural("1", "step") == "1 step"


def test_irregular_plurals() -> None:
    assert plural(2, "finite loss", "finite losses") == "2 finite losses"
