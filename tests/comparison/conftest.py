"""The comparisons of the trained pairs, each made once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stabdiag

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.comparison import Comparison

FOLDER = Path(__file__).parents[2] / "fixtures" / "pairs"


@cache
def made(pair: str) -> Comparison:
    """Compare the logs of a pair, of ranks by their folder."""
    folder = FOLDER / pair
    if json.loads((folder / "about.json").read_text(encoding="utf-8"))["kind"] == "ranks":
        return stabdiag.compare([folder])
    logs = (path for path in sorted(folder.iterdir()) if path.suffix != ".json")
    return stabdiag.compare(list(logs))


@pytest.fixture(scope="session")
def compared() -> Callable[[str], Comparison]:
    """Return the function that compares a pair of the fixtures."""
    return made
