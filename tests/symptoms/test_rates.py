"""Learning rates that the loss shows to be too high or too low."""

import numpy as np
import pytest

AT = np.arange(400)
COSINE = 0.5 + 0.5 * np.cos(np.pi * AT / 400)
NOISE = np.random.default_rng(0).normal(0, 0.02, 400)
ADAM = {"optimizer": "adamw", "total_steps": 400}


RISES_MIDWAY = 0.5 + 2 * np.exp(-AT / 10) + 0.9 * np.exp(-(((AT - 180) / 60) ** 2)) - 3e-4 * AT


def log(loss, peak):
    return {"step": AT, "loss": loss + NOISE, "lr": peak * COSINE}


def blown_up(height):
    return 2 + height * COSINE * (1 - np.exp(-AT / 5))


def test_a_loss_far_above_its_start_shows_too_high_a_rate(symptom):
    finding = symptom("lr-too-high", log(blown_up(5.0), 0.3), ADAM)
    assert (finding.actions[0].setting, finding.actions[0].from_, finding.actions[0].to) == (
        "peak_lr",
        0.3,
        0.01,
    )


def test_a_loss_that_explodes_at_the_second_step_shows_too_high_a_rate(symptom):
    run = log(np.full(400, 0.4), 1e4)
    # The noise is as large as the loss, and some batches have no loss at all.
    run["loss"][1:] = np.random.default_rng(0).exponential(9e3, 399)
    run["loss"][::9] = [0.4, *[0.0] * 44]
    finding = symptom("lr-too-high", run)
    assert (finding.step, finding.actions[0].from_) == (0, 1e4)


def test_a_rise_at_a_clearly_high_rate_is_reported(symptom):
    finding = symptom("lr-too-high", log(RISES_MIDWAY, 0.03), ADAM)
    assert (finding.step, finding.actions[0].from_) == (59, pytest.approx(0.03))


@pytest.mark.parametrize(("peak", "to"), [(0.3, 0.01), (0.03, 0.003)])
def test_a_rate_of_an_unknown_optimizer_is_lowered_to_a_safe_value(symptom, peak, to):
    first, second = symptom("lr-too-high", log(blown_up(5.0), peak)).actions[:2]
    assert (first.to, second.to) == (pytest.approx(to), pytest.approx(to / 10))


@pytest.mark.parametrize(("optimizer", "decay", "to"), [("adam", 0.1, 1e-4), ("adamw", 0.1, 0.05)])
def test_plain_adam_gets_a_lower_weight_decay(symptom, optimizer, decay, to):
    shrinking = log(2 - AT / 1000, 1e-3) | {"weight_norm": 10 * np.exp(-AT / 60)}
    manifest = {"optimizer": optimizer, "weight_decay": decay}
    assert symptom("weight-norm-shrinking", shrinking, manifest).actions[0].to == to


def test_a_slowly_falling_loss_is_not_stuck_at_chance(symptom):
    at_chance = log(np.log(10) + 0.05 - 0.1 * np.cumsum(COSINE) / COSINE.sum(), 1e-5)
    at_chance["loss"] -= 0.8 * NOISE
    manifest = ADAM | {"num_classes": 10}
    assert symptom("plateau-at-chance", at_chance, manifest) is None
    assert symptom("learning-slow", at_chance, manifest).actions[0].kind == "raise-lr"


def slow(fall):
    return 2 - fall * np.cumsum(COSINE) / COSINE.sum()


@pytest.mark.parametrize(
    ("peak", "manifest", "severity"),
    [
        (2e-5, {"model_name_or_path": "some/model"}, "note"),
        (1e-9, {"model_name_or_path": "some/model"}, "warning"),
        (2e-5, {}, "warning"),
    ],
)
def test_a_pretrained_model_may_learn_slowly(symptom, peak, manifest, severity):
    finding = symptom("learning-slow", log(slow(0.09), peak), ADAM | manifest)
    assert finding.severity.value == severity


def test_a_straight_line_at_a_low_rate_shows_too_low_a_rate(symptom):
    finding = symptom("learning-slow", log(slow(0.3), 1e-5), ADAM)
    assert finding.actions[0].kind == "raise-lr"
    assert 5e-4 < finding.actions[0].to < 1e-3
    # The usual rate of an unknown optimizer is unknown: multiply by ten first.
    first, second = symptom("learning-slow", log(slow(0.3), 1e-5), {"total_steps": 400}).actions[:2]
    assert first.to == pytest.approx(1e-4)
    assert 5e-4 < second.to < 1e-3


def test_an_unfinished_warm_up_is_not_a_low_rate(symptom):
    rates = 1e-5 * AT / AT[-1]
    run = log(2 - 0.3 * np.cumsum(rates) / rates.sum(), 1e-5) | {"lr": rates}
    plan = {"total_steps": int(run["step"][-1])}
    assert symptom("learning-slow", run, plan) is None
    assert symptom("lr-never-decays", run, plan).actions[0].kind == "fix-schedule"
    run["lr"] = np.minimum(2 * rates, 1e-5)
    assert symptom("learning-slow", run, plan).actions[0].kind == "raise-lr"


def varying(count):
    """Losses of batches of two examples, which vary by orders of magnitude."""
    losses = np.random.default_rng(3).exponential(1.0, count)
    losses[0] = 0.02
    return {"step": np.arange(count), "loss": losses, "lr": np.full(count, 0.026)}


SHORT = {name: values[:59] for name, values in log(blown_up(5.0), 0.3).items()}


@pytest.mark.parametrize(
    ("slug", "run"),
    [
        # A small rise at a usual rate, a fall at a high one, and too few points.
        ("lr-too-high", log(blown_up(0.5), 3e-3)),
        ("lr-too-high", log(1 + np.exp(-AT / 50), 0.3)),
        ("lr-too-high", SHORT),
        # A rise at a rate just above the usual ones.
        ("lr-too-high", log(RISES_MIDWAY, 0.012)),
        # The first loss is 0.
        ("lr-too-high", log(np.where(AT == 0, -NOISE, 1 + np.exp(-AT / 50)), 0.3)),
        # The first loss is low by chance, as others are.
        ("lr-too-high", varying(400)),
        ("lr-too-high", varying(70)),
        # A straight line at a usual rate, and a loss that has leveled off.
        ("learning-slow", log(slow(0.3), 3e-3)),
        ("learning-slow", log(2 - 0.3 * (1 - np.exp(-AT / 40)), 1e-5)),
    ],
)
def test_near_miss_is_not_reported(symptom, slug, run):
    assert symptom(slug, run, ADAM) is None


@pytest.mark.parametrize(
    ("low", "is_reported"), [(7.0, True), (5.0, False)], ids=["never back", "back"]
)
def test_a_short_log_far_above_its_first_loss(symptom, low, is_reported):
    at = np.arange(40)
    loss = low + 12 * np.exp(-at / 10)
    loss[0] = 3.9
    run = {"step": 10 * at, "loss": loss}
    assert (symptom("lr-too-high", run) is not None) == is_reported
    # A rise to the end is a divergence.
    run["loss"] = np.concatenate([[3.9], np.linspace(7.0, 90.0, 39)])
    assert symptom("lr-too-high", run) is None
