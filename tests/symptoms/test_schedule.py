"""The symptoms of the learning rate's schedule."""

import numpy as np
import pytest

N = 800
AT = np.arange(N)
PEAK = 1e-3
LOSS = 2 + 2 * np.exp(-AT / 150) + np.random.default_rng(0).normal(0, 0.02, N)
SURGING = LOSS + 3 * np.exp(-(((AT - 12) / 8) ** 2))
NOISY = 1 + np.exp(-AT / 15) + np.random.default_rng(0).exponential(1.2, N)
LOW_AT_FIRST = np.where(AT == 0, 4.0, 6 + np.random.default_rng(0).normal(0, 1, N))
TO_THE_END = {"total_steps": N, "schedule": "cosine"}


def run(lr, loss=LOSS):
    return {"step": AT, "loss": loss, "lr": lr}


def cosine(warmup, total):
    share = np.clip((AT - warmup) / (total - warmup), 0, 1)
    return PEAK * np.minimum((AT + 1) / max(warmup, 1), (1 + np.cos(np.pi * share)) / 2)


WELL = cosine(50, N)
CONSTANT = np.full(N, PEAK)
RESTARTS = PEAK * (1 + np.cos(np.pi * (AT % 200) / 200)) / 2
DROPPED = np.where(AT < 480, PEAK, 0.0)
JUMPED = np.where(AT < 400, WELL, 20 * WELL)


STALLED = 4.7 + 2.2 * np.exp(-AT / 60) + np.random.default_rng(0).normal(0, 0.02, N)
ADAM = {"optimizer": "adamw", "total_steps": N}
STEPS = np.arange(400)
STEPPED_TWICE = 0.005 * (1 + np.cos(2 * np.pi * STEPS / 400))


def of_400(rates):
    return {"step": STEPS, "loss": 1 + 2 * np.exp(-STEPS / 60), "lr": rates}


@pytest.mark.parametrize(("length", "is_reported"), [(6, True), (15, False), (16, False)])
def test_a_few_epochs_show_the_end_of_a_schedule(symptom, length, is_reported):
    epoch = np.arange(16)
    rates = 1e-3 * (1 + np.cos(np.pi * np.minimum(epoch / length, 1))) / 2
    log = {"epoch": epoch, "loss": 0.5 + np.exp(-epoch / 2), "lr": rates}
    assert (symptom("lr-decays-early", log) is not None) == is_reported


@pytest.mark.parametrize(("length", "is_reported"), [(9, True), (15, False)])
def test_a_few_epochs_show_a_rate_that_rises_again(symptom, length, is_reported):
    epoch = np.arange(15)
    rates = 0.05 * (1 + np.cos(np.pi * (epoch + 1) / length))
    log = {"epoch": epoch, "loss": 0.2 + np.exp(-epoch / 2), "lr": rates}
    assert (symptom("ends-mid-cycle", log) is not None) == is_reported


