"""The walk: which section ends it, what leads, what is also found."""

from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import AnswerScope, Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.stats.rise import Rise
from stabdiag.tree.case import Case
from stabdiag.tree.measure import measure
from stabdiag.tree.walk import walk
from tests.tree.made import add, changed, put

FP32 = {"dtype": "fp32"}


def slugs(report):
    return [finding.slug for finding in report.findings]


def questions(report):
    return [answer.question for answer in report.tree.answers]


def test_a_healthy_run_is_asked_the_first_question_of_every_section(calm):
    report = stabdiag.diagnose(calm(), manifest={"dtype": "bf16"})
    assert slugs(report) == ["healthy"]
    assert questions(report) == ["Q1.1", "Q2.1", "Q3.1", "Q4.1"]
    assert report.diagnosis.severity is Severity.OK
    assert report.diagnosis.actions[0].kind == "keep-going"
    assert report.tree.outcome is report.diagnosis
    assert report.ok
    assert report.also_found == ()


def test_nan_ends_the_walk_and_later_questions_use_the_steps_before_it(calm):
    log = calm(1000)
    log["loss"][400:] += 3.0
    log["loss"][800:] = np.nan
    report = stabdiag.diagnose(log, manifest=FP32)
    assert slugs(report)[:2] == ["nan-fp32", "spike-persistent"]
    assert [finding.scope for finding in report.findings[:2]] == [
        AnswerScope.RUN,
        AnswerScope.LEAD_UP,
    ]
    assert questions(report)[:4] == ["Q1.1", "Q1.2", "Q1.3", "Q1.4"]
    assert {answer.scope for answer in report.tree.answers[4:]} == {AnswerScope.LEAD_UP}


def test_steps_after_a_nan_are_not_tested(calm):
    log = calm(1200)
    log["loss"][300] = np.nan
    log["loss"][600:] += 5.0
    report = stabdiag.diagnose(log, manifest=FP32)
    assert slugs(report) == ["nan-fp32"]
    assert report.diagnosis.evidence["not_finite"] == 1


def test_a_nan_in_fp64_does_not_mention_fp32(calm):
    log = calm()
    log["loss"][600:] = np.nan
    finding = stabdiag.diagnose(log, manifest={"dtype": "fp64"}).diagnosis
    assert finding.slug == "nan-fp32"
    words = " ".join((finding.title, finding.summary, finding.first_action, *finding.next_actions))
    assert "fp32" not in words


def test_each_kind_of_spike_is_reported_once_and_the_worst_is_the_diagnosis(calm):
    log = calm(1500)
    log["loss"][[300, 500]] += [2.0, 3.0]
    log["grad_norm"][500] = 80.0
    log["loss"][900:] += 3.0
    report = stabdiag.diagnose(log)
    assert sorted(slugs(report)) == ["spike-long-tail-batch", "spike-persistent", "spike-recovered"]
    assert report.diagnosis.slug == "spike-persistent"
    assert "Q2.4" in questions(report)
    assert "Q2.3" not in questions(report)


@pytest.mark.parametrize("n", [1, 2, 5, 19])
def test_too_few_losses_are_never_called_healthy(n):
    report = stabdiag.diagnose({"step": range(n), "loss": [2.0 + 0.01 * (i % 3) for i in range(n)]})
    assert slugs(report) == ["insufficient-data"]
    where = f"from step 0 to {n - 1}" if n > 1 else "at step 0"
    assert f"{where}: " in report.diagnosis.summary
    assert "not tested for spikes (" in report.diagnosis.summary
    assert not report.ok
    assert "spikes 22" in report.diagnosis.first_action


