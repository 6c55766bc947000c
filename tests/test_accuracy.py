"""The diagnoses of labelled training runs, as a whole: what a change must not make worse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def score() -> dict[str, float]:
    """The shares, in per cent, that the benchmark prints for the part to develop on."""
    command = [sys.executable, "benchmarks/accuracy/score.py", "--split", "dev"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = re.findall(r"^(\S.*?)\s{2,}([\d.]+) %", result.stdout, re.MULTILINE)
    return {name: float(share) for name, share in lines}


@pytest.mark.parametrize(
    ("what", "least"),
    [
        ("right leaf", 87.0),
        ("right section", 88.0),
        ("recovered or not, of the spikes", 75.0),
        ("onset within 5 points, right leaf, §1", 99.0),
        ("onset within 5 points, right leaf, §2", 95.0),
    ],
)
def test_diagnoses_are_right_as_often_as_they_were(
    score: dict[str, float], what: str, least: float
) -> None:
    assert score[what] >= least


@pytest.mark.parametrize(
    ("what", "most"), [("healthy: an error", 3.0), ("healthy: a warning", 6.5)]
)
def test_healthy_runs_are_left_in_peace(score: dict[str, float], what: str, most: float) -> None:
    assert score[what] <= most
