"""§2: how long a spike has to come back, and which checkpoint is from before its cause."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Verdict
from tests.tree.made import answer_to

WIDENED = "1000 steps (widened: the log is sparse)"


@pytest.fixture
def sparse(calm):
    """A record every 100 steps, and a loss that jumps and stays up."""

    def sparse_(n, jump):
        log = calm(n, stride=100)
        log["loss"][jump:] += 4.0
        return {name: log[name] for name in ("step", "loss")}

    return sparse_


def test_a_sparse_log_reports_the_widened_window(sparse):
    report = stabdiag.diagnose(sparse(100, 60))
    assert report.diagnosis.slug == "spike-persistent"
    assert f"It did not recover within {WIDENED}." in report.diagnosis.summary
    assert f"within {WIDENED} of the onset at 6000" in answer_to(report, "Q2.2").because
    assert answer_to(report, "Q2.2").measured["recovery_steps"] == 1000
    # The bad batch may be any since the record before.
    assert report.diagnosis.next_actions[0].startswith("Skip the batches of steps 5901 to 7000")


def test_in_a_sparse_log_the_run_continues_to_a_future_step(sparse):
    report = stabdiag.diagnose(sparse(60, 55))
    assert report.diagnosis.slug == "spike-unresolved"
    assert report.diagnosis.first_action.startswith(
        "Keep the last checkpoint from before the spike, run on to step 6500 "
    )
    assert f"{WIDENED} are needed to tell" in answer_to(report, "Q2.2").because


@pytest.mark.parametrize(
    ("every", "checkpoint", "action"),
    [
        (
            100,
            400,
            "checkpoint of step 400, the last before the jump of the learning rate at step 495",
        ),
        # One from after the jump is there, but none from before it.
        (498, None, "Restart from the beginning (no checkpoint precedes the jump"),
    ],
)
def test_question_and_advice_name_the_same_checkpoint(calm, every, checkpoint, action):
    log = calm()
    log["loss"][503:] += 3.0
    log["lr"] = np.where(log["step"] < 495, 1e-3, 5e-3)
    report = stabdiag.diagnose(log, manifest={"checkpoint_every": every})
    assert report.diagnosis.slug == "spike-persistent"
    assert action in report.diagnosis.first_action
    answer = answer_to(report, "Q2.4")
    assert answer.verdict is (Verdict.YES if checkpoint else Verdict.NO)
    assert answer.measured.get("checkpoint") == checkpoint
    assert "before the jump of the learning rate at step 495" in answer.because


def test_the_number_of_high_losses_is_reported(calm):
    log = calm()
    log["loss"][500] += 3.0
    assert answer_to(stabdiag.diagnose(log), "Q2.1").because.startswith("1 of ")
    early = 2.0 + 0.05 * np.random.default_rng(0).uniform(-1.0, 1.0, 300)
    early[50] += 20.0  # in the first window, which is not counted
    answer = answer_to(stabdiag.diagnose({"step": np.arange(300), "loss": early}), "Q2.1")
    assert answer.verdict is Verdict.YES
    assert answer.measured["outliers"] == 0
    assert answer.because.startswith("from step 50 on the loss rose")


@pytest.mark.parametrize(
    ("loss", "slug"),
    [
        ([2.78, 2.77, 2.77, 7.34, 8.72, 7.65, 7.19, 6.85], "spike-unresolved"),
        # It was climbing already.
        ([2.77, 3.5, 4.4, 5.6, 7.0, 8.7, 10.9, 13.6], "divergence-unexplained"),
        # Two losses before it tell no level.
        ([2.78, 2.77, 7.34, 8.72, 7.65, 7.19, 6.85], "divergence-unexplained"),
        # It falls from line to line, and then climbs from line to line.
        ([15.5, 13.0, 3.8, 2.4, 1.4, 5.8, 7.1, 10.0], "divergence-unexplained"),
        ([15.5, 13.0, 3.8, 2.4, 1.4, 5.8, 7.1], "insufficient-data"),
        ([15.5, 13.0, 3.8, 4.1, 1.4, 5.8, 7.1, 10.0], "insufficient-data"),
    ],
)
def test_a_jump_shows_in_a_few_lines(loss, slug):
    report = stabdiag.diagnose({"step": 29020 + 10 * np.arange(len(loss)), "loss": loss})
    assert report.diagnosis.slug == slug
    assert slug != "spike-unresolved" or report.diagnosis.step == 29050


@pytest.mark.parametrize(
    ("loss", "slug"),
    [
        ([2.1, 3.5, 18, 4e3, 9e5], "divergence-unexplained"),
        ([2.1, 2, 2.2, 1.9, 1.8, 3.5, 18, 300, 4e3, 2e4, 1e5, 9e4], "divergence-unexplained"),
        ([2.1, 2, 2.2, 1.9, 1.8, 2.1, 4e3, 4.1e3, 3.9e3, 4.2e3], "spike-unresolved"),
    ],
)
def test_repeated_multiplication_is_not_a_single_batch(loss, slug):
    report = stabdiag.diagnose({"step": list(range(len(loss))), "loss": loss})
    assert report.diagnosis.slug == slug
    assert ("ower the learning rate to a tenth" in report.diagnosis.first_action) == (
        slug[0] == "d"
    )


def test_evaluation_loss_is_not_a_single_batch():
    loss = [0.1499, 0.1472, 0.1486, 0.148, 0.7117]
    log = {"step": 500 * np.arange(1, 6), "validation loss": loss}
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-unresolved"
    log["loss"] = log.pop("validation loss")
    assert stabdiag.diagnose(log).diagnosis.slug == "insufficient-data"


def of_epochs(factor, stays, *, n=30, at=15):
    """A run whose loss falls epoch by epoch, and is up by a factor for some of them."""
    loss = 0.2 + 2.0 * np.exp(-np.arange(n) / 6)
    loss *= np.exp(0.04 * np.random.default_rng(0).standard_normal(n))
    loss[at : at + stays] *= factor
    return {"epoch": np.arange(n), "loss": loss}


@pytest.mark.parametrize(
    ("losses", "slug"),
    [
        ([0.08, 0.06, 0.04, 0.22, 0.06], "insufficient-data"),
        ([0.08, 0.06, 0.04, 0.22], "spike-unresolved"),
        ([0.08, 0.06, 0.04, 0.22, 0.15], "spike-unresolved"),
        ([0.08, 0.06, 0.04, 2.2, 0.06], "spike-unresolved"),  # a blow-up
    ],
)
def test_a_single_high_epoch_of_a_few_may_be_noise(losses, slug):
    log = {"epoch": range(len(losses)), "loss": losses}
    assert stabdiag.diagnose(log).diagnosis.slug == slug


@pytest.mark.parametrize(
    ("log", "slug"),
    [
        (of_epochs(4.0, 2), "spike-recovered"),
        (of_epochs(4.0, 5), "spike-recovered"),
        (of_epochs(4.0, 15), "spike-persistent"),
        (of_epochs(3.0, 40, n=60), "spike-persistent"),
        (of_epochs(4.0, 2, n=12, at=8), "spike-recovered"),
        (of_epochs(4.0, 9, n=24), "spike-unresolved"),
        (of_epochs(4.0, 1, n=10, at=9), "spike-unresolved"),
        (of_epochs(1.0, 1), "healthy"),
        (of_epochs(1.0, 1, n=12), "healthy"),
    ],
)
def test_a_spike_has_ten_epochs_to_recover(log, slug):
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == slug
    if slug.startswith("spike"):
        assert report.diagnosis.step == int(np.argmax(np.diff(log["loss"]))) + 1
        text = answer_to(report, "Q2.1").because
        assert str(text).endswith(
            "σ above the 5 losses before, and no other rise in the log comes near"
        )
    if slug == "spike-persistent":
        assert " within 10 epochs of " in answer_to(report, "Q2.2").because
    if slug == "healthy":
        text = answer_to(report, "Q2.1").because
        assert text.endswith(("; the window is 20 epochs wide", "and never rose"))


def test_the_cause_of_an_odd_epoch_is_of_the_same_epoch():
    log = of_epochs(4.0, 2)
    for at, slug in ((14, "spike-lr-jump"), (5, "spike-recovered")):
        log["lr"] = np.where(np.arange(30) < at, 1e-3, 1e-2)
        assert stabdiag.diagnose(log).diagnosis.slug == slug


@pytest.mark.parametrize(("end", "slug"), [(-0.5, "spike-persistent"), (5.5, "divergence-")])
def test_a_jump_that_goes_on_to_climb_is_a_climb_unless_it_comes_down(calm, end, slug):
    log = calm(1200)
    log["loss"] = 2.0 + 0.05 * np.random.default_rng(0).standard_normal(1200)
    levels = [1.2, 1.2, 1.9, 1.9, 5.0, 5.0, end, end]
    log["loss"][400:] += np.interp(np.arange(800), [0, 100, 110, 200, 220, 300, 330, 799], levels)
    assert stabdiag.diagnose(log).diagnosis.slug.startswith(slug)


@pytest.mark.parametrize(
    ("onset", "repeated", "count"), [(12, 84, 120), (40, 150, 300), (46, 84, 120)]
)
@pytest.mark.parametrize("height", [3e3, 1e20])
def test_a_loss_that_exploded_twice_is_set_back_to_before_the_first_time(
    onset, repeated, count, height
):
    at, draws = np.arange(1, count + 1), np.random.default_rng(0).normal(0, 1, count)
    loss = (2.3 - at / 1000) * (1 + 0.03 * draws)
    loss = np.where(at < onset, loss, height * np.exp(0.5 * draws))
    loss = np.where(at < repeated, loss, 1e4 * loss)
    finding = stabdiag.diagnose(
        {"step": at, "loss": loss}, manifest={"checkpoint_every": 10}
    ).diagnosis
    assert (finding.step, finding.actions[0].checkpoint) == (onset, (onset - 1) // 10 * 10)


def test_an_explosion_that_was_over_is_none_of_the_next():
    at, draws = np.arange(1, 301), np.random.default_rng(0).normal(0, 1, 300)
    loss = (2.3 - at / 1000) * (1 + 0.03 * draws)
    loss[90:95] *= 1e4
    loss[220:] *= 1e4
    finding = stabdiag.diagnose(
        {"step": at, "loss": loss}, manifest={"checkpoint_every": 10}
    ).diagnosis
    assert (finding.step, finding.actions[0].checkpoint) == (221, 220)


def test_records_that_are_left_out_do_not_hide_that_a_loss_stayed_up():
    before = [0.52 - 0.012 * epoch for epoch in range(13)]
    epochs = [*range(13), 13, 14, 15, 27, 28, 44, 48]
    log = {"epoch": epochs, "loss": [*before, 0.849, 0.852, 0.855, 0.835, 0.84, 0.829, 0.818]}
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-persistent"
    # Without the gap, too little time has passed.
    log["epoch"] = list(range(20))
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-unresolved"
