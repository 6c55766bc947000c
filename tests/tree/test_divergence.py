"""§4: what convicts a climb."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.findings import Answer

    Log = dict[str, Any]


def asked(log: Log) -> Answer:
    trail = stabdiag.diagnose(log).trail
    return next(answer for answer in trail if answer.question == "Q4.1")


def test_the_chance_is_told_where_the_trend_convicts(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][400:] += np.linspace(0.0, 3.0, 400)
    assert "which noise does with chance " in asked(log).because


def test_where_the_height_convicts_no_chance_is_told() -> None:
    """Four losses at the end of twenty are no trend, but far above all that this run does."""
    at, noise = np.arange(20), 0.02 * np.random.default_rng(14).standard_normal(20)
    loss = 2.0 + 2.0 * np.exp(-at / 3.3) + noise
    loss[16:] += [0.7, 1.4, 2.1, 2.8]
    answer = asked({"step": at, "loss": loss})
    assert answer.branch == "material"
    assert answer.measured["p_value"] == pytest.approx(0.03, abs=0.02)
    assert answer.because.endswith(", far beyond its usual ups and downs")


@pytest.mark.parametrize(
    ("log", "slug"),
    [
        ("up = np.maximum(at - 805, 0) / 300; lr = np.where(at < 800, 1e-3, 5e-3)", "lr-rising"),
        ("up = np.where(at < 800, 0.0, 0.5 + 0.004 * (at - 800)); lr = None", "unexplained"),
    ],
)
def test_a_diagnosis_does_not_wait_for_what_it_does_not_need(log: str, slug: str) -> None:
    script = f"""
import sys, numpy as np, stabdiag
at = np.arange(1600)
{log}
loss = 2 + 2 * np.exp(-at / 200) + 0.05 * np.random.default_rng(0).standard_normal(1600) + up
log = {{"step": at, "loss": loss}} | ({{}} if lr is None else {{"lr": lr}})
print(stabdiag.diagnose(log).diagnosis.slug, "numpy.ma" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"divergence-{slug} False\n"
