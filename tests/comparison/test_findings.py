"""Findings on runs that were made for them: the corners that the trained ones do not reach."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag import formats
from stabdiag.comparison.points import close
from tests.strange import numbers

N = 300
KINDS = ("seeds", "reruns", "ranks", "resume")


def run(seed=0, n=N, noise=0.05, every=1, **more):
    steps = np.arange(0, n * every, every)
    loss = 1 + 3 * np.exp(-steps / 60) + np.random.default_rng(seed).normal(0, noise, n)
    return {"step": steps, "loss": loss, **more}


def shifted(one, first, by):
    return {**one, "loss": one["loss"] + np.where(one["step"] >= first, by, 0.0)}


def slugs(*runs, **options):
    return [finding.slug for finding in stabdiag.compare(list(runs), **options).findings]


# Too little in common


def test_no_common_step_is_not_comparable():
    odd = run(every=10)
    odd["step"] = odd["step"] + 5
    assert slugs(run(every=10), odd, kind="reruns") == ["not-comparable"]


def test_unlike_strides_are_compared_at_the_steps_they_share():
    coarse = {name: values[::10] for name, values in run().items()}
    found = stabdiag.compare([run(), coarse])
    assert (found.common, found.diagnosis.slug) == (30, "agree")


def test_that_runs_agree_is_not_that_they_are_well():
    broken = shifted(run(), 150, 3.0)
    found = stabdiag.compare([broken, broken]).diagnosis
    assert (found.slug, "`stabdiag check`" in found.first_action) == ("agree", True)


def test_the_fewest_points_are_a_limit():
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
def test_no_numbers_break_it(seed):
    rng = np.random.default_rng(seed)
    shared = numbers(rng, 100)
    runs = []
    for _ in range(rng.integers(2, 5)):
        n = int(rng.choice([1, 30, 100]))
        loss = shared[:n].copy() if rng.random() < 0.5 else numbers(rng, n)
        one = {"step": int(rng.choice([0, 0, 50])) + np.arange(n), "loss": loss}
        roles = [role for role in ("lr", "grad_norm", "loss_scale", "clock") if rng.random() < 0.5]
        runs.append({**one, **{role: numbers(rng, n) for role in roles}})
    for kind in (None, *KINDS):
        found = stabdiag.compare(runs, kind=kind)
        for name in ("terminal", "json", "markdown"):
            assert found.diagnosis.slug in formats.render(found, name, "comparison")


# Seeds


def test_a_seed_that_went_nan_stands_out():
    lost = run(2)
    lost["loss"][200:] = np.nan
    found = stabdiag.compare([run(0), run(1), lost], kind="seeds").diagnosis
    assert (found.slug, found.severity, found.step) == ("run-fails", "error", 200)
    assert (found.evidence["failed"], found.evidence["sound"]) == (1, 2)
    assert found.actions[0].kind == "lower-lr"


def test_a_difference_that_is_sure_but_small_is_none():
    quiet = [shifted(run(seed, noise=0.001), 0, 0.05 * seed) for seed in range(3)]
    found = stabdiag.compare(quiet, kind="seeds").diagnosis
    assert found.slug == "agree"
    assert found.evidence["p_value"] < 1e-9


def test_a_difference_that_noise_explains_is_none():
    assert slugs(*(run(seed, n=40, noise=2.0) for seed in range(3)), kind="seeds") == ["agree"]


def test_seeds_that_log_at_other_steps_end_somewhere_too():
    runs = [run(0, every=3), run(1, n=450, every=2), shifted(run(2, every=3), 300, 1.0)]
    assert slugs(*runs, kind="seeds") == ["seed-variance"]


def test_seeds_that_are_the_same_are_suspicious():
    found = stabdiag.compare([run(), run()], manifests=[{"seed": 1}, {"seed": 2}]).diagnosis
    assert (found.slug, found.actions[0].setting) == ("agree", "seed")


def test_short_seeds_beside_long_ones_are_noted():
    found = stabdiag.compare([run(0), run(1, n=60)], kind="seeds")
    assert any("at step 59" in note for note in found.notes)


# Reruns


@pytest.mark.parametrize("odd", [0, 1])
def test_the_odd_rerun_of_several_is_named(odd):
    runs = [run(), run(), run(), run()]
    runs[odd] = shifted(run(), 100, 1.0)
    found = stabdiag.compare(runs, kind="reruns")
    assert found.reference != f"run {odd + 1}"
    assert (found.diagnosis.slug, found.diagnosis.step) == ("nondeterminism", 100)
    assert f"run {odd + 1} differs" in found.diagnosis.summary


def test_a_jump_out_of_nothing_is_told_from_growth():
    found = stabdiag.compare([run(), shifted(run(), 150, 0.5)]).diagnosis
    assert (found.actions[0].kind, found.actions[0].step) == ("inspect-data", 150)
    grown = run()
    grown["loss"] = grown["loss"] * (1 + 1e-9 * 1.05 ** np.arange(N))
    assert stabdiag.compare([run(), grown]).diagnosis.actions[0].kind == "rerun"


# Ranks


def ranks(tmp_path, *runs, words=None):
    """Write the logs of ranks as text."""
    for number, one in enumerate(runs):
        names = [name for name in one if name != "step"]
        lines = [
            f"step {step} " + " ".join(f"{name} {one[name][i]:.6g}" for name in names)
            for i, step in enumerate(one["step"].tolist())
        ]
        end = (words or {}).get(number, "")
        text = "\n".join([*lines, end, ""])
        (tmp_path / f"rank{number}.log").write_text(text, encoding="utf-8")
    return sorted(tmp_path.glob("rank*.log"))


PEER = "Traceback (most recent call last):\nRuntimeError: Connection closed by peer [10.0.0.2]"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    ("lengths", "words", "dead", "step"),
    [
        ((300, 200, 300), {}, 1, 199),
        # The silent rank, of several the first; a step is enough where others complain.
        ((300, 300, 300, 300), {0: PEER, 1: PEER}, 2, 299),
        ((301, 301, 300), {0: PEER, 1: PEER}, 2, 299),
        # The one with an error of its own, and not one that says nothing.
        ((300, 300, 300, 300), {0: PEER, 2: OOM}, 2, 299),
    ],
)
def test_the_dead_rank(tmp_path, lengths, words, dead, step):
    runs = (run(i, n=n) for i, n in enumerate(lengths))
    found = stabdiag.compare(ranks(tmp_path, *runs, words=words)).diagnosis
    assert (found.slug, found.step, found.evidence["rank"]) == ("rank-died", step, dead)
    assert found.evidence["steps_missing"] == max(lengths) - 1 - step
    if dead in words:
        assert "CUDA out of memory" in found.summary


def test_how_much_earlier_in_time():
    clock = np.arange(300) * 2.0
    runs = [run(0, elapsed=clock), run(1, n=200, elapsed=clock[:200])]
    assert "200 seconds" in stabdiag.compare(runs, kind="ranks").diagnosis.summary


@pytest.mark.parametrize("words", [{}, dict.fromkeys(range(3), PEER)])
def test_buffered_logs_and_an_error_of_all_ranks_are_no_death(tmp_path, words):
    last = 300 if words else 296
    assert slugs(*ranks(tmp_path, run(0), run(1), run(2, n=last), words=words)) == ["agree"]


def test_local_losses_that_other_batches_do_not_explain():
    found = stabdiag.compare([run(0), shifted(run(1), 150, 1.0)], kind="ranks").diagnosis
    assert found.slug == "ranks-disagree"
    assert found.step == pytest.approx(150, abs=20)
    assert slugs(run(0), shifted(run(1), 150, 0.05), kind="ranks") == ["agree"]


GROW = np.linspace(0, 1, N)
# The layer norms of all shards begin alike; the other weights show that they are shards.
SHARDS = [
    run(i, **{"weight_norm/ln": 4 + (1 + i) * GROW, "weight_norm/mlp": 9.0 + i + GROW})
    for i in range(2)
]


@pytest.mark.parametrize(
    ("runs", "slug"),
    [
        ([run(i, weight_norm=5 + i + GROW) for i in range(2)], "agree"),
        (SHARDS, "agree"),
        ([{**one, "weight_norm/mlp": 9.0 + GROW} for one in SHARDS], "ranks-disagree"),
        ([run(i, lr=1e-3 * (1 - GROW) ** (1 + i)) for i in range(2)], "ranks-disagree"),
        (
            [run(i, loss_scale=np.where(0.5 + i > GROW, 8.0, 4.0)) for i in range(2)],
            "ranks-disagree",
        ),
    ],
)
def test_norms_of_shards_are_no_disagreement(runs, slug):
    assert slugs(*runs, kind="ranks")[0] == slug


def test_local_losses_that_begin_at_chance_are_not_taken_for_averaged_ones():
    runs = [run(i) for i in range(2)]
    for one in runs:
        one["loss"] = np.where(np.arange(N) < 40, np.log(1000.0), one["loss"] + 3)
    assert slugs(*runs, kind="ranks") == ["agree"]


def test_local_losses_that_were_smoothed_or_rounded_before_they_were_logged():
    steps, smoothed = np.arange(2000), []
    for seed in range(2):
        noise = np.random.default_rng(seed).normal(0, 0.5, 2000)
        smooth = np.convolve(noise, 0.02 * 0.98 ** np.arange(400))[:2000]
        smoothed.append({"step": steps, "loss": 2 + 2 * np.exp(-steps / 300) + smooth})
    assert slugs(*smoothed, kind="ranks") == ["agree"]
    runs = [run(i, n=600, noise=0.004) for i in range(2)]
    assert slugs(*({**r, "loss": np.round(r["loss"], 2)} for r in runs), kind="ranks") == ["agree"]


# Resumes


def halves(first, second, **more):
    """Return a run up to a step, and its resume from another."""
    whole = run(n=600, **more)
    return {k: v[:first] for k, v in whole.items()}, {k: v[second:] for k, v in whole.items()}


def test_a_resume_without_overlap():
    first, second = halves(300, 300, lr=np.full(600, 1e-3))
    assert slugs(first, second) == ["agree"]
    found = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert (found.slug, found.step) == ("resume-parts", 300)
    assert found.evidence["after"] - found.evidence["before"] == pytest.approx(1.0, abs=0.1)
    found = stabdiag.compare([first, {**second, "lr": np.full(300, 3e-3)}]).diagnosis
    assert found.slug == "resume-parts"
    assert found.evidence == {"role": "lr", "before": 1e-3, "after": 3e-3}


def test_a_resume_in_any_order_and_a_chain():
    first, second = halves(320, 300)
    for runs in ([first, second], [second, first]):
        found = stabdiag.compare(runs)
        assert (found.kind, found.diagnosis.slug) == ("resume", "agree")
        assert found.diagnosis.evidence == {"resumed_at": 300, "common_points": 20}
    whole = run(n=900)
    parts = [{k: v[i : i + 330] for k, v in whole.items()} for i in (0, 300, 600)]
    found = stabdiag.compare(parts)
    assert (found.kind, found.diagnosis.slug) == ("resume", "agree")


def test_a_resume_whose_first_loss_is_another():
    first, second = halves(320, 300)
    found = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert (found.step, found.actions[0].step, found.severity) == (300, 300, "warning")
    small = stabdiag.compare([first, shifted(second, 0, 0.01)]).diagnosis
    assert (small.slug, small.severity) == ("resume-parts", "note")


# Settings in the log


def test_words_are_not_compared_by_their_numbers_and_settings_are_exact():
    steps = np.arange(N)
    ones, others = (np.where(steps < N // 2, *words) for words in (("a", "b"), ("b", "a")))
    report = stabdiag.compare([{**run(), "stage": ones}, {**run(), "stage": others}])
    assert not any(one.role.startswith("setting") for one in report.partings)
    ones, others = (np.where(steps < at, 64.0, 8.0) for at in (N // 2, N // 2 + 10))
    report = stabdiag.compare([{**run(), "batch_size": ones}, {**run(), "batch_size": others}])
    (parting,) = (one for one in report.partings if one.role == "setting/batch_size")
    assert parting.step == N // 2


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
def test_values_have_as_many_digits_as_tell_them_apart(values, words):
    assert close(values) == words
