"""Findings on synthetic runs: cases that the trained pairs do not cover."""

import json
import math

import numpy as np
import pytest

import stabdiag
from stabdiag import formats
from stabdiag.comparison.points import format_values
from tests.strange import numbers

N = 300
KINDS = ("seeds", "reruns", "ranks", "resume")


def run(seed=0, n=N, noise=0.05, every=1, **columns):
    steps = np.arange(0, n * every, every)
    loss = 1 + 3 * np.exp(-steps / 60) + np.random.default_rng(seed).normal(0, noise, n)
    return {"step": steps, "loss": loss, **columns}


def shifted(log, first, offset):
    return {**log, "loss": log["loss"] + np.where(log["step"] >= first, offset, 0.0)}


def slugs(*runs, **options):
    return [finding.slug for finding in stabdiag.compare(list(runs), **options).findings]


# Too little in common


def test_no_common_step_is_not_comparable():
    odd = run(every=10)
    odd["step"] = odd["step"] + 5
    assert slugs(run(every=10), odd, kind="reruns") == ["not-comparable"]


def test_different_strides_are_compared_at_common_steps():
    coarse = {name: values[::10] for name, values in run().items()}
    comparison = stabdiag.compare([run(), coarse])
    assert (comparison.common, comparison.diagnosis.slug) == (30, "agree")


def decay(start, end, seed=0):
    steps = np.arange(N)
    noise = np.random.default_rng(seed).normal(0, 0.02 * end, N)
    return {"step": steps, "loss": end + (start - end) * np.exp(-steps / 60) + noise}


def compared_with_manifests(tmp_path, *runs):
    """Compare runs, each given as a log and its manifest."""
    for i, (log, manifest) in enumerate(runs):
        write = "\n".join(json.dumps({n: float(log[n][k]) for n in log}) for k in range(N))
        (tmp_path / f"run{i}.jsonl").write_text(write)
        (tmp_path / f"run{i}.manifest.json").write_text(json.dumps(manifest))
    return stabdiag.compare(sorted(tmp_path.glob("*.jsonl")))


def test_runs_of_different_tasks_are_named_by_what_differs(tmp_path):
    comparison = compared_with_manifests(
        tmp_path,
        (decay(2.3, 0.5), {"dataset": "mnist", "num_classes": 10, "seed": 1}),
        (decay(2.3, 0.9, 1), {"dataset": "cifar10", "num_classes": 10, "seed": 2}),
    )
    diagnosis = comparison.diagnosis
    assert (diagnosis.slug, comparison.levels) == ("not-comparable", ())
    assert "dataset is mnist (run0), cifar10 (run1)." in diagnosis.summary
    assert "dataset" in diagnosis.first_action


def test_other_settings_leave_runs_comparable(tmp_path):
    """A task that only one manifest names is not a difference, and neither is a path to it."""
    comparison = compared_with_manifests(
        tmp_path,
        (decay(2.3, 0.5), {"dataset": "data/mnist", "batch_size": 8, "seed": 1}),
        (decay(2.3, 0.9, 1), {"dataset": "mnist", "task": "digits", "batch_size": 16, "seed": 2}),
    )
    assert comparison.diagnosis.slug in ("seed-variance", "config-differs")


def test_losses_of_different_scales_are_not_the_same_training():
    assert slugs(decay(10.8, 4.0), decay(2.3, 0.2, 1)) == ["not-comparable"]
    assert slugs(decay(10.8, 4.0), decay(2.3, 0.2, 1), kind="seeds") == ["seed-variance"]
    # The ranges overlap, or the starts are not far enough apart.
    assert slugs(decay(10.8, 2.0), decay(2.3, 0.2, 1)) == ["seed-variance"]
    assert slugs(decay(6.0, 3.0), decay(2.3, 0.2, 1)) == ["seed-variance"]


def test_runs_that_agree_may_be_unhealthy():
    broken = shifted(run(), 150, 3.0)
    diagnosis = stabdiag.compare([broken, broken]).diagnosis
    assert (diagnosis.slug, "stabdiag check" in diagnosis.first_action) == ("agree", True)


