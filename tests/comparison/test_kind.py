"""What runs are taken for, and the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError, ManifestError, StabdiagError
from stabdiag.model.comparison import Kind

if TYPE_CHECKING:
    from pathlib import Path


def losses(n: int = 60, first: int = 0, seed: int = 0) -> dict[str, Any]:
    steps = np.arange(first, first + n)
    noise = np.random.default_rng(seed).normal(0, 0.05, n)
    return {"step": steps, "loss": 1 + 3 * np.exp(-steps / 40) + noise}


def write(path: Path, run: dict[str, Any], **manifest: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(run["step"].tolist(), run["loss"].tolist(), strict=True)
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if manifest:
        beside = path.with_name(f"{path.name.removesuffix('.jsonl')}.manifest.json")
        beside.write_text(json.dumps(manifest), encoding="utf-8")
    return path


def test_seeds_that_differ(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", losses(), seed=1)
    b = write(tmp_path / "b.jsonl", losses(seed=1), seed=2)
    found = stabdiag.compare([a, b])
    assert found.kind is Kind.SEEDS
    assert found.why == "their seeds differ (1, 2)"


def test_seeds_in_names(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"seed-{i}" / "log.jsonl", losses(seed=i)) for i in (3, 4)]
    assert stabdiag.compare(logs).why == "their seeds differ (3, 4)"


def test_one_seed(tmp_path: Path) -> None:
    logs = [write(tmp_path / name, losses(), seed=7) for name in ("a.jsonl", "b.jsonl")]
    found = stabdiag.compare(logs)
    assert (found.kind, found.why) == (Kind.RERUNS, "all have the seed 7")


@pytest.mark.parametrize("name", ["run.rank{}.jsonl", "rank_{}.jsonl", "job/rank{}/log.jsonl"])
def test_ranks_in_names(tmp_path: Path, name: str) -> None:
    logs = [write(tmp_path / name.format(i), losses(seed=i)) for i in (0, 1)]
    found = stabdiag.compare(logs)
    assert found.kind is Kind.RANKS
    assert [run.label for run in found.runs] == ["rank 0", "rank 1"]
    assert stabdiag.compare([tmp_path]).kind is Kind.RANKS


def test_ranks_in_manifests(tmp_path: Path) -> None:
    logs = [
        write(tmp_path / f"host{i}.jsonl", losses(seed=i), seed=1, rank=i, world_size=2)
        for i in (0, 1)
    ]
    found = stabdiag.compare(logs)
    assert [run.rank for run in found.runs] == [0, 1]
    assert found.diagnosis.slug == "agree"  # that the rank differs is expected


def test_sizes_that_are_called_ranks_are_none(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"adapter.rank{i}.jsonl", losses(seed=i)) for i in (8, 16)]
    assert stabdiag.compare(logs).kind is Kind.SEEDS
    assert stabdiag.compare(logs, kind="ranks").kind is Kind.RANKS


def test_the_rank_of_an_adapter_is_none(tmp_path: Path) -> None:
    logs = [
        write(tmp_path / f"run{i}.jsonl", losses(seed=i), dtype="bf16", lora={"rank": 8 * i})
        for i in (1, 2)
    ]
    found = stabdiag.compare(logs)
    assert [(run.label, run.rank) for run in found.runs] == [("A", None), ("B", None)]
    assert found.differences[0].key == "lora.rank"


def test_other_seeds_are_no_resume(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", losses(60), seed=1)
    b = write(tmp_path / "b.jsonl", losses(60, first=20, seed=3), seed=2)
    assert stabdiag.compare([a, b]).kind is Kind.SEEDS


def test_a_log_that_holds_several_runs_is_noted(tmp_path: Path) -> None:
    run = losses()
    twice = {name: np.concatenate([values, values]) for name, values in run.items()}
    found = stabdiag.compare([write(tmp_path / "a.jsonl", twice), run])
    assert "A holds 2 runs, of which the last is compared" in found.notes


def test_a_word_that_holds_rank_is_none(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"frank{i}.jsonl", losses(seed=i)) for i in (0, 1)]
    assert stabdiag.compare(logs).kind is Kind.SEEDS


def test_steps_that_follow_on(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", losses(60), seed=1)
    second = write(tmp_path / "b.jsonl", losses(60, first=50), seed=1)
    found = stabdiag.compare([first, second])
    assert found.kind is Kind.RESUME
    assert "B begins at step 50, where A was under way (it logged 0 to 59)" in found.why
    assert found.common == 10


def test_steps_that_are_in_neither_log_are_noted() -> None:
    found = stabdiag.compare([losses(60), losses(60, first=120)], kind="resume")
    assert "60 steps between 59 and 120 are in neither log" in found.notes


def test_without_manifests_the_first_losses_tell() -> None:
    same, other = losses(), losses(seed=1)
    assert stabdiag.compare([same, same]).kind is Kind.RERUNS
    found = stabdiag.compare([same, other])
    assert found.kind is Kind.SEEDS
    assert "--as reruns if it was the same" in found.why


def test_losses_that_have_not_moved_tell_nothing_of_the_seed() -> None:
    """A head of zeros begins at chance, whatever the seed."""
    flat = np.full(60, np.log(1000.0))
    one, other = ({"step": np.arange(60), "loss": flat - d * np.arange(60)} for d in (1e-2, 2e-2))
    one["loss"][:5] = other["loss"][:5] = np.log(1000.0)
    assert stabdiag.compare([one, other]).kind is Kind.SEEDS


@pytest.mark.parametrize("kind", list(Kind))
def test_it_can_be_told(kind: Kind) -> None:
    found = stabdiag.compare([losses(), losses(seed=1)], kind=kind.value)
    assert (found.kind, found.why) == (kind, "as was asked for")


def test_what_cannot_be_compared_is_said_in_one_line(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", losses())
    with pytest.raises(
        StabdiagError,
        match=r"a\.jsonl: a comparison takes two runs or more; name each log, or one folder",
    ):
        stabdiag.compare([one])
    with pytest.raises(StabdiagError, match=r"as 'seed'; did you mean seeds\?"):
        stabdiag.compare([one, one], kind="seed")
    with pytest.raises(StabdiagError, match="2 runs and 1 manifest; give one"):
        stabdiag.compare([one, one], manifests=[None])
    with pytest.raises(LogError, match="no such file"):
        stabdiag.compare([one, tmp_path / "nope.jsonl"])
    with pytest.raises(ManifestError):
        stabdiag.compare([one, one], manifests=[None, tmp_path / "nope.json"])


def test_many_runs_have_labels() -> None:
    found = stabdiag.compare([losses(seed=i) for i in range(28)])
    assert [run.label for run in found.runs][:2] == ["A", "B"]
    assert [run.label for run in found.runs][-2:] == ["run 27", "run 28"]


def test_a_folder_of_one_rank_is_one_run(tmp_path: Path) -> None:
    write(tmp_path / "rank0.jsonl", losses())
    with pytest.raises(StabdiagError, match="two runs or more"):
        stabdiag.compare([tmp_path])
