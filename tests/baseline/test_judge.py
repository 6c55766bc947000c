"""Verdicts about a run and its references."""

from dataclasses import replace

import numpy as np
import pytest

from stabdiag import StabdiagError, diagnose
from stabdiag.baseline.judge import judge
from stabdiag.baseline.profile import run_profile
from stabdiag.model.baseline import BaselineStatus, Unusable
from stabdiag.model.manifest import Manifest, parse_manifest
from stabdiag.sources.names import run_name
from stabdiag.stats.bands import deviation_bar
from tests.baseline.made import run


def profile(columns, name="", manifest=None, key=""):
    settings = Manifest() if manifest is None else parse_manifest(manifest)
    history = diagnose(columns).history
    return replace(run_profile(history, settings, name=name or "run"), key=key)


def good(number=5, **options):
    return [profile(run(seed, **options), f"seed{seed}") for seed in range(number)]


def verdict(columns, references=None, **options):
    return judge(profile(columns, **options), good() if references is None else references)


@pytest.mark.parametrize("references", [1, 2, 3, 5, 8])
def test_a_good_run_is_inside_the_band(references):
    assert verdict(run(50), good(references)).status is BaselineStatus.INSIDE


@pytest.mark.parametrize("references", [2, 3, 5, 8])
def test_a_run_that_ends_higher_is_worse(references):
    result = verdict(run(50, worse=1.4, since=200), good(references))
    assert result.status is BaselineStatus.WORSE
    assert result.deciding.role == "eval_loss"
    assert result.deciding.ratio == pytest.approx(1.4, rel=0.05)
    assert 180 <= result.step <= 230


def test_one_reference_shows_only_a_large_difference():
    assert verdict(run(50, worse=1.1, since=200), good(1)).status is BaselineStatus.INSIDE
    assert verdict(run(50, worse=3, since=200), good(1)).status is BaselineStatus.WORSE


@pytest.mark.parametrize(
    ("worse", "steps", "until", "status"),
    [
        (1.045, 400, None, BaselineStatus.WORSE),
        # The same difference in a run that has not ended, that comes back, or on the good side.
        (1.045, 250, None, BaselineStatus.INSIDE),
        (1.045, 400, 300, BaselineStatus.INSIDE),
        (1 / 1.045, 400, None, BaselineStatus.INSIDE),
    ],
)
def test_a_finished_run_is_judged_by_a_lower_bar(worse, steps, until, status):
    columns = run(50, worse=worse, since=100, until=until)
    columns = {name: values[:steps] for name, values in columns.items()}
    result = verdict(columns, good(3))
    assert result.status is status
    for series in result.series:
        if series.decides:
            assert series.peak < deviation_bar(3)
            assert (series.peak > series.bar) == (series.status is BaselineStatus.WORSE)
    if status is BaselineStatus.WORSE:
        assert result.deciding.level > result.deciding.band_high[-1]


def test_a_run_that_ends_lower_is_better():
    result = verdict(run(50, worse=0.6, since=200))
    assert result.status is BaselineStatus.BETTER
    assert not result.deciding.higher


def test_a_run_that_came_back_left():
    result = verdict(run(50, worse=1.5, since=100, until=200))
    assert result.status is BaselineStatus.LEFT
    assert result.step < result.deciding.back
    assert 190 <= result.deciding.back <= 220


def test_a_run_that_is_outside_throughout_is_unlike():
    result = verdict(run(50, worse=2.0))
    assert result.status is BaselineStatus.UNLIKE
    assert result.step == 1


def test_a_worse_evaluation_decides_if_the_training_loss_is_inside():
    columns = run(50)
    late = columns["step"] > 200
    columns["eval_loss"] = np.where(late, 1.4, 1.0) * columns["eval_loss"]
    result = verdict(columns)
    assert result.status is BaselineStatus.WORSE
    assert result.deciding.role == "eval_loss"


def test_a_better_evaluation_outweighs_a_higher_training_loss():
    columns = run(50)
    late = columns["step"] > 200
    columns["loss"] = np.where(late, 1.4, 1.0) * columns["loss"]
    columns["eval_loss"] = np.where(late, 0.7, 1.0) * columns["eval_loss"]
    assert verdict(columns).status is BaselineStatus.BETTER


def test_a_worse_accuracy_decides_if_the_losses_are_inside():
    def with_accuracy(seed, factor=1.0):
        columns = run(seed)
        late = columns["step"] > 200
        accuracy = 1 / (1 + columns["loss"])
        return {**columns, "val_accuracy": np.where(late, factor, 1.0) * accuracy}

    references = [profile(with_accuracy(seed), f"seed{seed}") for seed in range(5)]
    assert judge(profile(with_accuracy(50)), references).status is BaselineStatus.INSIDE
    result = judge(profile(with_accuracy(50, 0.8)), references)
    assert result.status is BaselineStatus.WORSE
    assert result.deciding.role == "eval_accuracy"
    assert judge(profile(with_accuracy(50, 1.2)), references).status is BaselineStatus.BETTER