@pytest.mark.parametrize(
    ("slug", "log", "manifest", "first"),
    [
        ("lr-no-warmup", run(cosine(0, N), SURGING), {}, "at least 80 steps"),
        # A rate outside the usual range comes before the warm-up.
        # A warm-up does not fix a loss that stays high at the peak rate.
        (
            "lr-no-warmup",
            run(CONSTANT, np.where(AT < 2, LOSS, 9.0 + NOISY)),
            {},
            "peak learning rate from",
        ),
        ("lr-no-warmup", run(100 * cosine(0, N), SURGING), {"optimizer": "adamw"}, "to 0.01 and"),
        ("lr-warmup-mismatch", run(cosine(200, N)), {"warmup_steps": 50}, "warm-up of 50"),
        ("lr-warmup-mismatch", run(cosine(10, N)), {"warmup_steps": 200}, "warm-up of 200"),
        ("lr-warmup-mismatch", run(cosine(200, N)), {"warmup_steps": 0}, "warm-up of 0"),
        ("lr-warmup-mismatch", run(PEAK * (AT + 1) / N), {"warmup_steps": 50}, "the unit of"),
        # A warm-up as configured that takes most of the run.
        (
            "lr-warmup-mismatch",
            run(cosine(500, N)),
            {"warmup_steps": 500, "total_steps": N},
            "Set the warm-up to at most 160",
        ),
        # A low, constant rate under which the loss has stopped falling.
        ("lr-never-decays", run(np.full(N, 1e-5), STALLED), ADAM, "Warm up to a higher peak"),
        ("lr-decays-early", run(cosine(50, 500)), {}, "800 steps"),
        ("lr-decays-early", run(DROPPED), {}, "stop at step 480"),
        # It ended long before the run, printed with four decimals.
        ("lr-decays-early", run(np.round(cosine(0, 400) * 0.3, 4)), {}, "800 steps"),
        # A step decay that counts batches instead of epochs.
        ("lr-decays-early", run(PEAK * 0.3 ** (AT // 10)), {}, "800 steps"),
        ("lr-never-decays", run(CONSTANT), TO_THE_END, "created with 800"),
        (
            "lr-never-decays",
            run(CONSTANT),
            TO_THE_END | {"schedule": "exponential"},
            "optimizer step.",
        ),
        # A schedule for a run 20 times as long, whether the manifest names it or not.
        ("lr-never-decays", run(cosine(50, 20 * N)), {"total_steps": N}, "800 steps, and check"),
        ("lr-never-decays", run(cosine(0, 20 * N)), TO_THE_END, "800 steps, and check"),
        ("lr-discontinuity", run(JUMPED), {}, "at step 400"),
    ],
)
def test_symptom_is_reported(symptom, slug, log, manifest, first):
    finding = symptom(slug, log, manifest)
    assert finding is not None
    assert first in finding.first_action
    assert finding.evidence


@pytest.mark.parametrize(
    ("slug", "log", "manifest"),
    [
        # No warm-up, and none was needed.
        ("lr-no-warmup", run(cosine(0, N)), {}),
        # A step decay to a thousandth.
        ("lr-decays-early", run(PEAK * 0.1 ** np.minimum(AT // 100, 3)), {}),
        # One bad batch.
        ("lr-no-warmup", run(CONSTANT, np.where(AT == 5, 20.0, LOSS)), {}),
        # Logged from 100 on.
        ("lr-no-warmup", run([None] * 100 + [PEAK] * 700, SURGING), {}),
        # A long warm-up, up to half of the run.
        ("lr-warmup-mismatch", run(cosine(400, N)), {"warmup_steps": 400, "total_steps": N}),
        # A usual rate, a loss that still falls, and one that is low.
        ("lr-never-decays", run(CONSTANT, STALLED), ADAM),
        ("lr-never-decays", run(np.full(N, 1e-5), 6.9 - 2 * AT / N), ADAM),
        ("lr-never-decays", run(np.full(N, 1e-5), STALLED - 4.2), ADAM),
        # A few steps off.
        ("lr-warmup-mismatch", run(WELL), {"warmup_steps": 60}),
        # No warm-up, but a rate that rises by design.
        ("lr-warmup-mismatch", run(1e-06 * 1.01**AT), {"warmup_steps": 0}),
        # After a resume.
        (
            "lr-warmup-mismatch",
            {"step": 5000 + AT, "loss": LOSS, "lr": WELL},
            {"warmup_steps": 1000},
        ),
        # Ended within its warm-up.
        ("lr-warmup-mismatch", run(PEAK * (AT + 1) / 2000), {"warmup_steps": 2000}),
        # A floor.
        ("lr-decays-early", run(np.maximum(cosine(50, 500), PEAK / 10)), {}),
        # A cosine that ends with the run, printed with four decimals.
        ("lr-decays-early", run(np.round(cosine(0, N) * 0.3, 4)), {}),
        ("lr-decays-early", run(np.round(cosine(50, N) / 10, 4)), {}),
        # Warm restarts.
        ("lr-decays-early", run(RESTARTS), {}),
        # A rate may climb again: by warm restarts, in a triangle, in cycles that were meant, and to
        # a tenth of its peak.
        ("lr-decays-early", of_400(0.005 * (1 + np.cos(np.pi * (STEPS % 100) / 100))), {}),
        ("lr-decays-early", of_400(0.01 * np.abs(1 - STEPS / 200) + 1e-5), {}),
        ("lr-decays-early", of_400(STEPPED_TWICE), {"schedule": "cosine_with_restarts"}),
        ("lr-decays-early", of_400(STEPPED_TWICE[:240].repeat(2)[:400]), {}),
        # Constant, as configured.
        ("lr-never-decays", run(CONSTANT), {"total_steps": N, "schedule": "constant_with_warmup"}),
        # A schedule for a longer run, in a run that ended before.
        ("lr-never-decays", run(cosine(50, 20 * N)), {"total_steps": 20 * N}),
        # It jumped near the end, or decays by a tenth, or not at all.
        (
            "lr-never-decays",
            run(np.where(AT < 700, PEAK / 10, cosine(0, 9 * N))),
            {"total_steps": N},
        ),
        ("lr-never-decays", run(PEAK * np.linspace(1, 0.9, N)), {"total_steps": N}),
        ("lr-never-decays", run(PEAK * (1 - 1e-3 * (AT % 2))), {"total_steps": N}),
        # Stopped before.
        ("lr-never-decays", run(CONSTANT), {"total_steps": 10 * N, "schedule": "wsd"}),
        # Ups and downs of a small batch.
        ("lr-no-warmup", run(CONSTANT, NOISY), {}),
        # It began low by chance.
        ("lr-no-warmup", run(CONSTANT, LOW_AT_FIRST), {}),
        ("lr-no-warmup", run(CONSTANT, np.exp(LOW_AT_FIRST - 6)), {}),
        # Up after two records.
        ("lr-discontinuity", run(np.where(AT < 2, 1e-05, PEAK)), {}),
        # Up from 0.
        ("lr-discontinuity", run(np.where(AT < 100, 0.0, PEAK)), {}),
    ],
)
def test_near_miss_is_not_reported(symptom, slug, log, manifest):
    assert symptom(slug, log, manifest) is None


@pytest.mark.parametrize(("total", "warmup"), [(60, 6), (800, 80), (3000, 100), (50000, 1000)])
def test_a_short_run_is_advised_a_short_warm_up(symptom, total, warmup):
    finding = symptom("lr-no-warmup", run(cosine(0, N), SURGING), {"total_steps": total})
    assert finding.first_action.endswith(f"over at least {warmup} steps.")


def test_a_mismatch_is_dated_within_the_log(symptom):
    late = {"step": 5000 * (AT + 1), "loss": LOSS, "lr": cosine(200, N)}
    assert symptom("lr-warmup-mismatch", late, {"warmup_steps": 50}).step == 5000


@pytest.mark.parametrize("stride", [1, 10])
def test_a_cosine_that_rises_again_is_stepped_too_often(symptom, stride):
    run = {name: values[::stride] for name, values in of_400(STEPPED_TWICE).items()}
    finding = symptom("ends-mid-cycle", run, {"schedule": "cosine", "total_steps": 400})
    assert finding.severity == "warning"
    assert (finding.actions[0].kind, finding.actions[0].to) == ("fix-schedule", 400)
    assert finding.step == 200


@pytest.mark.parametrize(
    ("rate", "length"),
    [(cosine(50, 20 * N), 20 * N - 50), (PEAK * (1 - AT / (30 * N)), 30 * N)],
)
def test_length_of_a_schedule_that_is_too_long(symptom, rate, length):
    finding = symptom("lr-never-decays", run(rate), {"total_steps": N})
    assert finding.severity == "warning"
    assert finding.evidence["decay_steps"] == pytest.approx(length, rel=0.05)


EACH_EPOCH = PEAK * (1 - AT % 250 / 250)


@pytest.mark.parametrize(
    ("manifest", "severity"),
    [({}, "note"), ({"total_steps": N}, "warning"), ({"total_steps": 2 * N}, "note")],
)
def test_a_complete_run_should_not_end_within_a_cycle(symptom, manifest, severity):
    assert symptom("ends-mid-cycle", run(EACH_EPOCH), manifest).severity == severity


def test_a_complete_run_may_end_with_a_cycle(symptom):
    rates = PEAK * (1 - AT % 200 / 200)
    assert symptom("ends-mid-cycle", run(rates), {"total_steps": N}) is None


@pytest.mark.parametrize(
    ("first", "rates", "is_present"),
    [
        (3000, np.linspace(3e-8, 2e-8, 24), False),
        (0, np.linspace(3e-8, 2e-8, 24), True),
        (3000, np.full(24, 3e-8), True),
        (3000, np.linspace(9.0, 8.0, 24), True),
    ],
)
def test_the_rates_at_the_end_of_a_schedule_have_no_peak(symptom, first, rates, is_present):
    loss = 9.5 + np.random.default_rng(3).normal(0, 0.01, 24)
    run = {"step": first + np.arange(24), "loss": loss, "lr": rates}
    finding = symptom("setting-unusual", run, {"optimizer": "adamw"})
    assert (finding is not None) == is_present


@pytest.mark.parametrize(
    ("manifest", "is_present"),
    [({}, False), ({"pretrained": True}, False), ({"pretrained": False}, True)],
)
def test_rates_of_fine_tuning_are_usual_unless_a_run_starts_from_scratch(
    symptom, manifest, is_present
):
    loss = 0.693 + np.random.default_rng(3).normal(0, 0.001, 24)
    run = {"step": np.arange(24), "loss": loss, "lr": np.full(24, 3e-7)}
    finding = symptom("setting-unusual", run, {"optimizer": "adamw", **manifest})
    assert (finding is not None) == is_present


@pytest.mark.parametrize(("last", "is_present"), [(None, False), (8e-9, True)])
def test_a_rate_that_still_warms_up_has_no_peak(symptom, last, is_present):
    rates = np.linspace(1e-9, 9e-9, 24)
    rates[-1] = last or rates[-1]
    loss = 9.5 + np.random.default_rng(3).normal(0, 0.01, 24)
    run = {"step": np.arange(24), "loss": loss, "lr": rates}
    finding = symptom("setting-unusual", run, {"optimizer": "adamw"})
    assert (finding is not None) == is_present
