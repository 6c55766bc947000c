"""A failing run next to a good one, and the cause that different settings point to."""

import json
import re

import numpy as np
import pytest

import stabdiag
from stabdiag.comparison.failures import Family, find_family, settings_in_label
from stabdiag.comparison.seeds import tolerance

N = 300


def sound(seed=0, n=N, start=3.0, end=1.0, noise=0.03):
    steps = np.arange(n)
    curve = end + (start - end) * np.exp(-steps / (n / 6))
    return {"step": steps, "loss": curve + np.random.default_rng(seed).normal(0, noise, n)}


def not_finite(seed=0, first=200, **options):
    run = sound(seed, **options)
    run["loss"][first:] = np.nan
    return run


def diverged(seed=0, **options):
    run = sound(seed, **options)
    run["loss"][150:] += np.linspace(0, 4, len(run["loss"]) - 150)
    return run


def flat(seed=0, **options):
    return sound(seed, start=3.0, end=3.0, **options)


def compare(good, bad, good_settings, bad_settings):
    """Compare in both orders and return the diagnosis, which must not depend on the order."""
    comparison = stabdiag.compare([good, bad], manifests=[good_settings, bad_settings])
    other = stabdiag.compare([bad, good], manifests=[bad_settings, good_settings])
    assert other.diagnosis.slug == comparison.diagnosis.slug
    assert (
        other.diagnosis.first_action.replace("run 1", "run 3")
        .replace("run 2", "run 1")
        .replace("run 3", "run 2")
        == comparison.diagnosis.first_action
    )
    return comparison.diagnosis


PRECISION = ({"dtype": "fp32", "seed": 1}, {"dtype": "fp16", "seed": 1})
DISTRIBUTION = ({"world_size": 1, "batch_size": 8}, {"world_size": 8, "batch_size": 64})
SAME_SEED = ({"world_size": 1, "seed": 1}, {"world_size": 8, "seed": 1})
DATA = ({"dataset": "tiny", "total_steps": 300}, {"dataset": "full", "total_steps": 300})


@pytest.mark.parametrize("bad", [not_finite, diverged, flat])
@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        (PRECISION, "change-dtype", "points to precision"),
        (DISTRIBUTION, "check-ranks", "points to distribution"),
        (DATA, "inspect-data", "points to the data"),
        (({"lr": 1e-3}, {"lr": 1e-1}), "lower-lr", "points to the learning rate"),
        (({"frobnicate": 1}, {"frobnicate": 2}), "check-settings", "frobnicate is the suspect"),
        (({"lr": 1e-3, "dropout": 0.1}, {"lr": 1e-2, "dropout": 0}), "check-settings", "suspect"),
        (({"seed": 1}, {"seed": 2}), "lower-lr", "No recorded setting"),
        (({}, {}), "lower-lr", "No recorded setting"),
    ],
)
def test_different_settings_are_suspects(bad, settings, kind, words):
    diagnosis = compare(sound(), bad(1), *settings)
    assert (diagnosis.slug, diagnosis.severity) == ("run-fails", "error")
    assert diagnosis.actions[0].kind == kind
    assert words in diagnosis.summary
    assert (
        "again with the same" not in " ".join(action.text for action in diagnosis.actions).lower()
    )


@pytest.mark.parametrize(
    ("settings", "kind"), [(PRECISION, "change-dtype"), (SAME_SEED, "check-ranks")]
)
def test_a_run_that_learns_less_points_to_precision_or_distribution(settings, kind):
    diagnosis = compare(sound(), sound(1, end=1.8), *settings)
    assert (diagnosis.slug, diagnosis.severity) == ("run-fails", "warning")
    assert diagnosis.title == "A run learns less than another"
    assert diagnosis.actions[0].kind == kind


@pytest.mark.parametrize(
    ("bad", "settings"),
    [
        (sound(1, end=1.8), ({"lr": 1e-3, "seed": 1}, {"lr": 1e-4, "seed": 1})),
        (sound(1, end=1.8), ({"n_layers": 12, "seed": 1}, {"n_layers": 2, "seed": 1})),
        (sound(1, end=1.1), SAME_SEED),
    ],
)
def test_a_run_that_learns_less_for_other_reasons_does_not_fail(bad, settings):
    assert compare(sound(), bad, *settings).slug != "run-fails"


def test_the_first_action_is_the_learning_rate_of_the_good_run():
    diagnosis = compare(sound(), not_finite(1), {"lr": 1e-3}, {"lr": 1e-1})
    action = diagnosis.actions[0]
    assert (action.setting, action.from_, action.to) == ("peak_lr", 0.1, 0.001)


