"""A failed run for post-mortems."""

import numpy as np

import stabdiag


def broken(series=None, columns=None, **settings):
    """Diagnose a loss that is NaN from step 500 on, with other columns and a manifest."""
    steps = np.arange(600)
    loss = 2.0 + 3.0 * np.exp(-steps / 80) + np.random.default_rng(4).normal(0, 0.05, 600)
    loss[500:] = np.nan
    logged = {"step": steps, "loss": loss, **(series or {})}
    manifest = {"dtype": "fp32", "checkpoint_every": 200, **settings}
    return stabdiag.diagnose(logged, manifest=manifest, columns=columns)
