"""The tree to the letter."""

import numpy as np
import pytest

import stabdiag
from stabdiag.tree import causes
from tests.tree.made import answer_to


def literal(log, **manifest):
    return stabdiag.diagnose(log, manifest=manifest, literal=True)


def sections(report):
    return {answer.question[:2] for answer in report.tree.answers}


def quiet(n=800):
    """A loss that falls in zigzag: no point of it is three deviations up."""
    return {"step": np.arange(n), "loss": 4.0 - np.arange(n) / n + 0.1 * (np.arange(n) % 2)}


def test_every_exceedance_is_a_spike(calm):
    log = calm(3000, seed=1)
    assert stabdiag.diagnose(log).diagnosis.slug == "healthy"
    report = literal(log)
    assert report.diagnosis.slug.startswith("spike-")
    assert report.literal


def test_the_first_section_that_finds_something_ends_the_walk():
    log = quiet(1200)
    log["loss"][300] += 3.0
    log["loss"][900:] = np.linspace(4.0, 9.0, 300)
    assert stabdiag.diagnose(log).diagnosis.slug.startswith("divergence-")
    report = literal(log)
    assert sections(report) == {"Q1", "Q2"}
    assert {finding.section for finding in report.findings} == {"§2"}


@pytest.mark.parametrize("slope", [1e-4, 1e-9])
def test_a_rise_at_every_step_is_a_divergence_however_small(slope):
    log = {"step": np.arange(400), "loss": 2.0 + slope * np.arange(400)}
    report = literal(log | {"grad_norm": np.linspace(1, 9, 400)})
    assert report.diagnosis.slug == "divergence-grad-norm-rising"
    assert report.diagnosis.step == 199


def test_one_step_down_in_the_window_is_not_a_divergence():
    loss = 2.0 + 1e-3 * np.arange(400)
    loss[[300, 301]] = loss[[301, 300]]
    report = literal({"step": np.arange(400), "loss": loss})
    assert report.diagnosis.slug == "healthy"
    assert "did not rise at every step of the last 200" in report.tree.answers[-1].because


@pytest.mark.parametrize(
    ("added", "slug"),
    [
        ({"lr": np.linspace(1e-4, 1e-2, 400)}, "divergence-lr-rising"),
        ({"lr": np.where(np.arange(400) < 350, 1e-3, 2e-3)}, "divergence-lr-rising"),
        ({"weight_norm/a": np.geomspace(1, 30, 400)}, "divergence-weight-norm-climbing"),
        ({"weight_norm/a": np.geomspace(30, 1, 400)}, "divergence-weight-norm-collapsing"),
        ({"grad_norm": np.linspace(1, 9, 400)}, "divergence-grad-norm-rising"),
        ({"grad_norm": np.ones(400)}, "plateau"),
        ({}, "divergence-unexplained"),
    ],
    ids=["lr", "lr higher at the end", "grow", "shrink", "grad norm", "flat", "not logged"],
)
def test_the_causes_are_looked_for_in_the_last_window(added, slug):
    log = {"step": np.arange(400), "loss": 2.0 + 1e-3 * np.arange(400), **added}
    assert literal(log).diagnosis.slug == slug


def test_a_nan_ends_the_walk_and_the_lead_up_is_walked_to_the_letter_too():
    log = quiet()
    log["loss"][300] += 3.0
    log["loss"][600:] = np.nan
    report = literal(log, dtype="fp32")
    assert report.diagnosis.slug == "nan-fp32"
    assert {finding.section for finding in report.findings} == {"§1", "§2"}


@pytest.mark.parametrize(("count", "verdict"), [(3, "unknown"), (19, "unknown"), (20, "yes")])
def test_to_the_letter_few_losses_show_no_climb_however_plain(count, verdict):
    log = {"step": 100 * np.arange(count), "loss": 4.0 ** np.arange(count)}
    assert answer_to(literal(log), "Q4.1").verdict == verdict


def test_constant_loss_has_a_literal_score_of_zero():
    report = literal({"step": np.arange(300), "loss": np.full(300, 2.5)})
    answer = answer_to(report, "Q2.1")
    assert answer.measured["largest_score"] == 0
    assert "none is above the steps just before it" in answer.because


def rising(after_dip, stride=100):
    """Return sixty losses at wide intervals; the last `after_dip` of them rise."""
    n = 60
    loss = 3.0 - 0.01 * np.arange(n)
    loss[-after_dip:] = loss[-after_dip] + 0.01 * np.arange(after_dip)
    return {"step": 17 + stride * np.arange(n), "loss": loss}


@pytest.mark.parametrize(("count", "verdict"), [(3, "no"), (19, "no"), (20, "yes")])
def test_last_window_of_a_sparse_log_has_the_minimum_of_losses(count, verdict):
    report = literal(rising(count))
    answer = answer_to(report, "Q4.1")
    assert answer.verdict == verdict
    assert "at each of the last 20 losses (the log is sparse)" in answer.because