def test_a_setting_shared_with_a_good_run_is_not_a_suspect():
    runs = [sound(0), sound(1), not_finite(2)]
    manifests = [{"dtype": "fp16", "lr": 1e-3}, {"dtype": "fp32", "lr": 1e-3}]
    comparison = stabdiag.compare(
        runs, kind="seeds", manifests=[*manifests, {"dtype": "fp16", "lr": 1}]
    )
    assert "dtype" not in comparison.diagnosis.summary
    assert comparison.diagnosis.actions[0].setting == "peak_lr"


def test_names_replace_an_unknown_configuration(tmp_path):
    for name, run in (("gpt-1gpu", sound()), ("gpt-8gpus", not_finite(1))):
        rows = [
            {"step": step, "loss": loss}
            for step, loss in zip(run["step"].tolist(), run["loss"].tolist(), strict=True)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    diagnosis = stabdiag.compare(sorted(tmp_path.glob("*.jsonl"))).diagnosis
    assert diagnosis.slug == "run-fails"
    assert "gpt-8gpus has a non-finite loss from step 200 on" in diagnosis.summary
    assert "By their names" in diagnosis.summary
    assert diagnosis.actions[0].kind == "check-ranks"


def test_a_run_that_ended_after_a_nan_is_compared():
    short = {name: values[:12] for name, values in not_finite(1, first=8).items()}
    assert compare(sound(), short, *PRECISION).slug == "run-fails"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (sound(), sound(1)),
        (sound(), sound(1, end=1.5)),  # worse, but not failing
        (flat(), flat(1)),
        (not_finite(), not_finite(1)),
        (diverged(), diverged(1)),
    ],
)
def test_near_misses_are_not_failures(first, second):
    assert compare(first, second, *PRECISION).slug != "run-fails"


def test_a_spike_that_recovered_is_not_a_failure():
    spiked = sound(1)
    spiked["loss"][150:155] += 20.0
    spiked["loss"][100] = np.nan
    assert compare(sound(), spiked, *PRECISION).slug != "run-fails"


def test_a_diverged_run_has_the_levels_of_its_diagnosis():
    bad = diverged()
    diagnosis = stabdiag.diagnose(bad, manifest=PRECISION[1]).diagnosis
    best, step = re.search(r"best level \(([\d.]+) near step (\d+)\)", diagnosis.summary).groups()
    comparison = compare(sound(), bad, *PRECISION)
    assert (comparison.slug, comparison.step) == ("run-fails", diagnosis.step)
    assert f"from its best level {best} (near step {step}) to " in comparison.summary


def test_resumes_and_ranks_have_their_own_findings():
    for kind in ("ranks", "resume"):
        comparison = stabdiag.compare([sound(), not_finite(1)], kind=kind)
        assert "run-fails" not in {finding.slug for finding in comparison.findings}


def test_a_rank_that_alone_is_not_finite_is_reported():
    diagnosis = stabdiag.compare([sound(0), not_finite(1), sound(2)], kind="ranks").diagnosis
    assert (diagnosis.slug, diagnosis.severity, diagnosis.step) == ("ranks-disagree", "error", 200)
    assert diagnosis.evidence["ranks"] == "run 2"
    # All ranks became NaN, one of them a step later. A single skipped step does not count.
    for other in (not_finite(1, first=201), not_finite(1, first=200)):
        slugs = [
            finding.slug
            for finding in stabdiag.compare([not_finite(0), other], kind="ranks").findings
        ]
        assert "ranks-disagree" not in slugs
    skipped = sound(1)
    skipped["loss"][100] = np.nan
    assert stabdiag.compare([sound(0), skipped], kind="ranks").diagnosis.slug == "agree"


def test_seeds_with_different_settings_are_compared():
    manifests = [{"lr": 1e-3, "seed": 1}, {"lr": 1e-2, "seed": 2}]
    diagnosis = stabdiag.compare([sound(0), sound(1, end=1.6)], manifests=manifests).diagnosis
    assert diagnosis.slug == "seed-variance"
    assert (diagnosis.actions[0].kind, diagnosis.actions[0].setting) == (
        "check-settings",
        "peak_lr",
    )


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("dtype", Family.PRECISION),
        ("trainer.precision", Family.PRECISION),
        ("fp16.loss_scale", Family.PRECISION),
        ("world_size", Family.DISTRIBUTION),
        ("trainer.num_nodes", Family.DISTRIBUTION),
        ("tensor_parallel_size", Family.DISTRIBUTION),
        ("data.path", Family.DATA),
        ("max_train_samples", Family.DATA),
        ("peak_lr", Family.RATE),
        ("lr_scheduler_type", Family.RATE),
        ("data_seed", Family.DATA),
        ("seed", Family.SEED),
        ("dropout", Family.OTHER),
        ("hidden_size", Family.OTHER),
    ],
)
def test_the_family_follows_from_the_key(key, family):
    assert find_family(key) is family


