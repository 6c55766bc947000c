"""Small runs, made of seeded noise, for the questions of the tree."""

import numpy as np
import pytest


@pytest.fixture
def calm():
    """Return a function that makes a healthy run of n logged points."""

    def calm_(n=800, seed=0, stride=1):
        rng = np.random.default_rng(seed)
        at = np.arange(n)
        return {
            "step": at * stride,
            "loss": 2.0 + 2.0 * np.exp(-at / (n / 4)) + 0.05 * rng.standard_normal(n),
            "grad_norm": 1.0 + 0.1 * rng.standard_normal(n) ** 2,
            "lr": np.full(n, 1e-3),
            "batch_id": at,
            "weight_norm/attn": 10.0 + 0.001 * at,
        }

    return calm_
