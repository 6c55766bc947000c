"""Q3.3: which signals speak for an fp16 overflow, and which for a scaler at work."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import answer_to


@pytest.fixture
def failed(calm):
    """An fp16 run whose loss goes NaN with its very last record."""
    log = calm()
    log["loss"][-1] = np.nan
    return log


def fingerprint(log, **manifest):
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", **manifest})
    assert report.diagnosis.slug == "nan-fp16-overflow"
    return answer_to(report, "Q3.3")


@pytest.mark.parametrize(
    ("overflows", "manifest", "expected"),
    [
        # It had no cause to move, it ought to have grown, and overflows left it where it was.
        (0, {}, "unknown"),
        (0, {"loss_scale_window": 500}, "yes"),
        (1, {}, "yes"),
        # A scaler with hysteresis lets two overflows pass.
        (2, {"hysteresis": 2}, "unknown"),
        (3, {"hysteresis": 2}, "yes"),
    ],
)
def test_whether_a_scale_that_stays_is_static(failed, overflows, manifest, expected):
    failed["loss_scale"] = np.full(800, 65536.0)
    failed["grad_norm"][600 : 600 + 10 * overflows : 10] = np.inf
    assert fingerprint(failed, **manifest).measured["scaling_off"] == expected


def test_a_probe_of_the_scaler_is_not_a_fingerprint(failed):
    failed["grad_norm"][750] = np.inf
    failed["loss_scale"] = np.where(failed["step"] < 751, 65536.0, 32768.0)
    answer = fingerprint(failed)
    assert answer.verdict is Verdict.NO


@pytest.mark.parametrize(
    "overflown", [slice(750, 752), slice(798, 799), slice(700, 790, 30)], ids=str
)
def test_overflows_that_lead_to_the_nan_are_its_fingerprint(failed, overflown):
    failed["grad_norm"][overflown] = np.inf
    answer = fingerprint(failed)
    assert answer.verdict is Verdict.YES
    assert answer.measured["gradient_first"] == answer.measured["forward_finite"] == "yes"


@pytest.mark.parametrize(
    "scales", [(65536.0, 16384.0), (65536.0, 32768.0, 16384.0)], ids=["fourfold", "twice"]
)
def test_a_scale_that_falls_more_than_once_is_halving(failed, scales):
    at = np.minimum(np.maximum(failed["step"] - 739, 0) // 10, len(scales) - 1)
    failed["loss_scale"] = np.array(scales)[at]
    assert fingerprint(failed).measured["scale_halving"] == "yes"


def test_forward_pass_is_unknown_without_losses_at_the_overflows(failed):
    failed["loss"][1:799:2] = np.nan
    records = [
        {name: values[at] for name, values in failed.items() if name != "loss" or at % 2 == 0}
        for at in range(800)
    ]
    records[-1]["loss"] = np.nan
    for at in (751, 753, 755):
        records[at]["grad_norm"] = np.inf
    answer = fingerprint(records)
    assert (answer.measured["gradient_first"], answer.measured["forward_finite"]) == ("yes", "no")
