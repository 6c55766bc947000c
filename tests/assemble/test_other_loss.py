"""Which of several losses is taken, by what they hold."""

import numpy as np
import pytest

import stabdiag


def gan(n=120):
    level = np.linspace(2.0, 1.4, n)
    return {"step": np.arange(n), "loss_D": level.copy(), "loss_G": level[::-1].copy()}


def test_a_generator_that_went_nan_is_found():
    log = gan()
    log["loss_G"][85:] = np.nan
    report = stabdiag.diagnose(log)
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 85)
    assert report.history.series["loss"].column == "loss_G"


def test_what_the_user_named_is_taken():
    log = gan()
    log["loss_G"][85:] = np.nan
    report = stabdiag.diagnose(log, columns={"loss": "loss_D"})
    assert report.history.series["loss"].column == "loss_D"


@pytest.mark.parametrize("where", [slice(0, 1), slice(50, 51), slice(0, 120), slice(118, 120)])
def test_a_loss_that_is_undefined_now_and_then_is_not_lost(where):
    log = gan()
    log["loss_G"][where] = np.nan
    assert stabdiag.diagnose(log).history.series["loss"].column == "loss_D"


def test_a_loss_without_a_value_gives_way_to_one_that_has_some():
    records = [
        {"step": s, "loss": None, "lm_loss_x": 2.0 + 0.01 * (s % 7), "grad_norm": 1.0}
        for s in range(60)
    ]
    history = stabdiag.read(records)
    assert history.series["loss"].column == "lm_loss_x"


def test_the_loss_of_another_run_in_the_table_is_none_of_this_one():
    level = np.linspace(3.0, 2.0, 60)
    log = {"step": np.arange(60), "a - train/loss": level, "b - train/loss": level.copy()}
    log["b - train/loss"][40:] = np.nan
    assert stabdiag.diagnose(log).history.series["loss"].column == "a - train/loss"


def test_an_average_that_is_lost_for_longer_is_not_taken():
    log = {"step": np.arange(60), "loss": np.linspace(3.0, 2.0, 60)}
    log["loss"][30] = np.nan
    log["loss_ema"] = np.where(np.arange(60) < 30, 2.5, np.nan)
    assert stabdiag.diagnose(log).history.series["loss"].column == "loss"


def test_a_loss_of_zeros_tells_less_than_another():
    log = {"vicreg_loss": [0.0] * 40, "loss_tgt_mean": np.linspace(2.0, 1.0, 40)}
    history = stabdiag.read(log)
    assert history.series["loss"].column == "loss_tgt_mean"


def test_a_loss_of_zeros_stays_beside_one_that_is_logged_once():
    log = {"loss": [0.0] * 40, "train_loss": [None] * 39 + [3.2]}
    assert stabdiag.read(log).series["loss"].column == "loss"
