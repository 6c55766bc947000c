"""Findings on runs that were made for them: the corners that the trained ones do not reach."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import compared, names

if TYPE_CHECKING:
    from pathlib import Path

N = 300


def run(seed: int = 0, n: int = N, noise: float = 0.05, every: int = 1, **more: Any) -> dict:
    steps = np.arange(0, n * every, every)
    loss = 1 + 3 * np.exp(-steps / 60) + np.random.default_rng(seed).normal(0, noise, n)
    return {"step": steps, "loss": loss, **more}


def shifted(one: dict, first: int, by: float) -> dict:
    return {**one, "loss": one["loss"] + np.where(one["step"] >= first, by, 0.0)}


def slugs(*runs: Any, **options: Any) -> list[str]:
    return [finding.slug for finding in stabdiag.compare(list(runs), **options).findings]


# Too little in common


def test_no_common_step_is_said_not_guessed() -> None:
    odd = run(every=10)
    odd["step"] = odd["step"] + 5
    found = stabdiag.compare([run(every=10), odd], kind="reruns").diagnosis
    assert found.slug == "not-comparable"
    assert "no step in common" in found.summary


def test_unlike_strides_are_compared_at_the_steps_they_share() -> None:
    fine, coarse = run(), run()
    coarse = {name: values[::10] for name, values in coarse.items()}
    found = stabdiag.compare([fine, coarse])
    assert found.common == 30
    assert found.diagnosis.slug == "agree"
    assert "All 30 common losses are equal" in found.diagnosis.summary


def test_that_runs_agree_is_not_that_they_are_well() -> None:
    broken = shifted(run(), 150, 3.0)
    found = stabdiag.compare([broken, broken]).diagnosis
    assert (found.slug, "`stabdiag check`" in found.first_action) == ("agree", True)


def test_a_single_common_loss_is_told_in_the_singular() -> None:
    found = stabdiag.compare([run(n=1), run(n=1)])
    assert found.common == 1
    for name in ("terminal", "markdown"):
        assert "1 common loss" in compared.render(found, name)
        assert "1 common losses" not in compared.render(found, name)


def test_the_fewest_points_are_a_limit() -> None:
    short = [run(n=12), run(n=12)]
    assert slugs(*short) == ["not-comparable"]
    assert slugs(*short, limits={"compare.min_points": 10}) == ["agree"]


@pytest.mark.parametrize("kind", ["seeds", "reruns", "ranks", "resume"])
def test_a_run_without_a_loss_cannot_be_compared(kind: str) -> None:
    bare = {"step": np.arange(N), "grad_norm": np.linspace(1, 2, N)}
    history = stabdiag.read(bare)
    told = stabdiag.read(run())
    with pytest.raises(stabdiag.StabdiagError, match="no loss"):
        stabdiag.compare([told, history], kind=kind)
    assert slugs(run(), bare, kind=kind) == ["not-comparable"]


def strange(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers that some log may hold."""
    noise = rng.normal(2, 0.1, n)
    return [
        np.full(n, rng.choice([0.0, -3.0, 1e30, 1e-30])),
        np.full(n, np.nan),
        rng.normal(0, 10.0 ** rng.integers(-300, 99), n),
        np.where(rng.random(n) < 0.3, rng.choice([np.nan, np.inf, -np.inf]), noise),
        np.round(noise, 1),
        np.where(np.arange(n) > n // 2, np.nan, noise),
        noise,
    ][rng.integers(7)]


@pytest.mark.parametrize("seed", range(40))
def test_no_numbers_break_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = strange(rng, 100)
    runs = []
    for _ in range(rng.integers(2, 5)):
        n = int(rng.choice([1, 30, 100]))
        loss = shared[:n].copy() if rng.random() < 0.5 else strange(rng, n)
        one = {"step": int(rng.choice([0, 0, 50])) + np.arange(n), "loss": loss}
        roles = [role for role in ("lr", "grad_norm", "loss_scale", "clock") if rng.random() < 0.5]
        runs.append({**one, **{role: strange(rng, n) for role in roles}})
    for kind in (None, "seeds", "reruns", "ranks", "resume"):
        found = stabdiag.compare(runs, kind=kind)
        texts = [compared.render(found, name) for name in names("comparison")]
        assert all(found.diagnosis.slug in text for text in texts)


# Seeds


def test_a_seed_that_went_nan_stands_out() -> None:
    lost = run(2)
    lost["loss"][200:] = np.nan
    found = stabdiag.compare([run(0), run(1), lost], kind="seeds").diagnosis
    assert found.slug == "seed-variance"
    assert (
        "Of 3 seeds C ended with a loss that is not finite; A and B ended finite" in found.summary
    )


def test_a_difference_that_is_sure_but_small_is_none() -> None:
    quiet = [shifted(run(seed, noise=0.001), 0, 0.05 * seed) for seed in range(3)]
    found = stabdiag.compare(quiet, kind="seeds")
    assert found.diagnosis.slug == "agree"
    assert found.diagnosis.evidence["p_value"] < 1e-9


def test_a_difference_that_noise_explains_is_none() -> None:
    assert slugs(*(run(seed, n=40, noise=2.0) for seed in range(3)), kind="seeds") == ["agree"]


def test_seeds_that_log_at_other_steps_end_somewhere_too() -> None:
    runs = [run(0, every=3), run(1, n=450, every=2), shifted(run(2, every=3), 300, 1.5)]
    assert slugs(*runs, kind="seeds") == ["seed-variance"]


def test_seeds_that_are_the_same_are_suspicious() -> None:
    found = stabdiag.compare([run(), run()], manifests=[{"seed": 1}, {"seed": 2}])
    assert found.diagnosis.slug == "agree"
    assert "Check that the seed is used" in found.diagnosis.first_action


def test_short_seeds_beside_long_ones_are_noted() -> None:
    found = stabdiag.compare([run(0), run(1, n=60)], kind="seeds")
    assert any("compared up to step 59" in note for note in found.notes)


# Reruns


def test_the_odd_rerun_of_several_is_named() -> None:
    found = stabdiag.compare([run(), shifted(run(), 100, 1.0), run(), run()], kind="reruns")
    assert found.diagnosis.step == 100
    assert "A, C and D are equal to the last bit; B part" in found.diagnosis.summary


def test_the_odd_rerun_may_be_the_first() -> None:
    found = stabdiag.compare([shifted(run(), 100, 1.0), run(), run()], kind="reruns")
    assert found.reference == "B"
    assert found.diagnosis.step == 100


def test_a_jump_out_of_nothing_is_told_from_growth() -> None:
    found = stabdiag.compare([run(), shifted(run(), 150, 0.5)]).diagnosis
    assert "There is no rounding before it" in found.summary
    assert "step 150" in found.first_action


def test_one_run_that_went_nan() -> None:
    lost = run()
    lost["loss"][200:] = math.nan
    found = stabdiag.compare([run(), lost]).diagnosis
    assert (found.slug, found.step) == ("nondeterminism", 200)
    assert found.evidence["largest_difference"] == math.inf


# Ranks


def ranks(tmp_path: Path, *runs: dict, words: dict[int, str] | None = None) -> list[Path]:
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


def test_a_rank_that_stopped_early(tmp_path: Path) -> None:
    found = stabdiag.compare(ranks(tmp_path, run(0), run(1, n=200), run(2))).diagnosis
    assert (found.slug, found.step) == ("rank-died", 199)
    assert found.evidence["steps_missing"] == 100
    assert "100 steps before the others' (299)" in found.summary


def test_of_several_ranks_that_are_silent_the_others_are_named(tmp_path: Path) -> None:
    logs = ranks(tmp_path, run(0), run(1), run(2), run(3), words={0: PEER, 1: PEER})
    found = stabdiag.compare(logs).diagnosis
    assert "The log of rank 2 ends at step 299, as those of the others do" in found.summary
    assert "It does not say why; neither do others (rank 3)." in found.summary


def test_how_much_earlier_in_time() -> None:
    clock = np.arange(300) * 2.0
    runs = [run(0, elapsed=clock), run(1, n=200, elapsed=clock[:200])]
    found = stabdiag.compare(runs, kind="ranks").diagnosis
    assert "and 200 seconds" in found.summary


def test_logs_that_end_a_few_lines_apart_are_buffered(tmp_path: Path) -> None:
    assert slugs(*ranks(tmp_path, run(0), run(1, n=296))) == ["agree"]


def test_a_step_is_enough_where_others_complain(tmp_path: Path) -> None:
    logs = ranks(tmp_path, run(0, n=301), run(1, n=301), run(2), words={0: PEER, 1: PEER})
    found = stabdiag.compare(logs).diagnosis
    assert (found.slug, found.step, found.evidence["rank"]) == ("rank-died", 299, 2)
    assert "It does not say why" in found.summary


def test_the_rank_with_an_error_of_its_own_died(tmp_path: Path) -> None:
    logs = ranks(tmp_path, run(0), run(1), run(2), run(3), words={0: PEER, 2: OOM})
    found = stabdiag.compare(logs).diagnosis
    assert found.evidence["rank"] == 2
    assert "Its last words: out of memory: torch.OutOfMemoryError" in found.summary


def test_one_error_of_all_ranks_is_no_death(tmp_path: Path) -> None:
    words = dict.fromkeys(range(3), PEER)
    assert slugs(*ranks(tmp_path, run(0), run(1), run(2), words=words)) == ["agree"]


def test_averaged_losses_that_part(tmp_path: Path) -> None:
    found = stabdiag.compare([run(), shifted(run(), 120, 0.01)], kind="ranks").diagnosis
    assert (found.slug, found.step) == ("ranks-disagree", 120)
    assert "averaged over the ranks" in found.summary


def test_local_losses_that_other_batches_do_not_explain() -> None:
    found = stabdiag.compare([run(0), shifted(run(1), 150, 1.0)], kind="ranks").diagnosis
    assert found.slug == "ranks-disagree"
    assert found.step == pytest.approx(150, abs=20)
    assert slugs(run(0), shifted(run(1), 150, 0.05), kind="ranks") == ["agree"]


def test_norms_of_shards_are_no_disagreement() -> None:
    runs = [run(i, weight_norm=np.linspace(5 + i, 6 + i, N)) for i in range(2)]
    assert slugs(*runs, kind="ranks") == ["agree"]


def test_norms_of_shards_that_begin_with_ones_are_none_either() -> None:
    """The layer norms of all shards begin alike; the other weights tell that they are shards."""
    grow = np.linspace(0, 1, N)
    runs = [
        run(i, **{"weight_norm/ln": 4 + (1 + i) * grow, "weight_norm/mlp": 9.0 + i + grow})
        for i in range(2)
    ]
    assert slugs(*runs, kind="ranks") == ["agree"]
    same = [{**one, "weight_norm/mlp": 9.0 + grow} for one in runs]
    assert slugs(*same, kind="ranks") == ["ranks-disagree"]


def test_local_losses_that_begin_at_chance_are_not_taken_for_averaged_ones() -> None:
    flat = np.full(N, np.log(1000.0))
    runs = [run(i, noise=0.05) for i in range(2)]
    for one in runs:
        one["loss"] = np.where(np.arange(N) < 40, flat, one["loss"] + 3)
    assert slugs(*runs, kind="ranks") == ["agree"]


def test_local_losses_that_were_smoothed_before_they_were_logged() -> None:
    runs = []
    for seed in range(2):
        noise = np.random.default_rng(seed).normal(0, 0.5, 2000)
        smooth = np.convolve(noise, 0.02 * 0.98 ** np.arange(400))[:2000]
        runs.append(
            {"step": np.arange(2000), "loss": 2 + 2 * np.exp(-np.arange(2000) / 300) + smooth}
        )
    assert slugs(*runs, kind="ranks") == ["agree"]


def test_local_losses_with_few_digits() -> None:
    runs = [run(i, n=600, noise=0.004) for i in range(2)]
    assert slugs(*({**r, "loss": np.round(r["loss"], 2)} for r in runs), kind="ranks") == ["agree"]


def test_a_learning_rate_of_its_own() -> None:
    rate = np.linspace(1e-3, 0, N)
    found = stabdiag.compare([run(0, lr=rate), run(1, lr=np.sqrt(rate))], kind="ranks")
    assert "ranks-disagree" in [one.slug for one in found.findings]
    assert "learning rates" in found.diagnosis.summary


# Resumes


def test_a_resume_without_overlap_whose_loss_jumps() -> None:
    whole = run(n=600)
    first = {name: values[:300] for name, values in whole.items()}
    second = {name: values[300:] for name, values in whole.items()}
    assert slugs(first, second) == ["agree"]
    found = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert (found.slug, found.step) == ("resume-parts", 300)
    assert found.evidence["after"] - found.evidence["before"] == pytest.approx(1.0, abs=0.1)


def test_a_resume_without_overlap_whose_learning_rate_jumps() -> None:
    whole = run(n=600, lr=np.full(600, 1e-3))
    first = {name: values[:300] for name, values in whole.items()}
    second = {name: values[300:] for name, values in whole.items()}
    assert slugs(first, second) == ["agree"]
    found = stabdiag.compare([first, {**second, "lr": np.full(300, 3e-3)}]).diagnosis
    assert found.slug == "resume-parts"
    assert "0.001" in found.summary
    assert "0.003" in found.summary


def test_a_resume_in_any_order() -> None:
    whole = run(n=600)
    first = {name: values[:320] for name, values in whole.items()}
    second = {name: values[300:] for name, values in whole.items()}
    for runs in ([first, second], [second, first]):
        found = stabdiag.compare(runs)
        assert (found.kind, found.diagnosis.slug) == ("resume", "agree")
        assert "the 20 losses that both logged are the same" in found.diagnosis.summary


def test_a_resume_whose_first_loss_is_another() -> None:
    whole = run(n=600)
    first = {name: values[:320] for name, values in whole.items()}
    second = {name: values[300:] for name, values in whole.items()}
    found = stabdiag.compare([first, shifted(second, 0, 1.0)]).diagnosis
    assert "Already the first loss is another one" in found.summary
    small = stabdiag.compare([first, shifted(second, 0, 0.01)]).diagnosis
    assert (small.slug, small.severity) == ("resume-parts", "note")


def test_a_chain_of_resumes() -> None:
    whole = run(n=900)
    parts = [{k: v[i : i + 330] for k, v in whole.items()} for i in (0, 300, 600)]
    found = stabdiag.compare(parts)
    assert (found.kind, found.diagnosis.slug) == ("resume", "agree")


def test_words_of_settings_are_not_compared_by_their_numbers() -> None:
    steps = np.arange(N)
    ones, others = (np.where(steps < N // 2, *words) for words in (("a", "b"), ("b", "a")))
    report = stabdiag.compare([{**run(), "stage": ones}, {**run(), "stage": others}])
    assert not any(one.role.startswith("setting") for one in report.partings)


def test_a_setting_that_parts_is_told_exactly() -> None:
    steps = np.arange(N)
    ones, others = (np.where(steps < at, 64.0, 8.0) for at in (N // 2, N // 2 + 10))
    report = stabdiag.compare([{**run(), "batch_size": ones}, {**run(), "batch_size": others}])
    (parting,) = (one for one in report.partings if one.role == "setting/batch_size")
    assert parting.step == N // 2
