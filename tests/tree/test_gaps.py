"""Series that are there in part, or at the edge of a rule: what is not known is said, and no more.

Each of these logs asks for a number that is not there; a diagnosis is given all the same.
"""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import add, asked, changed, climb, put, sometimes


@pytest.fixture
def spiking(calm):
    return changed(calm(), add(slice(500, 505), 4.0))


@pytest.fixture
def climbing(calm):
    return changed(calm(), climb(700))


def between(values, first, end):
    """The values of some records; in the others there is none."""
    return [float(x) if first <= at < end else None for at, x in enumerate(values)]


def test_batch_ids_that_were_logged_around_a_spike_alone_tell_of_it(spiking):
    spiking["batch_id"][500] = 499
    spiking["batch_id"] = between(spiking["batch_id"], 496, 504)
    assert stabdiag.diagnose(spiking).diagnosis.slug == "spike-duplicate-batch"


def test_a_gradient_norm_that_was_logged_from_a_spike_on_has_no_mean_before(spiking):
    told = asked(
        stabdiag.diagnose(sometimes(spiking, "grad_norm", spiking["step"] >= 500)), "Q2.3"
    ).because
    assert "no gradient norm was logged around it" in told


def test_a_learning_rate_that_ends_before_a_climb_does_not_tell_of_it(climbing):
    climbing["lr"] = between(np.linspace(1e-4, 1e-3, 800), 0, 650)
    found = asked(stabdiag.diagnose(climbing), "Q4.2")
    assert found.verdict is Verdict.UNKNOWN
    assert "too few learning rates were logged over the climb" in found.because


def test_weights_that_are_all_zero_were_not_shrinking(calm):
    log = changed(calm(), add(slice(500, None), 4.0), put("weight_norm/attn", slice(None), 0.0))
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-persistent"


def test_a_gradient_norm_that_ended_before_a_nan_did_not_lead_to_it(calm):
    log = changed(calm(), put("loss", slice(500, None), np.nan), put("grad_norm", 100, np.inf))
    records = sometimes(log, "grad_norm", log["step"] < 300)
    found = stabdiag.diagnose(records, manifest={"dtype": "bf16"}).diagnosis
    assert (found.slug, found.evidence["first_series"]) == ("nan-bf16", "loss")


def test_gradient_norms_that_were_never_finite_do_not_tell_of_clipping(calm):
    lost = put("loss", slice(500, None), np.nan)
    log = changed(calm(), lost, put("grad_norm", slice(None), np.inf))
    report = stabdiag.diagnose(log, manifest={"dtype": "bf16", "grad_clip": 1.0})
    assert "too few finite gradient norms were logged" in asked(report, "Q1.3").because


def test_overflows_that_keep_to_a_third_of_the_interval_are_too_many(calm):
    log = calm(1961)
    log["loss_scale"] = np.where(log["step"] < 60, 2048.0, 1024.0)
    log["grad_norm"][60::100] = np.inf
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", "loss_scale_window": 300})
    assert report.diagnosis.slug == "gradient-overflow"