def test_min_points_is_a_limit():
    short = [run(n=12), run(n=12)]
    assert slugs(*short) == ["not-comparable"]
    assert slugs(*short, limits={"compare.min_points": 10}) == ["agree"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_a_loss_cannot_be_compared(kind):
    bare = {"step": np.arange(N), "grad_norm": np.linspace(1, 2, N)}
    assert slugs(run(), bare, kind=kind) == ["not-comparable"]
    with pytest.raises(stabdiag.StabdiagError, match="no loss"):
        stabdiag.compare([stabdiag.read(run()), stabdiag.read(bare)], kind=kind)


@pytest.mark.parametrize("seed", range(20))
def test_strange_numbers_can_be_compared(seed):
    rng = np.random.default_rng(seed)
    shared = numbers(rng, 100)
    runs = []
    for _ in range(rng.integers(2, 5)):
        n = int(rng.choice([1, 30, 100]))
        loss = shared[:n].copy() if rng.random() < 0.5 else numbers(rng, n)
        log = {"step": int(rng.choice([0, 0, 50])) + np.arange(n), "loss": loss}
        roles = [role for role in ("lr", "grad_norm", "loss_scale", "clock") if rng.random() < 0.5]
        runs.append({**log, **{role: numbers(rng, n) for role in roles}})
    for kind in (None, *KINDS):
        comparison = stabdiag.compare(runs, kind=kind)
        for name in ("terminal", "json", "html"):
            assert comparison.diagnosis.slug in formats.render(comparison, name, "comparison")


# Seeds


def test_a_seed_that_became_nan_is_a_failed_run():
    lost = run(2)
    lost["loss"][200:] = np.nan
    diagnosis = stabdiag.compare([run(0), run(1), lost], kind="seeds").diagnosis
    assert (diagnosis.slug, diagnosis.severity, diagnosis.step) == ("run-fails", "error", 200)
    assert (diagnosis.evidence["failed"], diagnosis.evidence["succeeded"]) == (1, 2)
    assert diagnosis.actions[0].kind == "lower-lr"


def test_a_significant_but_small_difference_is_not_reported():
    quiet = [shifted(run(seed, noise=0.001), 0, 0.05 * seed) for seed in range(3)]
    diagnosis = stabdiag.compare(quiet, kind="seeds").diagnosis
    assert diagnosis.slug == "agree"
    assert diagnosis.evidence["p_value"] < 1e-9


def test_a_difference_within_the_noise_is_not_reported():
    assert slugs(*(run(seed, n=40, noise=2.0) for seed in range(3)), kind="seeds") == ["agree"]


def test_ends_of_seeds_with_different_steps_are_compared():
    runs = [run(0, every=3), run(1, n=450, every=2), shifted(run(2, every=3), 300, 1.0)]
    assert slugs(*runs, kind="seeds") == ["seed-variance"]


def test_different_seeds_with_identical_losses_are_suspicious():
    diagnosis = stabdiag.compare([run(), run()], manifests=[{"seed": 1}, {"seed": 2}]).diagnosis
    assert (diagnosis.slug, diagnosis.actions[0].setting) == ("agree", "seed")


def test_a_seed_much_shorter_than_others_is_noted():
    comparison = stabdiag.compare([run(0), run(1, n=60)], kind="seeds")
    assert any("at step 59" in note for note in comparison.notes)


# Reruns


@pytest.mark.parametrize("odd", [0, 1])
def test_the_odd_rerun_of_several_is_named(odd):
    runs = [run(), run(), run(), run()]
    runs[odd] = shifted(run(), 100, 1.0)
    comparison = stabdiag.compare(runs, kind="reruns")
    assert comparison.reference != f"run {odd + 1}"
    assert (comparison.diagnosis.slug, comparison.diagnosis.step) == ("nondeterminism", 100)
    assert f"run {odd + 1} differs" in comparison.diagnosis.summary


def test_a_sudden_jump_is_distinguished_from_growth():
    diagnosis = stabdiag.compare([run(), shifted(run(), 150, 0.5)]).diagnosis
    assert (diagnosis.actions[0].kind, diagnosis.actions[0].step) == ("inspect-data", 150)
    grown = run()
    grown["loss"] = grown["loss"] * (1 + 1e-9 * 1.05 ** np.arange(N))
    assert stabdiag.compare([run(), grown]).diagnosis.actions[0].kind == "rerun"


# Ranks


def ranks(tmp_path, *runs, messages=None):
    """Write the logs of ranks as text."""
    for number, log in enumerate(runs):
        names = [name for name in log if name != "step"]
        lines = [
            f"step {step} " + " ".join(f"{name} {log[name][i]:.6g}" for name in names)
            for i, step in enumerate(log["step"].tolist())
        ]
        end = (messages or {}).get(number, "")
        text = "\n".join([*lines, end, ""])
        (tmp_path / f"rank{number}.log").write_text(text, encoding="utf-8")
    return sorted(tmp_path.glob("rank*.log"))


PEER = "Traceback (most recent call last):\nRuntimeError: Connection closed by peer [10.0.0.2]"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    ("lengths", "messages", "dead", "step"),
    [
        ((300, 200, 300), {}, 1, 199),
        # The first silent rank; a single step is enough if others report a lost peer.
        ((300, 300, 300, 300), {0: PEER, 1: PEER}, 2, 299),
        ((301, 301, 300), {0: PEER, 1: PEER}, 2, 299),
        # The rank with an error of its own, not one without a message.
        ((300, 300, 300, 300), {0: PEER, 2: OOM}, 2, 299),
    ],
)
def test_the_dead_rank_is_identified(tmp_path, lengths, messages, dead, step):
    runs = (run(i, n=n) for i, n in enumerate(lengths))
    diagnosis = stabdiag.compare(ranks(tmp_path, *runs, messages=messages)).diagnosis
    assert (diagnosis.slug, diagnosis.step, diagnosis.evidence["rank"]) == ("rank-died", step, dead)
    assert diagnosis.evidence["steps_missing"] == max(lengths) - 1 - step
    if dead in messages:
        assert "CUDA out of memory" in diagnosis.summary


