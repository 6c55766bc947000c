"""Runs of which a part of the loss weighs more and more: the loss rises by design."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import asked

PART = 8.0


def diagnosed(log, weight, at, **more):
    """Diagnose a log to whose loss a part was added, by a weight between these steps."""
    beta = np.interp(log["step"], at, weight)
    return stabdiag.diagnose({**log, "loss": log["loss"] + PART * beta, "beta": beta}, **more)


def test_a_weight_that_grows_lifts_the_loss(calm):
    report = diagnosed(calm(), [0.0, 1.0], [200, 500])
    assert report.diagnosis.slug == "healthy"
    climb = asked(report, "Q4.1")
    assert climb.verdict is Verdict.NO
    assert "since beta settled at step 497" in climb.because


def test_without_its_weight_the_loss_is_told_to_climb(calm):
    log = calm()
    log["loss"] = log["loss"] + PART * np.interp(log["step"], [200, 500], [0.0, 1.0])
    assert stabdiag.diagnose(log).diagnosis.section == "§4"
    # Nor does one that stays as it is, or falls, excuse anything.
    for weight in (np.full(800, 0.5), np.linspace(1.0, 0.5, 800)):
        assert stabdiag.diagnose({**log, "kl_weight": weight}).diagnosis.section == "§4"


def test_while_it_grows_no_climb_can_be_told(calm):
    report = diagnosed(calm(), [0.0, 1.0], [100, 799])
    assert report.diagnosis.slug == "insufficient-data"
    climb = asked(report, "Q4.1")
    assert climb.verdict is Verdict.UNKNOWN
    assert "as beta went from" in climb.because


def test_what_was_before_a_long_growth_tells_nothing_of_the_rest(calm):
    log = calm()
    climb = asked(diagnosed(log, [0.0, 1.0], [300, 799]), "Q4.1")
    assert climb.verdict is Verdict.UNKNOWN
    assert "log the parts of the loss unweighted, too" in climb.because


def test_a_climb_after_it_has_grown_is_found(calm):
    log = calm()
    log["loss"] = log["loss"] + np.interp(log["step"], [450, 799], [0.0, 6.0])
    report = diagnosed(log, [0.0, 1.0], [100, 300])
    assert report.diagnosis.section == "§4"
    assert 450 <= report.diagnosis.step <= 560


@pytest.mark.parametrize("at", [400, 403])
def test_a_weight_that_jumps_lifts_the_loss_at_once(calm, at):
    log = calm()
    log["loss"] = log["loss"] + np.where(log["step"] >= 400, 5.0, 0.0)
    weight = np.where(log["step"] >= at, 1.0, 0.0)
    report = stabdiag.diagnose({**log, "beta": weight})
    assert report.diagnosis.slug == ("healthy" if at == 400 else "spike-persistent")
    if at == 400:
        assert "where beta went from 0 to 1" in asked(report, "Q2.1").because