def test_a_gradient_norm_does_not_decide():
    columns = run(50)
    columns["grad_norm"] = 5 * columns["grad_norm"]
    result = verdict(columns)
    assert result.status is BaselineStatus.INSIDE
    assert result.first_to_leave.role == "grad_norm"


def test_a_series_that_was_logged_for_the_first_steps_is_not_the_end():
    def first_losses(seed, factor=1.0):
        history = diagnose(run(seed)).history
        loss = history.series["loss"].until(60)
        loss = replace(loss, values=np.where(loss.steps > 20, factor, 1.0) * loss.values)
        history = replace(history, series={**history.series, "loss": loss})
        return replace(run_profile(history, Manifest()), key="")

    references = [first_losses(seed) for seed in range(3)]
    assert judge(first_losses(50), references).status is BaselineStatus.INSIDE
    result = judge(first_losses(50, 1.5), references)
    assert result.status is not BaselineStatus.WORSE
    assert result.first_to_leave.role == "loss"


def test_a_loss_that_is_not_finite_is_worse():
    columns = run(50)
    columns["loss"][300:] = np.nan
    result = verdict(columns)
    assert result.status is BaselineStatus.WORSE
    assert result.non_finite
    assert result.step == 301


def test_a_reference_whose_loss_is_not_finite_is_left_out():
    bad = run(7)
    bad["loss"][300:] = np.nan
    result = verdict(run(50), [*good(4), profile(bad, "bad")])
    assert result.status is BaselineStatus.INSIDE
    assert [(reference.name, reference.step) for reference in result.left_out] == [("bad", 301)]
    assert "bad" not in result.references


def test_one_bad_reference_of_five_is_left_out():
    bad = profile(run(7, worse=1.6, since=100), "bad")
    result = verdict(run(50), [*good(4), bad])
    assert [reference.name for reference in result.left_out] == ["bad"]
    assert result.status is BaselineStatus.INSIDE
    worse = verdict(run(50, worse=1.6, since=100), [*good(4), bad])
    assert worse.status is BaselineStatus.WORSE


def test_several_bad_references_of_many_are_left_out():
    bad = [profile(run(seed, worse=1.6, since=100), f"bad{seed}") for seed in range(60, 65)]
    result = verdict(run(50), [*good(40), *bad])
    names = {reference.name for reference in result.left_out}
    assert names >= {f"bad{seed}" for seed in range(60, 65)}
    assert len(names) <= 45 // 4
    assert result.status is BaselineStatus.INSIDE


def test_at_most_a_quarter_is_left_out():
    bad = [profile(run(seed, worse=1.6, since=100), f"bad{seed}") for seed in (7, 8, 9)]
    assert len(verdict(run(50), [*good(3), *bad]).left_out) <= 1


def test_one_bad_reference_of_three_makes_the_baseline_unusable():
    result = verdict(run(50), [*good(2), profile(run(7, worse=2, since=100), "bad")])
    assert result.status is BaselineStatus.UNUSABLE
    assert result.unusable is Unusable.SPREAD
    assert result.odd_one.name == "bad"


def scaled(seed, factor):
    """Return a run whose evaluation loss is higher by a factor, its training loss not."""
    columns = run(seed)
    columns["eval_loss"] = factor * columns["eval_loss"]
    return columns


@pytest.mark.parametrize(
    ("factor", "status"), [(1.0, BaselineStatus.INSIDE), (3.0, BaselineStatus.WORSE)]
)
def test_an_evaluation_loss_that_varies_between_good_runs_still_decides(factor, status):
    references = [
        profile(scaled(seed, own), f"good{seed}")
        for seed, own in enumerate((0.85, 0.93, 1.06, 1.16))
    ]
    result = verdict(scaled(50, factor), references)
    assert result.status is status
    assert "eval_loss" in [series.role for series in result.series if series.decides]
    if status is BaselineStatus.WORSE:
        assert result.deciding.role == "eval_loss"


def test_a_series_that_differs_too_much_between_good_runs_is_named():
    references = [
        profile(scaled(seed, own), f"good{seed}") for seed, own in enumerate((0.05, 1.0, 20.0))
    ]
    result = verdict(scaled(50, 1.0), references)
    assert result.status is BaselineStatus.INSIDE
    assert result.too_different == ("evaluation loss",)
    assert "Not compared, since it differs too much between" in result.inside
    assert verdict(run(50), good(3)).too_different_text == ""


def test_a_reference_that_came_back_is_kept():
    odd = profile(run(7, worse=2, since=100, until=140), "odd")
    assert verdict(run(50), [*good(2), odd]).status is not BaselineStatus.UNUSABLE


