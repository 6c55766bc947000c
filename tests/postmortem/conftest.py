"""Runs to write post-mortems of."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import stabdiag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from stabdiag.model.report import Report

RUNS = Path("fixtures") / "runs"
ROOT = Path(__file__).parents[2]


@cache
def _diagnosed(run: str) -> Report:
    (log,) = RUNS.joinpath(run).glob("log.*")
    return stabdiag.diagnose(log)


@pytest.fixture
def diagnosed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Report]:
    """Return a function that diagnoses a fixture, named as from the top of the repository."""
    monkeypatch.chdir(ROOT)
    return _diagnosed


@pytest.fixture
def broken() -> Callable[..., Report]:
    """Return a function that diagnoses 600 steps of which the last 100 are NaN."""
    return make_broken


def make_broken(
    more: Mapping[str, NDArray[np.float64]] | None = None,
    columns: Mapping[str, str] | None = None,
    **settings: object,
) -> Report:
    """Diagnose a loss that is NaN from step 500 on, with other columns and a manifest."""
    steps = np.arange(600)
    loss = 2.0 + 3.0 * np.exp(-steps / 80) + np.random.default_rng(4).normal(0, 0.05, 600)
    loss[500:] = np.nan
    logged = {"step": steps, "loss": loss, **(more or {})}
    manifest = {"dtype": "fp32", "checkpoint_every": 200, **settings}
    return stabdiag.diagnose(logged, manifest=manifest, columns=columns)
