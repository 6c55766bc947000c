"""The logs of several ranks in one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stabdiag.errors import LogError
from stabdiag.places.logs import rank_in, ranks_in

if TYPE_CHECKING:
    from pathlib import Path

LOG = "".join(f'{{"step": {i}, "loss": {3 - i / 20}}}\n' for i in range(20))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("run.rank3.jsonl", 3),
        ("job/rank_12/log.csv", 12),
        ("rank-0.log", 0),
        ("RANK=7.txt", 7),
        ("rank1/run.rank2.jsonl", 2),
        ("frank3.jsonl", None),
        ("ranking.csv", None),
        ("lora_rank8.jsonl", None),
        ("lora-rank=16/log.csv", None),
        ("run.jsonl", None),
    ],
)
def test_a_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(LOG, encoding="utf-8")


def test_ranks_are_sorted_by_number(tmp_path: Path) -> None:
    put(tmp_path, *(f"run.rank{i}.jsonl" for i in (10, 2, 0)), "notes.md")
    assert [path.name for path in ranks_in(tmp_path)] == [
        "run.rank0.jsonl",
        "run.rank2.jsonl",
        "run.rank10.jsonl",
    ]


def test_of_a_rank_with_several_logs_the_best_is_taken(tmp_path: Path) -> None:
    put(tmp_path, "rank0/train.jsonl", "rank0/eval.jsonl", "rank1/train.jsonl")
    assert [path.name for path in ranks_in(tmp_path)] == ["train.jsonl", "train.jsonl"]


def test_ranks_may_lie_in_the_folders_of_their_nodes(tmp_path: Path) -> None:
    put(tmp_path, "node-a/rank0.jsonl", "node-b/rank1.jsonl")
    assert [path.name for path in ranks_in(tmp_path)] == ["rank0.jsonl", "rank1.jsonl"]


def test_several_jobs_are_not_mixed(tmp_path: Path) -> None:
    put(tmp_path, *(f"{job}/rank{i}.jsonl" for job in ("mon", "tue") for i in (0, 1)))
    with pytest.raises(LogError, match="ranks of several jobs"):
        ranks_in(tmp_path)
    assert len(ranks_in(tmp_path / "mon")) == 2


def test_without_rank_0_it_is_no_job(tmp_path: Path) -> None:
    put(tmp_path, "rank8.jsonl", "rank16.jsonl")
    assert ranks_in(tmp_path) == []


def test_one_rank_is_no_job(tmp_path: Path) -> None:
    put(tmp_path, "rank0.jsonl", "other.jsonl")
    assert ranks_in(tmp_path) == []
    assert ranks_in(tmp_path / "rank0.jsonl") == []
    assert ranks_in(tmp_path / "nope") == []