def test_a_run_is_never_its_own_reference():
    bad = run(50, worse=1.5, since=200)
    own = profile(bad, "own", key="/runs/own")
    assert judge(own, [*good(3), own]).status is BaselineStatus.WORSE
    assert judge(own, [own]).unusable is Unusable.NONE_LEFT


def test_few_common_bins_say_nothing():
    short = {"step": range(1, 6), "loss": [3.0, 2.9, 2.8, 2.7, 2.6]}
    result = judge(profile(short), good())
    assert result.status is BaselineStatus.UNUSABLE
    assert result.unusable is Unusable.FEW_BINS


def test_series_that_are_not_shared_say_nothing():
    steps = range(1, 401)
    reward = profile({"step": steps, "reward": np.linspace(0, 1, 400), "loss": np.ones(400)})
    only = replace(reward, series={"reward": reward.series["reward"]})
    assert judge(only, good()).unusable is Unusable.NO_SERIES


def test_nothing_is_judged_past_the_end_of_the_references():
    longer = run(50, steps=1600, worse=1.5, since=500)
    result = verdict(longer)
    assert result.status is BaselineStatus.INSIDE
    assert result.compared_until <= 400
    assert (result.references_until, result.last_step) == (400, 1600)


@pytest.mark.parametrize(
    ("key", "value", "other", "named"),
    [
        ("dataset", "cifar10", "imagenet", "dataset"),
        ("data.dataset_name", "cifar10", "imagenet", "dataset"),
        ("model", "gpt2", "llama", "model"),
        ("num_classes", 10, 1000, "number of classes"),
        ("tokenizer", "bpe", "unigram", "tokenizer"),
        ("task", "wmt", "ogbg", "task"),
        ("loss_fn", "mse", "l1", "loss"),
    ],
)
def test_runs_of_something_else_are_refused_by_name(key, value, other, named):
    references = [profile(run(seed), f"seed{seed}", {key: other}) for seed in range(2)]
    with pytest.raises(StabdiagError, match=f"another {named}: {value} in this run, {other} in"):
        verdict(run(50), references, manifest={key: value})


def test_the_same_name_in_another_folder_is_the_same_thing():
    references = [profile(run(0), "a", {"dataset": "/mnt/data/cifar10"})]
    result = verdict(run(50), references, manifest={"dataset": "/home/me/CIFAR10/"})
    assert result.references == ("a",)


def test_settings_in_only_one_manifest_are_not_compared():
    result = verdict(run(50), manifest={"dataset": "cifar10"})
    assert len(result.references) == 5


def test_a_reference_of_something_else_is_left_out_if_others_are_not():
    other = profile(run(7), "other", {"dataset": "imagenet"})
    same = [profile(run(seed), f"seed{seed}", {"dataset": "cifar10"}) for seed in range(3)]
    result = verdict(run(50), [*same, other], manifest={"dataset": "cifar10"})
    assert [reference.name for reference in result.left_out] == ["other"]


def test_settings_that_differ_are_named_those_that_explain_first():
    shared = {"peak_lr": 0.1, "seed": 3, "run_name": "a", "grad_clip": 1.0, "note_color": 1}
    references = [profile(run(seed), f"seed{seed}", {**shared, "seed": seed}) for seed in range(3)]
    own = {**shared, "peak_lr": 0.3, "seed": 50, "run_name": "b", "note_color": 2}
    result = verdict(run(50), references, manifest=own)
    assert [setting.key for setting in result.settings] == ["peak_lr", "note_color"]
    assert (result.settings[0].value, result.settings[0].reference) == (0.3, 0.1)


def test_a_setting_that_differs_among_the_references_is_not_named():
    references = [profile(run(s), f"seed{s}", {"peak_lr": 0.1 * (1 + s)}) for s in range(3)]
    assert verdict(run(50), references, manifest={"peak_lr": 9.0}).settings == ()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("good/run_b/log.jsonl", "run_b"),
        ("runs/17/metrics.csv", "runs"),
        ("a/b.csv", "b"),
        ("metrics.csv", "metrics.csv"),
        ("", ""),
    ],
)
def test_a_run_is_named_by_its_file_or_its_folder(source, name):
    assert run_name(source) == name


def test_a_run_that_reaches_zero_is_compared_by_its_values():
    columns = run(50, end=0.7)
    columns["eval_loss"][9] = 0.0
    result = verdict(columns)
    assert result.status is BaselineStatus.WORSE
    assert result.deciding.role == "eval_loss"
    assert result.deciding.ratio is None


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-320, 0.0])
def test_extreme_values_are_compared_without_a_warning(value):
    columns = run(50)
    columns["loss"] = np.where(columns["step"] % 50 == 0, value, columns["loss"])
    verdict(columns)
    verdict(run(51), [*good(2), profile(columns, "odd")])