def test_the_time_before_the_others_is_reported():
    clock = np.arange(300) * 2.0
    runs = [run(0, elapsed=clock), run(1, n=200, elapsed=clock[:200])]
    assert "200 seconds" in stabdiag.compare(runs, kind="ranks").diagnosis.summary


@pytest.mark.parametrize("messages", [{}, dict.fromkeys(range(3), PEER)])
def test_buffered_logs_or_errors_on_all_ranks_are_not_a_dead_rank(tmp_path, messages):
    last = 300 if messages else 296
    assert slugs(*ranks(tmp_path, run(0), run(1), run(2, n=last), messages=messages)) == ["agree"]


def test_local_losses_too_far_apart_for_their_batches_are_reported():
    diagnosis = stabdiag.compare([run(0), shifted(run(1), 150, 1.0)], kind="ranks").diagnosis
    assert diagnosis.slug == "ranks-disagree"
    assert diagnosis.step == pytest.approx(150, abs=20)
    assert slugs(run(0), shifted(run(1), 150, 0.05), kind="ranks") == ["agree"]


GROW = np.linspace(0, 1, N)
# The layer norms of all shards start equal; the other weights show that they are shards.
SHARDS = [
    run(i, **{"weight_norm/ln": 4 + (1 + i) * GROW, "weight_norm/mlp": 9.0 + i + GROW})
    for i in range(2)
]


@pytest.mark.parametrize(
    ("runs", "slug"),
    [
        ([run(i, weight_norm=5 + i + GROW) for i in range(2)], "agree"),
        (SHARDS, "agree"),
        ([{**log, "weight_norm/mlp": 9.0 + GROW} for log in SHARDS], "ranks-disagree"),
        ([run(i, lr=1e-3 * (1 - GROW) ** (1 + i)) for i in range(2)], "ranks-disagree"),
        (
            [run(i, loss_scale=np.where(0.5 + i > GROW, 8.0, 4.0)) for i in range(2)],
            "ranks-disagree",
        ),
    ],
)
def test_norms_of_shards_are_not_a_disagreement(runs, slug):
    assert slugs(*runs, kind="ranks")[0] == slug


