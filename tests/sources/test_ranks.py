"""The logs of several ranks in one folder."""

import pytest

from stabdiag.errors import LogError
from stabdiag.sources.logs import rank_in, ranks_in

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
def test_a_rank_in_a_name(name, rank):
    assert rank_in(name) == rank


def put(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(LOG, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "ranks"),
    [
        (["r.rank10.jsonl", "r.rank2.jsonl", "r.rank0.jsonl", "notes.md"], ["0", "2", "10"]),
        (["node-a/rank0.jsonl", "node-b/rank1.jsonl"], ["0", "1"]),
        (["rank8.jsonl", "rank16.jsonl"], []),
        (["rank0.jsonl", "other.jsonl"], []),
    ],
)
def test_the_logs_of_the_ranks_of_a_job(tmp_path, files, ranks):
    put(tmp_path, *files)
    assert [path.stem.rpartition("rank")[2] for path in ranks_in(tmp_path)] == ranks
    assert ranks_in(tmp_path / files[0]) == []
    assert ranks_in(tmp_path / "nope") == []


def test_of_a_rank_with_several_logs_the_best_is_taken(tmp_path):
    put(tmp_path, "rank0/train.jsonl", "rank0/eval.jsonl", "rank1/train.jsonl")
    assert [path.name for path in ranks_in(tmp_path)] == ["train.jsonl", "train.jsonl"]


def test_several_jobs_are_not_mixed(tmp_path):
    put(tmp_path, *(f"{job}/rank{i}.jsonl" for job in ("mon", "tue") for i in (0, 1)))
    with pytest.raises(LogError, match="ranks of several jobs"):
        ranks_in(tmp_path)
    assert len(ranks_in(tmp_path / "mon")) == 2