def test_causes_are_computed_once_for_a_thousand_spikes(monkeypatch):
    n, measured = 20_000, []
    step, random = np.arange(n), np.random.default_rng(0)
    loss = 2.0 + 0.05 * random.standard_normal(n)
    loss[300::20] += 3.0
    log = {"step": step, "loss": loss, "lr": 1e-3 * (1 - step / n), "grad_norm": np.ones(n)}
    for name in ("last_logged_digit", "steps_since_seen", "usual_stride"):
        function = getattr(causes, name)

        def counted(*given, of=function):
            measured.append(of.__name__)
            return of(*given)

        monkeypatch.setattr(causes, name, counted)
    report = literal(log | {"batch_id": random.permutation(n)}, grad_clip=0.5)
    assert report.tree.answers[1].measured["spikes"] > 200
    assert sorted(measured) == ["last_logged_digit", "steps_since_seen", "usual_stride"]


def test_to_the_letter_a_restart_of_the_schedule_is_a_jump():
    n = 1000
    log = quiet(n) | {"lr": 1e-3 * (1.02 - (np.arange(n) % 100) / 100)}
    log["loss"][501] += 3.0
    assert literal(log).diagnosis.slug == "spike-lr-jump"
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-recovered"


def test_the_rule_of_spikes_is_stated_for_steps_after_the_first_window():
    for at, slug in ((100, "healthy"), (101, "spike-recovered")):
        log = quiet()
        log["loss"][at] += 3.0
        report = literal(log)
        assert report.diagnosis.slug == slug
        assert answer_to(report, "Q2.1").measured["tested"] == 699


@pytest.mark.parametrize(
    ("factor", "slug"),
    [
        (2.0, "plateau"),
        (0.5, "plateau"),
        (2.01, "divergence-weight-norm-climbing"),
        (0.49, "divergence-weight-norm-collapsing"),
    ],
)
def test_a_weight_norm_that_exactly_doubles_or_halves_has_not_changed_by_more(factor, slug):
    norm = np.where(np.arange(400) < 300, 3.0, 3.0 * factor)
    log = {"step": np.arange(400), "loss": 2.0 + 1e-3 * np.arange(400), "weight_norm/a": norm}
    log["grad_norm"] = np.ones(400)
    assert literal(log).diagnosis.slug == slug


@pytest.mark.parametrize(
    ("count", "stride", "expected"),
    [
        (90, 1, "the rule tests steps after the first 100"),
        (400, 100, "a standard deviation requires 2 losses within 100 steps"),
    ],
)
def test_the_spike_rule_is_unknown_where_it_cannot_apply(count, stride, expected):
    loss = quiet(count)["loss"]
    loss[count // 2] += 3.0
    answer = answer_to(literal({"step": stride * np.arange(count), "loss": loss}), "Q2.1")
    assert answer.verdict == "unknown"
    assert expected in answer.because


def test_whether_a_spike_recovered_in_50_steps_is_unknown_on_a_sparser_log():
    # Two losses to the window; each of them 60 steps after the last.
    loss = 4.0 - 0.001 * np.arange(100) + 0.1 * (np.arange(100) % 2)
    loss[60] += 3.0
    report = literal({"step": 60 * np.arange(100), "loss": loss})
    assert answer_to(report, "Q2.2").verdict == "unknown"
    assert "no loss was logged within 50 steps" in answer_to(report, "Q2.2").because


def test_a_constant_scale_is_static_after_the_first_overflow():
    log = quiet() | {"loss_scale": np.full(800, 1024.0), "grad_norm": np.ones(800)}
    log["grad_norm"][300] = np.inf
    finding = literal(log, dtype="fp16", hysteresis=2).diagnosis
    assert (finding.slug, finding.step) == ("loss-scale-static", 300)


@pytest.mark.parametrize(("last", "slug"), [(1.001e-3, "divergence-lr-rising"), (1e-3, "plateau")])
def test_any_higher_learning_rate_counts(last, slug):
    at = np.arange(400)
    log = {"step": at, "loss": 2.0 + 1e-3 * at, "lr": np.linspace(1e-3, last, 400)}
    assert literal(log | {"grad_norm": np.ones(400)}).diagnosis.slug == slug


@pytest.mark.parametrize(
    ("scale", "dtype", "slug"),
    [
        (None, "fp16", "gradient-overflow"),
        (None, "fp32", "healthy"),
        # A scale that halves at the overflow shows that the scaler works.
        (np.where(np.arange(800) < 500, 1024.0, 512.0), "fp16", "healthy"),
        (np.where(np.arange(800) < 500, 1024.0, 0.5), "fp16", "loss-scale-collapsed"),
    ],
)
def test_an_overflow_counts_unless_the_scale_absorbs_it(scale, dtype, slug):
    norm = np.where(np.arange(800) == 500, np.inf, 1.0)
    log = quiet() | {"grad_norm": norm} | ({} if scale is None else {"loss_scale": scale})
    report = stabdiag.diagnose(log, manifest={"dtype": dtype}, literal=True)
    assert report.diagnosis.slug == slug