def test_local_losses_that_start_at_chance_are_not_averaged_losses():
    runs = [run(i) for i in range(2)]
    for log in runs:
        log["loss"] = np.where(np.arange(N) < 40, np.log(1000.0), log["loss"] + 3)
    assert slugs(*runs, kind="ranks") == ["agree"]


def test_local_losses_may_be_smoothed_or_rounded():
    steps, smoothed = np.arange(2000), []
    for seed in range(2):
        noise = np.random.default_rng(seed).normal(0, 0.5, 2000)
        smooth = np.convolve(noise, 0.02 * 0.98 ** np.arange(400))[:2000]
        smoothed.append({"step": steps, "loss": 2 + 2 * np.exp(-steps / 300) + smooth})
    assert slugs(*smoothed, kind="ranks") == ["agree"]
    runs = [run(i, n=600, noise=0.004) for i in range(2)]
    assert slugs(*({**r, "loss": np.round(r["loss"], 2)} for r in runs), kind="ranks") == ["agree"]


# Resumes


def halves(first, second, **columns):
    """Return a run up to a step, and its resume from another step."""
    log = run(n=600, **columns)
    return {k: v[:first] for k, v in log.items()}, {k: v[second:] for k, v in log.items()}


def test_a_resume_without_overlap():
    first, second = halves(300, 300, lr=np.full(600, 1e-3))
    assert slugs(first, second) == ["agree"]
    diagnosis = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("resume-diverges", 300)
    assert diagnosis.evidence["after"] - diagnosis.evidence["before"] == pytest.approx(1.0, abs=0.1)
    diagnosis = stabdiag.compare([first, {**second, "lr": np.full(300, 3e-3)}]).diagnosis
    assert diagnosis.slug == "resume-diverges"
    assert diagnosis.evidence == {"role": "lr", "before": 1e-3, "after": 3e-3}


def test_a_resume_in_any_order_and_a_chain():
    first, second = halves(320, 300)
    for runs in ([first, second], [second, first]):
        comparison = stabdiag.compare(runs)
        assert (comparison.kind, comparison.diagnosis.slug) == ("resume", "agree")
        assert comparison.diagnosis.evidence == {"resumed_at": 300, "common_points": 20}
    log = run(n=900)
    parts = [{k: v[i : i + 330] for k, v in log.items()} for i in (0, 300, 600)]
    comparison = stabdiag.compare(parts)
    assert (comparison.kind, comparison.diagnosis.slug) == ("resume", "agree")


def test_a_resume_with_a_different_first_loss_is_reported():
    first, second = halves(320, 300)
    diagnosis = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert (diagnosis.step, diagnosis.actions[0].step, diagnosis.severity) == (300, 300, "warning")
    small = stabdiag.compare([first, shifted(second, 0, 0.01)]).diagnosis
    assert (small.slug, small.severity) == ("resume-diverges", "note")


# Settings in the log


def test_words_are_not_compared_and_settings_are_exact():
    steps = np.arange(N)
    ones, others = (np.where(steps < N // 2, *words) for words in (("a", "b"), ("b", "a")))
    report = stabdiag.compare([{**run(), "stage": ones}, {**run(), "stage": others}])
    assert not any(divergence.role.startswith("setting") for divergence in report.divergences)
    ones, others = (np.where(steps < change, 64.0, 8.0) for change in (N // 2, N // 2 + 10))
    report = stabdiag.compare([{**run(), "batch_size": ones}, {**run(), "batch_size": others}])
    (divergence,) = (part for part in report.divergences if part.role == "setting/batch_size")
    assert divergence.step == N // 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, "NaN against NaN"),
        ((2.0, 3.0), "2 against 3"),
        ((2.5, math.inf), "2.5 against inf"),
        ((2.5, 2.500001), "2.5 against 2.500001"),
        ((0.1, math.nextafter(0.1, 1)), "0.1 against 0.10000000000000002"),
        ((1e16, 1e16 + 2), "1e+16 against 1.0000000000000002e+16"),
    ],
)
def test_different_values_are_printed_differently(values, words):
    assert format_values(values) == words
