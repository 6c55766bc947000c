"""How sure a finding is: a field of it, the same in every format."""

import json

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import names, render
from tests.tree.made import add, changed, climb, put


def confidence(log, **manifest):
    return stabdiag.diagnose(log, manifest=manifest).diagnosis.confidence


def test_a_nan_that_is_written_is_sure_and_a_missing_loss_is_less_so(calm):
    log = changed(calm(), put("loss", slice(600, None), np.nan))
    assert confidence(log) == "high"
    records = [
        {"step": step, "grad_norm": 1.0} | ({"loss": 2.0} if step < 600 else {})
        for step in range(800)
    ]
    finding = stabdiag.diagnose([*records]).diagnosis
    assert (finding.section, finding.confidence) == ("§1", "medium")


@pytest.mark.parametrize(("height", "sure"), [(100.0, "high"), (0.6, "medium")])
def test_a_spike_far_beyond_the_noise_is_sure(calm, height, sure):
    log = changed(calm(), add(slice(400, 402), height))
    assert stabdiag.diagnose(log).diagnosis.section == "§2"
    assert confidence(log) == sure


def test_a_clear_climb_is_sure(calm):
    assert confidence(changed(calm(), climb())) == "high"


def test_an_untested_run_is_not_sure_to_be_sound(calm):
    short = {name: values[:5] for name, values in calm().items()}
    assert confidence(short) == "low"
    assert confidence(calm(), dtype="bf16", checkpoint_every=50) == "high"


@pytest.mark.parametrize("format", sorted(set(names()) - {"svg", "png", "plot"}))
def test_every_format_says_how_sure_the_diagnosis_is(calm, format):
    report = stabdiag.diagnose(changed(calm(), add(slice(400, 402), 100.0)))
    text = " ".join(str(render(report, format)).split())
    assert "high confidence" in text.lower() or '"confidence": "high"' in text


def test_json_has_the_confidence_of_every_finding_and_the_kind_of_what_is_missing(calm):
    document = json.loads(render(stabdiag.diagnose({"loss": calm()["loss"]}), "json"))
    assert {finding["confidence"] for finding in document["findings"]} <= {"high", "medium", "low"}
    assert {item["kind"] for item in document["not_logged"]} == {"role", "setting"}
