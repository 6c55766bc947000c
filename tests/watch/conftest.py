"""What the tests of the watch share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def lines() -> Callable[..., list[str]]:
    """Return a function that draws the JSON lines of a run, whose loss may go wrong at a step."""

    def draw(steps: int, *, jump_at: int | None = None, nan_at: int | None = None) -> list[str]:
        random = np.random.default_rng(20260105)
        loss = 2 + 3 * np.exp(-np.arange(steps) / 300) + 0.05 * random.standard_normal(steps)
        if jump_at is not None:
            loss[jump_at:] += 3
        if nan_at is not None:
            loss[nan_at:] = np.nan
        norms = 1 + 0.1 * random.standard_normal(steps)
        return [
            json.dumps({"step": step, "loss": round(loss[step], 4), "grad_norm": norms[step]})
            + "\n"
            for step in range(steps)
        ]

    return draw
