"""Logs of several processes that the recorder wrote are read as one run."""

import json
import math

import numpy as np
import pytest

import stabdiag


def write(path, *, rank=0, world_size=2, sharded=False, steps=range(1, 121), recorded=True, **own):
    """Write a log; ``own`` are functions of the step that return a column's value."""
    header = {"process": rank, "world_size": world_size, "sharded": sharded}
    config = {"dtype": "fp32", **({"recorder": header} if recorded else {})}
    noise = np.random.default_rng(rank)
    with path.open("w") as file:
        for number, step in enumerate(steps):
            row = {
                "step": step,
                "loss": 2 + 0.1 * noise.standard_normal(),
                "grad_norm": 3.0 if rank == 0 else 4.0,
                "batch_id": 1000 * rank + step,
                "recorder/checksum": 500.0,
                **{name.replace("__", "/"): value(step) for name, value in own.items()},
            }
            file.write(json.dumps({"config": config, **row} if number == 0 else row) + "\n")


@pytest.fixture(params=["file", "folder"])
def history(request, tmp_path):
    """Return a function that reads the logs in the folder."""

    def read():
        source = tmp_path / "run.jsonl" if request.param == "file" else tmp_path
        return stabdiag.diagnose(str(source)).history

    return read


def test_the_loss_is_the_mean_of_the_ranks(history, tmp_path):
    write(tmp_path / "run.jsonl", loss=lambda step: 1.0 + step % 3)
    write(tmp_path / "run.rank1.jsonl", rank=1, loss=lambda step: 3.0 + step % 3)
    result = history()
    assert result.series["loss"].values == pytest.approx([2.0 + step % 3 for step in range(1, 121)])
    assert set(result.series["recorder/ranks"].values) == {2}
    assert not result.left_out


def test_squares_of_shards_add_up(history, tmp_path):
    for rank, suffix in ((0, ""), (1, ".rank1")):
        write(tmp_path / f"run{suffix}.jsonl", rank=rank, sharded=True)
    assert history().series["grad_norm"].values == pytest.approx([5.0] * 120)


def test_replicas_have_one_gradient_norm(history, tmp_path):
    for rank, suffix in ((0, ""), (1, ".rank1")):
        write(tmp_path / f"run{suffix}.jsonl", rank=rank)
    assert history().series["grad_norm"].values == pytest.approx([3.0] * 120)


def test_a_norm_that_lacks_a_shard_is_left_out(history, tmp_path):
    write(tmp_path / "run.jsonl", sharded=True)
    write(tmp_path / "run.rank1.jsonl", rank=1, sharded=True, steps=range(1, 61))
    result = history()
    assert list(result.series["grad_norm"].steps) == [*range(1, 61)]
    assert len(result.series["loss"]) == 120


def test_a_nan_of_any_rank_is_the_nan_of_the_run(history, tmp_path):
    write(tmp_path / "run.jsonl")
    bad = {"loss": lambda step: math.nan if step == 70 else 2.0}
    write(tmp_path / "run.rank1.jsonl", rank=1, **bad)
    values = history().series["loss"].values
    assert list(np.flatnonzero(np.isnan(values))) == [69]


def test_three_ranks_in_order(history, tmp_path):
    for rank, suffix in ((0, ""), (1, ".rank1"), (2, ".rank2")):
        write(tmp_path / f"run{suffix}.jsonl", rank=rank, world_size=3)
    assert set(history().series["recorder/ranks"].values) == {3}


@pytest.mark.parametrize("other", ["run.rank1.csv", "other.rank1.jsonl", "run.rank.jsonl"])
def test_other_names_are_not_ranks(other, tmp_path):
    write(tmp_path / "run.jsonl")
    write(tmp_path / other, rank=1)
    result = stabdiag.diagnose(str(tmp_path / "run.jsonl")).history
    assert "recorder/ranks" not in result.series


@pytest.mark.parametrize("options", [{"recorded": False}, {"world_size": 1}])
def test_logs_of_single_processes_are_not_joined(options, tmp_path):
    write(tmp_path / "run.jsonl", **options)
    write(tmp_path / "run.rank1.jsonl", rank=1, **options)
    result = stabdiag.diagnose(str(tmp_path / "run.jsonl")).history
    assert "recorder/ranks" not in result.series


def test_a_named_rank_is_read_alone(tmp_path):
    write(tmp_path / "run.jsonl")
    write(tmp_path / "run.rank1.jsonl", rank=1)
    result = stabdiag.diagnose(str(tmp_path / "run.rank1.jsonl")).history
    assert result.series["grad_norm"].values == pytest.approx([4.0] * 120)


CHECKSUMS = {
    "equal": lambda step: 500.0,
    "rounded": lambda step: 500.0 + 1e-6,
    "different": lambda step: 501.0,
    "different later": lambda step: 501.0 if step > 1 else 500.0,
    "different at first": lambda step: 501.0 if step == 1 else 500.0,
    "averaged occasionally": lambda step: 501.0 if step % 10 else 500.0,
}


@pytest.mark.parametrize("checksum", CHECKSUMS)
@pytest.mark.parametrize("sharded", [False, True])
def test_differing_weights_are_reported(checksum, sharded, tmp_path):
    own = {"recorder__checksum": CHECKSUMS[checksum]}
    write(tmp_path / "run.jsonl", sharded=sharded)
    write(tmp_path / "run.rank1.jsonl", rank=1, sharded=sharded, **own)
    report = stabdiag.diagnose(str(tmp_path))
    differs = checksum in ("different", "different later") and not sharded
    assert ("ranks-differ" in [finding.slug for finding in report.findings]) is differs


BATCHES = {
    "same": lambda step: step,
    "next": lambda step: step + 1,
    "same in a third": lambda step: step if step % 3 == 0 else -step,
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("sharded", [False, True])
def test_batches_that_are_the_same(batch, sharded, tmp_path):
    write(tmp_path / "run.jsonl", sharded=sharded)
    write(tmp_path / "run.rank1.jsonl", rank=1, sharded=sharded, batch_id=BATCHES[batch])
    report = stabdiag.diagnose(str(tmp_path))
    # Tensor-parallel processes share their batches by design.
    shared = batch == "same" and not sharded
    assert ("ranks-share-batches" in [finding.slug for finding in report.findings]) is shared