@pytest.mark.parametrize("first", [0, 500])
def test_an_almost_constant_loss_shows_no_progress(first):
    rng = np.random.default_rng(3)
    log = {"step": first + 10 * np.arange(30), "loss": 1.41 + rng.normal(0, 0.01, 30)}
    report = stabdiag.diagnose(log)
    assert slugs(report) == ["no-progress"]
    assert report.diagnosis.severity == "note"
    action = "from its beginning" if first else "32 examples"
    assert action in report.diagnosis.first_action
    assert ("The log begins at step 500" in report.diagnosis.summary) == (first == 500)
    heldout = np.where(np.arange(30) % 10, np.nan, 2.0 - np.arange(30) / 30)
    assert slugs(stabdiag.diagnose({**log, "eval_loss": heldout})) == ["healthy"]


def test_a_log_for_climbs_but_not_for_spikes_is_not_called_healthy():
    noise = np.random.default_rng(0).standard_normal(21)
    run = {
        "step": range(21),
        "loss": 2.0 + 0.1 * noise,
        "accuracy": [0.25] * 21,
        "grad_norm": 1 + noise**2,
    }
    report = stabdiag.diagnose(run)
    assert report.diagnosis.slug == "insufficient-data"
    assert report.diagnosis.summary.endswith(
        "no NaN and no climb, but not tested for spikes (21 finite losses; a test for spikes "
        "requires 22). The loss went from 2.013 to 1.987, the accuracy stayed at 0.25 and the "
        "gradient norm went from 1.016 to 1.017."
    )


def test_a_series_that_comes_back_did_not_stay():
    log = {"episode": range(0, 500, 100), "reward": [0.0, -12.0, -30.0, -11.0, 0.0]}
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert "The reward went from 0 to -30 and back to 0." in summary


def test_a_log_without_losses_reports_its_overflows():
    report = stabdiag.diagnose({"step": range(4), "loss_scale": [2.0**24, 2**23, 2**22, 2**21]})
    assert report.diagnosis.slug == "insufficient-data"
    assert "cannot be tested. 3 overflows" in report.diagnosis.summary


def test_a_log_without_losses_reports_the_layer_that_grew_most():
    log = {"step": range(4), "layer.0/act_max": [3.0] * 4, "layer.1/act_max": [2.0, 4, 8, 16]}
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert summary.endswith("tested. 'layer.1/act_max' went from 2 to 16.")


@pytest.mark.parametrize(
    ("peak", "dtype", "expected"),
    [
        (59453.0, None, "'max_activation' reached 59453 by step 8: the maximum of fp16 is 65504."),
        (
            65504.0,
            "fp16",
            "'max_activation' reached 65504 by step 8: the maximum of fp16 is 65504.",
        ),
        (
            448.0,
            "bf16",
            "'max_activation' reached 448 by step 8: the maximum of fp8 (e4m3) is 448.",
        ),
        (59453.0, "bf16", ""),
        (20000.0, None, ""),
        (440.0, None, ""),
    ],
)
def test_activations_near_the_dtype_limit_are_reported_without_a_loss(peak, dtype, expected):
    log = {"step": range(9), "max_activation": [*range(1, 9), peak], "grad_norm": [0.5] * 9}
    finding = stabdiag.diagnose(log, manifest={"dtype": dtype} if dtype else None).diagnosis
    assert finding.summary.endswith(expected or f"'max_activation' went from 1 to {peak:g}.")
    loss = stabdiag.diagnose({**log, "loss": [2.0] * 9}, manifest={"dtype": "fp16"})
    assert "the maximum of" not in loss.diagnosis.summary


def test_missing_series_are_listed_by_their_cost():
    report = stabdiag.diagnose({"step": range(50), "loss": [2.0] * 50}, manifest={"dtype": "fp16"})
    assert [missing.role for missing in report.not_logged] == [
        *("grad_norm", "lr", "batch_id", "weight_norm", "loss_scale"),
        "checkpoint cadence (manifest)",
    ]
    assert all(missing.cost for missing in report.not_logged)


def of_rise(calm_log, rise, **extra):
    history = stabdiag.read(calm_log)
    case = Case(history=history, manifest=Manifest(**extra), limits=Limits())
    case.__dict__["measures"] = replace(measure(case), rise=rise)
    return case


