"""The comparisons of the trained pairs, cached."""

import json
from functools import cache

import stabdiag
from tests.conftest import ROOT

PAIRS = ROOT / "fixtures" / "pairs"
NAMES = sorted(folder.name for folder in PAIRS.iterdir())


@cache
def about(pair):
    """Return the description of a pair."""
    return json.loads((PAIRS / pair / "about.json").read_text(encoding="utf-8"))


def logs(pair):
    """Return the logs of a pair."""
    files = sorted(path for path in (PAIRS / pair).rglob("*") if path.is_file())
    return [path for path in files if not path.name.endswith(("manifest.json", "about.json"))]


@cache
def compared(pair):
    """Compare the logs of a pair, or the folder of ranks."""
    is_job = about(pair)["kind"] == "ranks"
    return stabdiag.compare([PAIRS / pair] if is_job else logs(pair))
