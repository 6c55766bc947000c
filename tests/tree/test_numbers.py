"""The numbers of a sentence: each can be worked out from the log."""

import numpy as np
import pytest

import stabdiag
from tests.tree.made import asked


@pytest.mark.parametrize(
    ("last", "told"), [(1e-3, "(now 0.001)"), (0.95e-3, "(0.001 at step 147)")]
)
def test_a_rate_is_that_of_now_if_it_is_the_last_one(calm, last, told):
    log = calm(800)
    norms = np.ones(800)
    norms[[147, 148, 150, 152, 154, 156, 158]] = np.inf
    rates = np.full(800, 1e-3)
    rates[400:] = last
    report = stabdiag.diagnose(log | {"grad_norm": norms, "lr": rates}, manifest={"dtype": "fp16"})
    assert report.diagnosis.slug == "gradient-overflow"
    assert f"halve the learning rate {told}" in report.diagnosis.first_action


def test_a_climb_that_a_jump_ends_does_not_end_where_the_log_does(calm):
    log = calm(1200)
    log["loss"][600:1160] += np.linspace(0, 3, 560)
    log["loss"][1160:] = 4e4
    report = stabdiag.diagnose(log)
    found = next(one for one in report.findings if one.slug == "divergence-unexplained")
    level = asked(report, "Q4.1").measured["last"]
    assert isinstance(level, float)
    assert f"and stood at {level:.4g} before the jump at step 1160, " in found.summary
    assert "the loss stood at" in asked(report, "Q4.1").because