SLIGHT = Rise(
    points=40,
    deviation=0.01,
    best=500,
    onset=600,
    crest=790,
    bar=0.1,
    best_level=2.0,
    last_level=2.08,
    progress=2.0,
    p_value=1e-9,
    recent_p_value=1e-9,
)


@pytest.mark.parametrize("norm", ["flat", "rising", "missing"])
def test_a_rise_too_small_to_matter_is_a_plateau(calm, norm):
    log = calm()
    if norm == "rising":
        log["grad_norm"][400:] *= np.geomspace(1, 9, 400)
    elif norm == "missing":
        del log["grad_norm"]
    result = walk(of_rise(log, SLIGHT))
    assert [finding.slug for finding in result.findings] == ["plateau"]
    assert [answer.question for answer in result.answers][-2:] == ["Q4.1", "Q4.4"]
    assert result.answers[-2].branch == "slight"
    assert result.answers[-1].branch == "plateau"
    assert result.answers[-1].verdict == ("unknown" if norm == "missing" else "no")
    assert ("that explains nothing" in result.answers[-1].because) is (norm == "rising")
    assert result.findings[0].severity is Severity.NOTE
    assert result.findings[0].first_action.startswith("Check the evaluation loss")


@pytest.mark.parametrize(
    ("rate", "slug"),
    [
        ("rising", "divergence-lr-rising"),
        ("constant", "spike-persistent"),
        ("restarting", "spike-persistent"),
    ],
)
def test_a_jump_ends_the_climb_that_a_rising_learning_rate_began(calm, rate, slug):
    log = calm()
    log["loss"][300:600] += np.linspace(0, 0.8, 300)
    log["loss"][600:] += 20.0
    if rate != "constant":
        log["lr"] = 1e-3 * (1 + np.arange(800) / 100)
    if rate == "restarting":
        log["lr"][200:] = log["lr"][:-200]
        log["lr"][:200] = 9e-3
    assert stabdiag.diagnose(log).diagnosis.slug == slug


NOISE, STEPS = np.random.default_rng(0).standard_normal(800), np.arange(800)
STEEP = 0.02 + 0.6 * np.exp(-((STEPS / 20) ** 2)) + 0.02 * np.exp(-STEPS / 100) + 0.001 * NOISE
FALLS = 0.3 + 2.0 * np.exp(-STEPS / 150) + 0.004 * np.exp(0.5 * NOISE)


@pytest.mark.parametrize(
    ("losses", "at", "height", "lasts"),
    [
        (STEEP, 268, 0.05, 20),
        *((STEEP, 268, height, lasts) for height in (0.08, 0.15) for lasts in (1, 3)),
        *((FALLS, 300, 0.3, lasts) for lasts in (1, 3)),
    ],
)
def test_a_descent_hides_no_spike(losses, at, height, lasts):
    loss = losses.copy()
    loss[at : at + lasts] += height * np.exp(-np.arange(lasts) / 5)
    report = stabdiag.diagnose({"step": STEPS, "loss": loss})
    assert (slugs(report), report.diagnosis.step) == (["spike-recovered"], at)


def test_a_run_that_must_be_rolled_back_is_not_advised_to_continue(calm):
    alone = stabdiag.diagnose(changed(calm(), add(300, 5.0)))
    assert alone.diagnosis.first_action.startswith("Keep the run going:")
    for fault in (add(slice(500, None), 5.0), put("loss", slice(500, None), np.nan)):
        spike = stabdiag.diagnose(changed(calm(), add(300, 5.0), fault)).findings[1]
        assert spike.slug == "spike-recovered"
        assert spike.first_action == "Check the batch of step 300 and the two before it."


def test_a_loss_that_falls_with_the_rate_or_gradually_is_normal(calm):
    decayed = changed(calm(1000), put("lr", slice(600, None), 1e-4))
    decayed["loss"][600:] /= 8
    learned = calm(1000)
    learned["loss"] /= 1 + 7 * np.clip((np.arange(1000) - 600) / 5, 0, 1)
    lower = calm(1000)
    lower["loss"][600:] *= 0.7
    for log in (decayed, learned, lower):
        assert slugs(stabdiag.diagnose(log)) == ["healthy"]


