"""Runs that are worse on average, but not clearly in any interval; and runs that are too good."""

import numpy as np
import pytest

import stabdiag
from stabdiag.baseline.judge import judge
from stabdiag.formats import render
from stabdiag.model.baseline import BaselineStatus
from stabdiag.model.findings import ActionKind, Severity
from stabdiag.stats.bands import (
    Prior,
    bin_levels,
    comparable_levels,
    deviation_bar,
    end_bar,
    make_band,
)
from stabdiag.stats.bands import measure_deviation as measure
from tests.baseline.made import STEPS, run
from tests.baseline.test_judge import profile

PRIOR = Prior(level=0.01, shift=0.06)


def noisy(seed, *, noise=0.4, steps=STEPS, **options):
    """Return a run that logs only a training loss, with much noise."""
    columns = run(seed, noise=noise, **options)
    return {name: columns[name][:steps] for name in ("step", "loss")}


def noisy_references(number=3):
    return [profile(noisy(seed), f"seed{seed}") for seed in range(number)]


def judged(columns, number=3):
    return judge(profile(columns), noisy_references(number))


@pytest.mark.parametrize("seed", range(50, 56))
def test_a_difference_below_the_noise_of_each_interval_shows_on_average(seed):
    result = judged(noisy(seed, worse=1.25, since=120))
    assert result.status is BaselineStatus.WORSE
    series = result.deciding
    if series.averaged:
        assert end_bar(deviation_bar(3)) == series.bar < series.peak
        assert result.step == series.onset > STEPS // 2 - 20
        assert 1.1 < series.ratio < 1.4
        assert series.level > series.band_high[-1]


def test_at_least_one_of_these_is_found_only_on_average():
    worse = [judged(noisy(seed, worse=1.25, since=120)) for seed in range(50, 56)]
    assert sum(result.deciding.averaged for result in worse) >= 2


@pytest.mark.parametrize("seed", range(60, 72))
@pytest.mark.parametrize("number", [1, 3, 8])
def test_noise_alone_is_not_worse_on_average(seed, number):
    assert judged(noisy(seed), number).status is BaselineStatus.INSIDE


@pytest.mark.parametrize(
    "options",
    [
        {"worse": 1 / 1.25, "since": 120},  # on the good side
        {"worse": 1.25, "since": 120, "until": 240},  # it came back
        {"worse": 1.25, "since": 120, "steps": 300},  # it has not ended
        {"worse": 1.05, "since": 120},  # too little
    ],
)
def test_the_average_decides_only_for_a_finished_run_that_is_worse(options):
    for seed in range(50, 56):
        assert judged(noisy(seed, **options)).status is not BaselineStatus.WORSE


def test_the_sentence_names_an_average():
    reports = [
        stabdiag.diagnose(
            noisy(seed, worse=1.25, since=120), baseline=[noisy(other) for other in range(3)]
        )
        for seed in range(50, 56)
    ]
    averaged = [report for report in reports if report.baseline.deciding.averaged]
    assert averaged
    for report in averaged:
        assert "its training loss is on average " in report.diagnosis.summary
        assert "% above theirs" in report.diagnosis.summary
        assert report.to_dict()["baseline"]["series"][0]["averaged"] is True


def deviation(stride):
    """Return the deviation of a run that logs a value each ``stride`` steps."""
    steps = np.arange(stride, 2049, stride)
    rng = np.random.default_rng(stride)

    def logged(level):
        return bin_levels(steps, level * np.exp(0.1 * rng.standard_normal(len(steps))), 2048)

    return measure(logged(1.1), make_band([logged(1.0) for _ in range(3)], PRIOR))


def test_an_average_is_the_mean_of_the_last_octave():
    dense = deviation(1)
    average = dense.average_at_end()
    assert average.bins == 8
    assert average.difference == pytest.approx(dense.difference[-8:].mean())
    assert average.difference == pytest.approx(np.log(1.1), abs=0.01)
    # Noise averages out, the spread between good runs does not.
    assert np.abs(dense.values[-8:]).mean() < average.value
    assert average.value < dense.difference[-8:].mean() / np.sqrt(dense.variance[-8:].mean())


def test_few_intervals_have_no_average():
    assert deviation(256).average_at_end().bins == 4
    assert deviation(512).average_at_end() is None


