"""The symptoms of learning."""

from __future__ import annotations

import numpy as np

STEPS = np.arange(400)


def test_a_loss_of_one_value_is_constant(symptom):
    found = symptom("loss-constant", {"step": STEPS, "loss": np.full(400, 2.5)})
    assert found.step == 0
    assert found.evidence["points"] == 400


def test_a_loss_that_hardly_moves_is_not_constant(symptom):
    noise = np.random.default_rng(0).normal(0, 1e-6, 400)
    assert symptom("loss-constant", {"step": STEPS, "loss": 2.5 + noise}) is None


def test_a_loss_of_zero_is_not_constant(symptom):
    assert symptom("loss-constant", {"step": STEPS, "loss": np.zeros(400)}) is None
