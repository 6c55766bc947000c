"""A run that loses all it had gained is broken, whatever its noise is afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.stats.shape import Reach
from stabdiag.stats.spikes import find_spikes
from stabdiag.stats.undone import undone_at


def descent(points: int, seed: int = 0) -> np.ndarray:
    """A loss that falls from 5 to 3 within some 60 points."""
    noise = np.random.default_rng(seed).standard_normal(points)
    x: np.ndarray = (3 + 2 * np.exp(-np.arange(points) / 20)) * np.exp(0.04 * noise)
    return x


def broken(at: int, points: int, seed: int = 0) -> np.ndarray:
    """A loss that, from a point on, is some ten times as high and varies as much."""
    x = descent(points, seed)
    after = np.random.default_rng(seed + 100)
    x[at:] *= 10 * np.exp(0.8 * after.standard_normal(points - at))
    return x


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", [60, 80])
def test_the_noise_of_a_broken_run_does_not_excuse_its_break(at: int, seed: int) -> None:
    x = broken(at, 900, seed)
    before = undone_at(x)
    assert before is not None
    assert at - 20 < before <= at
    reach = Reach(window=100, least=30, recovery=50)
    first = find_spikes(x, reach, 3.0, 0.005, 0.02).spikes[0]
    assert abs(first.onset - at) <= 5
    assert first.recovered is False


@pytest.mark.parametrize(
    "x",
    [
        descent(900),
        np.full(900, 2.0),
        3 + np.random.default_rng(0).standard_normal(900),
        descent(900) + np.linspace(0, 20, 900),  # a slow climb
        descent(900) + 0.08 * np.maximum(np.arange(900) - 150, 0),  # a faster one
        3.0 * (np.arange(900) >= 50) + np.random.default_rng(1).standard_normal(900),  # no gain
        np.concatenate([descent(300), descent(300) + 1.5, descent(300)]),  # a harder stretch
        broken(60, 79),  # too few losses after it
        broken(15, 900),  # too few before
    ],
)
def test_no_break(x: np.ndarray) -> None:
    assert undone_at(x) is None


@given(
    scale=st.floats(1e-6, 1e6),
    shift=st.sampled_from([-3.0, 0.0, 5.0]),
    at=st.sampled_from([None, 60, 200]),
)
def test_neither_scale_nor_shift_matters(scale: float, shift: float, at: int | None) -> None:
    x = descent(400) if at is None else broken(at, 400)
    found = undone_at(x)
    assert undone_at(scale * (x + shift)) == found
    assert (found is None) == (at is None)
