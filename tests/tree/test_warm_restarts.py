"""A schedule with warm restarts raises the loss at each restart."""

import numpy as np
import pytest

import stabdiag

N, CYCLE = 1200, 300
STEPS = np.arange(N)
PART = STEPS % CYCLE / CYCLE
RATE = 1e-3 * (0.02 + 0.49 * (1 + np.cos(np.pi * PART)))
NOISE = np.random.default_rng(2).normal(0, 0.01, N)


def restarting(bump=0.2, rate=RATE):
    """Return a loss that is higher where the rate is high, by ``bump``, after the first cycle."""
    loss = 0.5 + 1.8 * np.exp(-STEPS / 100) + np.where(STEPS >= CYCLE, bump * RATE / 1e-3, 0)
    return {"step": STEPS, "loss": loss + NOISE, "lr": rate}


@pytest.mark.parametrize("bump", [0.1, 0.2, 0.4])
def test_the_loss_may_rise_at_a_restart(bump):
    diagnosis = stabdiag.diagnose(restarting(bump)).diagnosis
    assert diagnosis.severity.value in ("ok", "note")
    assert not diagnosis.slug.startswith("spike")


def test_a_spike_at_a_restart_is_reported_if_no_cycle_was_as_high():
    log = restarting()
    log["loss"][3 * CYCLE : 3 * CYCLE + 5] += 1.2
    assert stabdiag.diagnose(log).diagnosis.slug.startswith("spike")


def test_a_spike_between_restarts_is_reported():
    log = restarting()
    log["loss"][750:755] += 1.2
    assert stabdiag.diagnose(log).diagnosis.slug.startswith("spike")


def test_a_loss_that_blows_up_at_a_restart_is_an_error():
    log = restarting()
    log["loss"][2 * CYCLE :] += 40.0
    assert stabdiag.diagnose(log).diagnosis.severity.value == "error"


def test_a_single_jump_of_the_rate_is_not_a_schedule():
    rate = np.where(STEPS < 600, 1e-3 * (1 - STEPS / 700), 1e-3)
    log = restarting(0.0)
    log["loss"][600:] += 2.0 * np.exp(-np.arange(N - 600) / 15)
    diagnosis = stabdiag.diagnose({**log, "lr": rate}).diagnosis
    assert diagnosis.severity.value in ("warning", "error")
    assert "learning rate" in diagnosis.summary


@pytest.mark.parametrize(("rate", "is_expected"), [(1.0, True), (3.0, False)])
def test_a_schedule_that_repeats_its_course_restarts(rate, is_expected):
    log = restarting(rate=np.where(STEPS >= CYCLE, rate, 1.0) * RATE)
    log = {name: values[: 2 * CYCLE] for name, values in log.items()}
    log["loss"] += np.where(STEPS[: 2 * CYCLE] >= CYCLE, 0.4 * RATE[: 2 * CYCLE] / 1e-3, 0)
    spikes = [f for f in stabdiag.diagnose(log).findings if f.slug.startswith("spike")]
    assert (not spikes) == is_expected
