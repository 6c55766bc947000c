"""The comparisons of the trained pairs, each made once."""

import json
from functools import cache
from pathlib import Path

import pytest

import stabdiag

FOLDER = Path(__file__).parents[2] / "fixtures" / "pairs"


@cache
def made(pair):
    """Compare the logs of a pair, of ranks by their folder."""
    folder = FOLDER / pair
    if json.loads((folder / "about.json").read_text(encoding="utf-8"))["kind"] == "ranks":
        return stabdiag.compare([folder])
    logs = (path for path in sorted(folder.iterdir()) if path.suffix != ".json")
    return stabdiag.compare(list(logs))


@pytest.fixture(scope="session")
def compared():
    """Return the function that compares a pair of the fixtures."""
    return made
