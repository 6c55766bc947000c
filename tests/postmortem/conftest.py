"""Runs to write post-mortems of."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import stabdiag

RUNS = Path("fixtures") / "runs"
ROOT = Path(__file__).parents[2]


@cache
def _diagnosed(run):
    (log,) = RUNS.joinpath(run).glob("log.*")
    return stabdiag.diagnose(log)


@pytest.fixture
def diagnosed(monkeypatch):
    """Return a function that diagnoses a fixture, named as from the top of the repository."""
    monkeypatch.chdir(ROOT)
    return _diagnosed


@pytest.fixture
def broken():
    """Return a function that diagnoses 600 steps of which the last 100 are NaN."""
    return make_broken


def make_broken(more=None, columns=None, **settings):
    """Diagnose a loss that is NaN from step 500 on, with other columns and a manifest."""
    steps = np.arange(600)
    loss = 2.0 + 3.0 * np.exp(-steps / 80) + np.random.default_rng(4).normal(0, 0.05, 600)
    loss[500:] = np.nan
    logged = {"step": steps, "loss": loss, **(more or {})}
    manifest = {"dtype": "fp32", "checkpoint_every": 200, **settings}
    return stabdiag.diagnose(logged, manifest=manifest, columns=columns)