def too_good(*, worse=0.1, evaluated=False, rate=None):
    columns = run(50, worse=worse, since=100)
    names = ("step", "loss", *(["eval_loss"] if evaluated else []))
    return {name: columns[name] for name in names} | ({} if rate is None else {"lr": rate})


def references(*, evaluated=False, rate=None):
    names = ("step", "loss", *(["eval_loss"] if evaluated else []))
    return [
        {name: run(seed)[name] for name in names} | ({} if rate is None else {"lr": rate})
        for seed in range(4)
    ]


def test_a_loss_that_is_too_good_is_a_warning():
    report = stabdiag.diagnose(too_good(), baseline=references())
    assert report.diagnosis.slug == "better-than-baseline"
    assert report.diagnosis.severity is Severity.WARNING
    assert "no evaluation confirms it" in report.diagnosis.summary
    assert report.diagnosis.actions[0].kind is ActionKind.CHECK_EVALUATION
    assert "held-out" in report.diagnosis.actions[0].text


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (too_good(worse=0.6), references()),  # better, but not by a factor of two
        (too_good(evaluated=True), references(evaluated=True)),  # the evaluation confirms it
        (too_good(rate=np.full(STEPS, 0.02)), references(rate=np.full(STEPS, 0.01))),
    ],
)
def test_a_better_loss_with_an_explanation_is_a_note(own, others):
    report = stabdiag.diagnose(own, baseline=others)
    (finding,) = (item for item in report.findings if item.section == "baseline")
    assert finding.slug == "better-than-baseline"
    assert finding.severity is Severity.NOTE
    assert not report.baseline.is_unexplained


def test_a_setting_that_differs_explains_a_better_loss():
    def with_width(columns, width, name):
        return profile(columns, name, {"weight_decay": width})

    others = [with_width(columns, 0.1, f"seed{at}") for at, columns in enumerate(references())]
    assert judge(with_width(too_good(), 0.1, "run"), others).is_unexplained
    assert not judge(with_width(too_good(), 0.0, "run"), others).is_unexplained


def test_the_terminal_plot_shows_a_band_far_below_the_run():
    others = [run(seed) for seed in range(4)]
    text = render(stabdiag.diagnose(run(50, worse=40.0, since=2), baseline=others), "terminal")
    plot = text[text.index("dots: the band") :].split("Checked")[0]
    dotted = [line for line in plot.splitlines() if "·" in line]
    assert len(dotted) >= 2


def means_over_five(columns):
    steps, losses = columns["step"].reshape(-1, 5), columns["loss"].reshape(-1, 5)
    return {"step": steps[:, -1], "loss": losses.mean(axis=1)}


@pytest.mark.parametrize("number", [3, 12])
def test_means_over_steps_are_compared_with_every_step(number):
    # With this noise, logarithms are 20 % lower on average than the logarithm of the mean.
    options = {"noise": 0.7}
    others = [profile(noisy(seed, **options), f"seed{seed}") for seed in range(number)]
    for seed in range(60, 66):
        result = judge(profile(means_over_five(noisy(seed, **options))), others)
        assert result.status is BaselineStatus.INSIDE
    worse = means_over_five(noisy(60, worse=2.5, since=100, **options))
    assert judge(profile(worse), others).status is BaselineStatus.WORSE


def test_references_may_log_at_different_strides():
    dense = [profile(noisy(seed, noise=0.7), f"seed{seed}") for seed in range(4)]
    sparse = [profile(means_over_five(noisy(seed, noise=0.7)), f"m{seed}") for seed in range(4, 8)]
    result = judge(profile(noisy(60, noise=0.7)), [*dense, *sparse])
    assert result.status is BaselineStatus.INSIDE
    assert len(result.references) == 8


def test_levels_at_the_same_stride_keep_the_mean_of_logarithms():
    steps = np.arange(1, 401)
    values = np.exp(np.random.default_rng(0).standard_normal(400))
    dense = bin_levels(steps, values, 400)
    sparse = bin_levels(steps[4::5], values[4::5], 400)
    same, none = comparable_levels([dense, None])
    assert same is dense
    assert none is None
    other, _ = comparable_levels([dense, sparse])
    assert other.log_mean == pytest.approx(np.log(dense.mean))
    values[10] = -1.0
    negative = bin_levels(steps, values, 400)
    assert comparable_levels([negative, sparse])[0] is negative
