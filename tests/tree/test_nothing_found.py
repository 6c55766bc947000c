"""Runs in which nothing is found, or nearly."""

import numpy as np

import stabdiag


def calm(losses=1000):
    at = np.arange(losses)
    noise = 0.05 * np.random.default_rng(1).standard_normal(losses)
    return {"step": at, "loss": 2 + 2 * np.exp(-at / 80) + noise, "lr": np.full(losses, 1e-3)}


def test_one_that_falls_with_the_rate_or_by_and_by_is_as_it_should_be():
    decayed, learned, lower = calm(), calm(), calm()
    decayed["loss"][600:] /= 8
    decayed["lr"][600:] /= 10
    learned["loss"] /= 1 + 7 * np.clip((learned["step"] - 600) / 5, 0, 1)
    lower["loss"][600:] *= 0.7
    for log in (decayed, learned, lower, calm()):
        found = stabdiag.diagnose(log).diagnosis
        assert found.slug == "healthy"
        assert found.actions[0].kind == "log-more"


def test_a_loss_that_ends_high_has_not_come_back():
    log = calm(3000)
    log["loss"] += np.where((log["step"] // 300) % 2 == 1, 1.0, 0.0)
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "healthy"
