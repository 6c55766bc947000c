"""Every question of the tree: a run for each of the answers that it can give."""

from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.findings import Answer, Verdict
from tests.tree.made import (
    add,
    answer_to,
    changed,
    climb,
    cut,
    drop,
    only,
    put,
    ramp,
    records,
    series,
    sometimes,
)

FP16, BF16, FP32 = {"dtype": "fp16"}, {"dtype": "bf16"}, {"dtype": "fp32"}


def probing(at):
    """65536, except for one probe at step 500 that overflows immediately."""
    return np.where(at == 500, 131072.0, 65536.0)


def halving(at):
    return 65536.0 * 0.5 ** np.clip((at - 480) // 5, 0, 8)


NAN = put("loss", slice(600, None), np.nan)
SPIKE = add(500, 3.0)
SHIFT = add(slice(500, None), 3.0)
OVERFLOWS = put("grad_norm", list(range(100, 800, 40)), np.inf)

CASES = [
    # question, verdict, branch, manifest, what is done to a calm run
    ("Q1.1", "no", None, {}, []),
    ("Q1.1", "yes", None, {}, [NAN]),
    ("Q1.1", "yes", None, {}, [put("loss", 600, np.inf)]),
    ("Q1.1", "yes", None, {}, [put("loss", 600, -np.inf)]),
    ("Q1.2", "yes", "fp16", FP16, [NAN]),
    ("Q1.2", "yes", "bf16", BF16, [NAN]),
    ("Q1.2", "yes", "fp32", FP32, [NAN]),
    ("Q1.2", "yes", "fp16", {}, [NAN, series("loss_scale", halving)]),
    ("Q1.2", "unknown", None, {}, [NAN]),
    ("Q1.3", "yes", None, FP32, [NAN]),
    ("Q1.3", "unknown", None, FP32, [NAN, drop("grad_norm")]),
    # Norms of zero have no surge.
    (
        *("Q1.3", "unknown", None, FP32),
        [NAN, put("grad_norm", slice(None), 0.0), put("grad_norm", 700, 1.0)],
    ),
    ("Q1.4", "yes", "fp32", FP32, [NAN]),
    ("Q1.4", "yes", "bf16", BF16, [NAN, drop("grad_norm")]),
    ("Q1.4", "yes", None, {}, [NAN]),
    ("Q2.1", "no", None, {}, []),
    ("Q2.1", "yes", None, {}, [SPIKE]),
    ("Q2.1", "unknown", None, {}, [cut(20)]),
    ("Q2.1", "unknown", None, {}, [put("loss", slice(10, None), np.nan)]),
    ("Q2.2", "yes", None, {}, [SPIKE]),
    ("Q2.2", "no", None, {}, [SHIFT]),
    ("Q2.2", "unknown", None, {}, [SHIFT, cut(530)]),
    ("Q2.3", "yes", "lr-jump", {}, [SPIKE, put("lr", slice(499, 520), 1e-2)]),
    ("Q2.3", "yes", "duplicate-batch", {}, [SPIKE, put("batch_id", 500, 470)]),
    ("Q2.3", "yes", "long-tail-batch", {}, [SPIKE, put("grad_norm", 500, 50.0)]),
    # The learning rate is checked first, as its jump also raises the gradient norm.
    (
        *("Q2.3", "yes", "lr-jump", {}),
        [SPIKE, put("lr", slice(499, 520), 1e-2), put("grad_norm", 500, 50.0)],
    ),
    ("Q2.3", "no", None, {}, [SPIKE]),
    ("Q2.3", "no", None, {}, [SPIKE, put("grad_norm", 500, 20.0)]),
    ("Q2.3", "no", None, {}, [SPIKE, put("batch_id", 500, 300)]),
    ("Q2.3", "no", None, {"grad_clip": 1.0}, [SPIKE, put("grad_norm", slice(None), 1.0)]),
    ("Q2.3", "no", None, {}, [SPIKE, put("batch_id", slice(None), 7)]),
    ("Q2.3", "unknown", None, {}, [SPIKE, drop("lr", "batch_id", "grad_norm")]),
    # A warm-up is not a jump.
    (
        *("Q2.3", "no", None, {}),
        [series("lr", lambda at: np.minimum((at + 1) / 50, 1.0) * 1e-3), add(45, 30.0)],
    ),
    ("Q2.4", "yes", None, {"checkpoint_every": 100}, [SHIFT]),
    ("Q2.4", "no", None, {"checkpoint_every": 1000}, [SHIFT]),
    ("Q2.4", "unknown", None, {}, [SHIFT]),
    ("Q3.1", "no", None, FP32, [OVERFLOWS]),
    ("Q3.1", "no", None, BF16, []),
    ("Q3.1", "yes", None, BF16, [OVERFLOWS]),
    ("Q3.1", "yes", None, FP16, [OVERFLOWS]),
    ("Q3.1", "yes", None, FP16, [drop("grad_norm"), series("loss_scale", probing)]),
    ("Q3.1", "unknown", None, {}, [OVERFLOWS]),
    ("Q3.1", "unknown", None, FP16, [drop("grad_norm")]),
    ("Q3.1", "unknown", None, FP16, [series("loss_scale", lambda at: 60000.0 + at)]),
    ("Q3.2", "no", None, FP16, [series("loss_scale", probing)]),
    ("Q3.2", "yes", "static", FP16, [OVERFLOWS, series("loss_scale", lambda at: 0 * at + 128.0)]),
    ("Q3.2", "yes", "collapsed", FP16, [series("loss_scale", lambda at: 2.0 ** (8 - at // 40))]),
    ("Q3.2", "yes", "overflow", FP16, [OVERFLOWS]),
    ("Q3.2", "yes", "overflow", BF16, [OVERFLOWS]),
    ("Q3.3", "yes", None, FP16, [NAN, put("grad_norm", slice(596, None), np.inf)]),
    ("Q3.3", "yes", None, FP16, [NAN, series("loss_scale", lambda at: halving(at - 60))]),
    ("Q3.3", "no", None, FP16, [NAN, series("loss_scale", lambda at: 0 * at + 65536.0)]),
    ("Q3.3", "unknown", None, FP16, [NAN, drop("grad_norm")]),
    ("Q4.1", "no", None, {}, []),
    ("Q4.1", "yes", "material", {}, [climb()]),
    ("Q4.1", "unknown", None, {}, [cut(9)]),
    ("Q4.2", "yes", None, {}, [climb(), ramp("lr", 1e-4, 1e-2)]),
    ("Q4.2", "no", None, {}, [climb()]),
    ("Q4.2", "no", None, {}, [climb(), ramp("lr", 1e-3, 1.01e-3)]),
    ("Q4.2", "no", None, {}, [climb(), ramp("lr", 1e-2, 1e-4)]),
    ("Q4.2", "yes", "jump", {}, [climb(), put("lr", slice(450, None), 1e-2)]),
    # Long before the loss was at its best, too late, and not for long.
    ("Q4.2", "no", None, {}, [climb(), put("lr", slice(100, None), 1e-2)]),
    ("Q4.2", "no", None, {}, [climb(), put("lr", slice(700, None), 1e-2)]),
    ("Q4.2", "no", None, {}, [climb(), put("lr", slice(450, 470), 1e-2)]),
    # The restart comes no higher than the rate had been.
    (
        *("Q4.2", "no", None, {}),
        [climb(), put("lr", slice(50), 1e-2), put("lr", slice(450, None), 1e-2)],
    ),
    ("Q4.2", "unknown", None, {}, [climb(), drop("lr")]),
    ("Q4.3", "yes", "climbing", {}, [climb(), ramp("weight_norm/attn", 10.0, 90.0)]),
    ("Q4.3", "yes", "collapsing", {}, [climb(), ramp("weight_norm/attn", 90.0, 10.0)]),
    ("Q4.3", "no", None, {}, [climb()]),
    ("Q4.3", "unknown", None, {}, [climb(), drop("weight_norm/attn")]),
    ("Q4.3", "unknown", None, {}, [climb(), only("weight_norm/attn", (0, 50))]),
    ("Q4.4", "yes", None, {}, [climb(), ramp("grad_norm", 1.0, 9.0)]),
    ("Q4.4", "no", "unexplained", {}, [climb()]),
    ("Q4.4", "no", "unexplained", {}, [climb(), ramp("grad_norm", 9.0, 1.0)]),
    ("Q4.4", "unknown", "unexplained", {}, [climb(), drop("grad_norm")]),
    ("Q4.4", "unknown", "unexplained", {}, [climb(), put("grad_norm", slice(100, None), np.nan)]),
]


@pytest.mark.parametrize(
    ("question", "verdict", "branch", "manifest", "changes"),
    CASES,
    ids=[f"{number}-{case[0]}-{case[1]}" for number, case in enumerate(CASES)],
)
def test_each_question_has_its_answers(calm, question, verdict, branch, manifest, changes):
    log = records(changed(calm(), *changes))
    answer = answer_to(stabdiag.diagnose(log, manifest=manifest), question)
    assert (answer.verdict, answer.branch) == (verdict, branch)
    assert answer.because
    assert answer.asks.endswith("?")


# Not every answer is possible: a loss is always there to look at, a fix is always named, …
IMPOSSIBLE = {
    ("Q1.1", "unknown"),
    ("Q1.2", "no"),
    ("Q1.3", "no"),
    ("Q1.4", "no"),
    ("Q1.4", "unknown"),
    ("Q3.2", "unknown"),
}


def test_every_possible_answer_has_a_case():
    every = {(question.id, str(verdict)) for question in QUESTIONS for verdict in Verdict}
    assert {(question, verdict) for question, verdict, *_ in CASES} == every - IMPOSSIBLE


# What the answers say.


def test_which_and_where_are_not_answered_with_yes():
    asked_which = [q.asks for q in QUESTIONS if not q.asks.startswith(("Is", "Has", "D"))]
    assert len(asked_which) == 6
    for question in QUESTIONS:
        word = Answer(
            question=question.id, asks=question.asks, verdict=Verdict.YES, because=""
        ).word
        assert word == ("found" if question.asks in asked_which else "yes")
    which = Answer(question="Q1.2", asks="Which dtype?", verdict=Verdict.NO, because="")
    assert which.word == "none"
    assert replace(which, verdict=Verdict.UNKNOWN).word == "unknown"


def test_the_series_that_failed_first_is_named(calm):
    log = changed(calm(), NAN, put("grad_norm", slice(597, None), np.nan))
    log["grad_norm/head"] = np.where(log["step"] < 595, 1.0, np.inf)
    answer = answer_to(stabdiag.diagnose(log, manifest=FP32), "Q1.3")
    assert answer.measured["first_series"] == "grad_norm/head"
    assert answer.measured["lead_steps"] == 5
    assert "went non-finite 5 steps before the loss" in answer.because


def test_one_overflow_long_before_is_not_where_it_began(calm):
    log = changed(calm(), NAN, put("grad_norm", 100, np.inf))
    assert (
        answer_to(stabdiag.diagnose(log, manifest=FP32), "Q1.3").measured["first_series"] == "loss"
    )


@pytest.mark.parametrize(
    ("change", "slug", "expected"),
    [
        (ramp("lr", 1e-4, 1e-2), "divergence-lr-rising", "its rise began at step 300"),
        (put("lr", slice(450, None), 1e-2), "divergence-lr-rising", "to 0.01 at step 450"),
        (
            ramp("weight_norm/attn", 10.0, 90.0),
            "divergence-weight-norm-climbing",
            "the change began at step 300",
        ),
    ],
)
def test_a_climb_begins_where_its_cause_does(calm, change, slug, expected):
    log = changed(calm(), climb(), change)
    report = stabdiag.diagnose(log, manifest={"checkpoint_every": 50})
    assert report.diagnosis.slug == slug
    assert expected in report.diagnosis.summary
    assert report.diagnosis.step == int(expected.split()[-1])
    # The checkpoint is from before both, the climb and its cause.
    begins = min(report.diagnosis.step, answer_to(report, "Q4.1").steps[0])
    assert f"checkpoint of step {(begins - 1) // 50 * 50}" in report.diagnosis.first_action


def test_the_weight_norm_that_changed_most_is_named(calm):
    log = changed(calm(), climb(), ramp("weight_norm/mlp", 10.0, 400.0))
    answer = answer_to(stabdiag.diagnose(log), "Q4.3")
    assert (answer.measured["group"], answer.measured["groups"]) == ("mlp", 2)
    assert answer.measured["ratio"] > 2


RESTARTS = series("lr", lambda at: 1e-3 * (1.02 - (at % 100) / 100))


BACK_SOON = add(slice(500, 504), [3.0, 2.0, 1.0, 0.5])
LATE_CLIMB = climb(500)
SLOW_STEP = add(slice(500, None), np.minimum(np.arange(300) / 100, 1.0) * 3.0)


def decayed_to(last):
    return series("lr", lambda at: np.interp(at, [0, 499, 799], [2e-3, 1e-4, last]))


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        # One restart of many is not the cause, a jump by itself is.
        ([RESTARTS, BACK_SOON], "spike-recovered"),
        ([put("lr", slice(500, 510), 5e-2), BACK_SOON], "spike-lr-jump"),
        # A rate that comes no higher than before does not explain a climb.
        ([LATE_CLIMB, decayed_to(2e-3)], "divergence-unexplained"),
        ([LATE_CLIMB, decayed_to(2e-2)], "divergence-lr-rising"),
        # A slow rise that stays is a spike after a logged cause alone.
        ([SLOW_STEP, put("lr", slice(500, 503), 5e-2)], "spike-persistent"),
        ([SLOW_STEP], "divergence-unexplained"),
        # A batch that comes again long after a spike is not its cause.
        ([add(slice(500, 505), 4.0), put("batch_id", 540, 539)], "spike-recovered"),
        # Ids that were logged only around a spike identify it.
        (
            [BACK_SOON, put("batch_id", 500, 499), only("batch_id", (496, 504))],
            "spike-duplicate-batch",
        ),
        # Weights that are all zero were not shrinking.
        ([SHIFT, put("weight_norm/attn", slice(None), 0.0)], "spike-persistent"),
        # A jump at the end of a climb belongs to it.
        ([climb(200, 4.0), add(slice(700, None), 6.0)], "divergence-unexplained"),
    ],
)
def test_the_logged_cause_is_named(calm, changes, slug):
    log = records(changed(calm(), *changes))
    assert stabdiag.diagnose(log).diagnosis.slug == slug


ONE_RESTART = series("lr", lambda at: 1e-3 * (1.02 - (at % 500) / 500))
RESTARTED_LOSS = add(slice(500, 504), [1.5, 1.0, 0.5, 0.3])


@pytest.mark.parametrize(
    ("schedule", "changes", "slug"),
    [
        ("cosine_with_restarts", [ONE_RESTART], None),
        ("cosine", [ONE_RESTART], "spike-lr-jump"),
        (None, [ONE_RESTART], "spike-lr-jump"),
        # A restart raises the rate to its earlier peak, not above it.
        ("cosine_with_restarts", [put("lr", slice(500, 510), 5e-2)], "spike-lr-jump"),
    ],
)
def test_a_restart_that_the_schedule_names_is_not_a_jump(calm, schedule, changes, slug):
    log = records(changed(calm(), *changes, RESTARTED_LOSS))
    report = stabdiag.diagnose(log, manifest={"schedule": schedule} if schedule else None)
    spikes = [finding.slug for finding in report.findings if finding.slug.startswith("spike")]
    assert spikes == ([slug] if slug else [])


@pytest.mark.parametrize("column", ["loss_D", "train/g_loss", "critic_loss", "policy_loss"])
def test_an_adversarial_loss_may_rise(calm, column):
    log = calm()
    log[column] = log.pop("loss") + np.linspace(0, 4.0, 800)
    report = stabdiag.diagnose(log, columns={"loss": column})
    assert answer_to(report, "Q4.1").verdict is Verdict.UNKNOWN
    assert report.diagnosis.slug == "insufficient-data"
    assert "not tested for climbs (" in report.diagnosis.summary


@pytest.mark.parametrize("column", ["loss_D", "train/g_loss"])
def test_an_adversarial_loss_may_shift(calm, column):
    log = calm()
    log[column] = log.pop("loss")
    log[column][500:] += 2.0
    report = stabdiag.diagnose(log)
    answer = answer_to(report, "Q2.1")
    assert answer.verdict is Verdict.NO
    assert "networks that train against each other, and may shift" in answer.because
    assert report.diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize(
    ("column", "up", "slug"),
    [
        ("loss_D", np.where(np.arange(300) < 5, 3.0, 0.0), "spike-recovered"),
        ("loss_D", 200.0, "spike-persistent"),
        ("policy_loss", 2.0, "spike-persistent"),
        ("loss", 2.0, "spike-persistent"),
    ],
    ids=["back", "exploded", "of a policy", "of no opponent"],
)
def test_limits_of_adversarial_losses(calm, column, up, slug):
    log = calm()
    log[column] = log.pop("loss")
    log[column][500:] += up
    assert stabdiag.diagnose(log, columns={"loss": column}).diagnosis.slug == slug


@pytest.mark.parametrize(
    ("column", "slug"), [("loss_D", "insufficient-data"), ("loss", "spike-recovered")]
)
def test_a_single_loss_of_a_discriminator_may_be_high(calm, column, slug):
    log = calm()
    log[column] = log.pop("loss")
    log[column][500] += 3.0
    assert stabdiag.diagnose(log, columns={"loss": column}).diagnosis.slug == slug


LEARNED = [2.0, 1.6, 1.3, 1.1, 0.9, 0.8, 0.75, 0.74]


@pytest.mark.parametrize(
    ("losses", "climbs"),
    [
        ([0.9, 0.058, 5e19, 2e22], True),
        ([0.058, 5e19, 2e22], True),
        ([1.6, 1.4, 3.3, 6.4, 5.5, 4.9, 4.9, 4.6], True),
        ([*LEARNED, 13.4, 26.6, 26.6, 26.6, 26.6], True),
        # A single loss far out may come back, and so may what is twice as high for a while.
        ([0.9, 0.8, 0.7, 40.0], False),
        ([0.1, 0.9, 1.3, 0.9], False),
        ([0.0005, 0.9, 0.7, 0.5, 0.4], False),
        ([0.1, 1.5, 1.6], False),
        ([1.0, 0.1, 2.5, 2.6, 2.5, 2.4, 2.6], False),
        ([0.4, 0.3, 0.9, 0.9, 0.9], False),
        ([*LEARNED, 0.8, 0.74, 0.7], False),
    ],
)
def test_a_clear_rise_is_found_in_a_short_log(losses, climbs):
    slug = stabdiag.diagnose({"loss": losses}).diagnosis.slug
    assert slug == "divergence-unexplained" if climbs else slug in ("insufficient-data", "healthy")


@pytest.mark.parametrize(
    ("rise", "count", "verdict"),
    [(0.0, 10, Verdict.NO), (0.05, 15, Verdict.NO), (0.3, 15, Verdict.UNKNOWN), (0.0, 9, None)],
)
def test_a_short_log_that_only_falls_has_no_spike(rise, count, verdict):
    loss = 0.1 + 2 * np.exp(-np.arange(count) / 4)
    loss[7] += rise + float(loss[6] - loss[7]) * (rise > 0)
    report = stabdiag.diagnose({"loss": loss})
    assert answer_to(report, "Q2.1").verdict is (verdict or Verdict.UNKNOWN)
    assert report.diagnosis.slug == ("healthy" if verdict is Verdict.NO else "insufficient-data")


def test_a_short_log_without_progress_is_not_healthy():
    loss = np.array([2.31, 2.30, 2.305, 2.31, 2.30, 2.302, 2.31, 2.303, 2.30, 2.304, 2.302, 2.30])
    assert stabdiag.diagnose({"loss": loss}).diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize(("count", "verdict"), [(9, Verdict.UNKNOWN), (10, Verdict.NO)])
def test_a_trend_requires_ten_losses(calm, count, verdict):
    short = {name: values[:count] for name, values in calm().items()}
    report = stabdiag.diagnose(short)
    assert report.diagnosis.slug == "insufficient-data"
    assert answer_to(report, "Q4.1").verdict is verdict
    assert ("no climb" in report.diagnosis.summary) == (verdict is Verdict.NO)


def test_sparse_weight_norms_are_compared_with_each_other(calm):
    log = calm(4000)
    rise = np.maximum(log["step"] - 2500, 0) / 300
    log |= {"loss": log["loss"] + rise, "weight_norm/attn": 10.0 * np.exp(rise)}
    sparse = sometimes(log, "weight_norm/attn", log["step"] % 250 == 0)
    answer = answer_to(stabdiag.diagnose(sparse), "Q4.3")
    assert answer.branch == "climbing"
    assert "within 500 steps (not 200: it was logged too rarely)" in answer.because


def test_a_short_log_that_falls_only_at_its_first_loss_is_not_tested_for_spikes():
    loss = np.array([1.209, 1.144, *np.resize([1.146, 1.145, 1.1455], 12)])
    report = stabdiag.diagnose({"step": np.arange(len(loss)), "loss": loss})
    assert report.diagnosis.slug == "insufficient-data"