def test_a_loss_that_is_higher_by_turns_has_no_spike(calm):
    log = calm(3000)
    log["loss"] += np.where((log["step"] // 300) % 2 == 1, 1.0, 0.0)
    assert not any(slug.startswith("spike") for slug in slugs(stabdiag.diagnose(log)))


def test_a_recovered_spike_with_a_cause_is_the_diagnosis(calm):
    report = stabdiag.diagnose(
        changed(calm(), add(300, 5.0), add(500, 3.0), put("batch_id", 500, 470))
    )
    assert (report.diagnosis.slug, report.diagnosis.step) == ("spike-duplicate-batch", 500)


def test_a_short_log_reports_its_overflows_and_its_highest_loss():
    loss = [2.3, 2.2, 2.1, 2.05, 5.9, 2.0, 2.02, 1.98]
    norm = [1.2, 1.1, np.inf, 1.3, np.inf, 1.1, 1.2, 1.1]
    finding = stabdiag.diagnose({"step": np.arange(8), "loss": loss, "grad_norm": norm}).diagnosis
    assert "2 gradient norms not finite" in finding.summary
    assert finding.summary.endswith("The highest loss was 5.9, at step 4.")


def test_a_short_log_reports_a_high_loss_after_the_fall():
    loss = [9.1, 8.3, 1.6, 1.2, 0.81, 0.72, 0.66, 2.4, 6.3, 0.61, 0.52, 0.47]
    report = stabdiag.diagnose({"epoch": np.arange(1, 13), "loss": loss})
    assert report.diagnosis.summary.endswith("It was 6.3 again at epoch 9.")
    calm = stabdiag.diagnose({"epoch": np.arange(1, 13), "loss": [*loss[:7], 0.7, 0.63, *loss[9:]]})
    assert "again" not in calm.diagnosis.summary


@pytest.mark.parametrize(
    ("first_evaluation", "end", "is_healthy"),
    [
        (20, 2.31, False),  # evaluated at the height of the rise, and back where it began
        (20, 2.0, True),
        (100, 2.31, True),  # the evaluation was that high without a rise
    ],
)
def test_a_recovery_from_a_rise_in_the_first_steps_is_not_learning(
    first_evaluation, end, is_healthy
):
    rng = np.random.default_rng(1)
    steps = np.arange(5, 405, 5)
    loss = 2.302 + 0.02 * rng.normal(size=80) + np.r_[0, 0, 3, 9, 6, 3, 1, np.zeros(73)]
    evaluations = np.full(80, np.nan)
    at = np.arange(first_evaluation // 5 - 1, 80, 4)
    evaluations[at] = end + 0.01 * rng.normal(size=len(at)) + np.r_[3.2, np.zeros(len(at) - 1)]
    evaluations[-1] = end
    log = {"step": steps, "loss": loss, "eval_loss": evaluations}
    assert (stabdiag.diagnose(log).diagnosis.slug == "healthy") == is_healthy


@pytest.mark.parametrize(("noise", "is_named"), [(0.04, False), (0.16, True)])
def test_a_healthy_run_names_an_evaluation_far_below_its_last_ones(noise, is_named):
    at = np.arange(40)
    heldout = 0.5 + noise * np.random.default_rng(4).random(40)
    heldout[8] = 0.5
    report = stabdiag.diagnose({"epoch": at, "loss": 2.0 * 0.97**at, "eval_loss": heldout})
    assert report.diagnosis.slug == "healthy"
    lowest = "The evaluation loss was lowest, 0.5, at epoch 8."
    assert (lowest in report.diagnosis.summary) == is_named


def test_a_short_log_of_two_networks_reports_the_loss_of_the_generator():
    log = {"step": np.arange(3), "D loss": [0.5, 0.25, 0.5], "G loss": [1.0, 30.0, 4918.0]}
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert "The loss stayed at" not in summary
    assert "'G loss'" in summary
    assert "from 1 to 4918" in summary