@pytest.mark.parametrize(
    ("label", "settings"),
    [
        ("run-fp16", {"dtype": "fp16"}),
        ("bf16_8gpu", {"dtype": "bf16", "gpus": "8"}),
        ("tiny", {"data": "tiny"}),
        ("full-data", {"data": "full"}),
        ("destiny", {}),
        ("base", {}),
        ("fp160", {}),
    ],
)
def test_settings_are_read_from_names(label, settings):
    assert settings_in_label(label) == settings


# Ends on their own scale


def converged(end, seed, eval_end=None, n=400):
    rng = np.random.default_rng(seed)
    steps = np.arange(n)
    loss = end * (1 + 0.1 * rng.standard_normal(n)) + 9 * np.exp(-steps / 15)
    run = {"step": steps, "loss": loss}
    if eval_end is not None:
        heldout = eval_end * (1 + 0.03 * rng.standard_normal(n)) + 9 * np.exp(-steps / 15)
        run["eval_loss"] = np.where(steps % 20 == 19, heldout, np.nan)
        run["eval_loss"] = [None if np.isnan(x) else x for x in run["eval_loss"]]
    return run


def test_a_high_start_does_not_hide_different_ends():
    diagnosis = stabdiag.compare(
        [converged(0.0012, 0), converged(0.057, 1)], kind="seeds"
    ).diagnosis
    assert (diagnosis.slug, diagnosis.severity) == ("seed-variance", "warning")


def test_evaluation_losses_are_compared():
    pair = [converged(0.05, 0, 0.11), converged(0.05, 1, 5.2)]
    diagnosis = stabdiag.compare(pair, kind="seeds").diagnosis
    assert (diagnosis.slug, diagnosis.evidence["role"]) == ("seed-variance", "eval_loss")
    assert "evaluation losses end at 0.1" in diagnosis.summary
    alike = [converged(0.05, 0, 0.11), converged(0.05, 1, 0.112)]
    assert stabdiag.compare(alike, kind="seeds").diagnosis.slug == "agree"


def test_scores_are_compared():
    runs = []
    for seed, best in enumerate((0.95, 0.7)):
        run = converged(0.05, seed)
        score = best - (best - 0.1) * np.exp(-run["step"] / 40)
        run["eval_accuracy"] = [s if i % 20 == 19 else None for i, s in enumerate(score.tolist())]
        runs.append(run)
    diagnosis = stabdiag.compare(runs, kind="seeds").diagnosis
    assert (diagnosis.slug, diagnosis.evidence["role"]) == ("seed-variance", "eval_accuracy")


def test_different_evaluations_after_identical_training_are_reported():
    first, second = converged(0.05, 0, 0.11), converged(0.05, 0, 0.4)
    second["loss"] = first["loss"]
    diagnosis = stabdiag.compare([first, second], kind="reruns").diagnosis
    assert (diagnosis.slug, diagnosis.evidence["role"]) == ("nondeterminism", "eval_loss")
    assert diagnosis.actions[0].kind == "check-evaluation"
    settings = [{"eval_batch_size": 8}, {"eval_batch_size": 64}]
    diagnosis = stabdiag.compare([first, second], kind="reruns", manifests=settings).diagnosis
    assert (diagnosis.slug, diagnosis.severity) == ("config-differs", "warning")
    assert "eval_loss differs from step" in diagnosis.summary


@pytest.mark.parametrize(
    ("values", "descent", "allowed"),
    [
        ((1.0, 1.1), 3.0, 0.15),  # a fraction of the level
        ((3.0, 3.5), 0.5, 0.075),  # a fraction of the descent
        ((0.05, 0.06), 3.0, 0.05),  # a level near 0 may double
        ((0.0012, 0.057), 9.0, 0.0012),
        ((-1.0, 2.0), 4.0, 0.6),  # no scale of its own
    ],
)
def test_tolerance_depends_on_level_and_descent(values, descent, allowed):
    assert tolerance(values, descent, 0.15) == pytest.approx(allowed)
