"""Climbs that came back by themselves: who looks at the run wants to know."""

from __future__ import annotations

import numpy as np
import pytest

import stabdiag


def hump(height: float, over: int, back: int = 200) -> dict[str, np.ndarray]:
    """A calm run that climbs from step 1500 on, and comes back."""
    at = np.arange(4000)
    since = at - 1500
    up = np.clip(since / over, 0, 1) * np.exp(-np.maximum(since - over, 0) / back)
    noise = 0.05 * np.random.default_rng(0).standard_normal(4000)
    return {"step": at, "loss": 2 + 2 * np.exp(-at / 300) + height * up + noise}


def test_a_slow_climb_that_came_back_is_told_of() -> None:
    found = stabdiag.diagnose(hump(3.0, over=400)).diagnosis
    assert found.slug == "healthy"
    assert (
        "no climb that lasted (it rose from 2.019 near step 1450 to 4.626 near step 1850, and came "
        "back)"
    ) in found.summary


@pytest.mark.parametrize(
    ("height", "over", "back"),
    [(0.15, 400, 200), (0.0, 400, 200)],
    ids=["among the losses", "none"],
)
def test_a_small_one_is_not(height: float, over: int, back: int) -> None:
    found = stabdiag.diagnose(hump(height, over, back)).diagnosis
    assert found.slug == "healthy"
    assert "no climb;" in found.summary


def test_of_one_that_is_not_made_good_only_the_climb_is_told() -> None:
    found = stabdiag.diagnose(hump(3.0, over=400, back=100_000)).diagnosis
    assert found.slug == "divergence-unexplained"
    assert "lasted" not in found.summary


def test_a_faster_one_is_a_spike_although_it_climbs() -> None:
    """No climb is left for section 4 to find: it may not be lost between the two sections."""
    found = stabdiag.diagnose(hump(3.0, over=100)).diagnosis
    assert found.slug == "spike-persistent"
    assert found.step == pytest.approx(1500, abs=20)
