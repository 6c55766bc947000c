"""Failures that only another file of the job reports: error outputs, caches, closed archives."""

import os

import numpy as np
import pytest

import stabdiag as api
from stabdiag.sources.outputs import find_outputs

DIED = (
    "Traceback (most recent call last):\n  File 'fit.py', line 7\nRuntimeError: CUDA error: lost\n"
)
NOT_FINITE = "FloatingPointError: the loss is nan at update 299\n"


def losses():
    rng = np.random.default_rng(5)
    steps = np.arange(300)
    return 1.5 + 3 * np.exp(-steps / 50) + rng.normal(0, 0.02, 300)


def text():
    return "".join(f"step {step} | loss {loss:.4f}\n" for step, loss in enumerate(losses()))


def table():
    rows = (f"{step},{loss:.4f}\n" for step, loss in enumerate(losses()))
    return "step,loss\n" + "".join(rows)


def jsonl():
    rows = enumerate(losses())
    return "".join(f'{{"step": {step}, "loss": {loss:.4f}}}\n' for step, loss in rows)


CONTENTS = {".csv": table, ".jsonl": jsonl}


def write_log(folder, name):
    path = folder / name
    path.write_text(CONTENTS.get(path.suffix, text)())
    return path


PAIRS = [
    ("train.log", "train.err.log"),
    ("train.out", "train.err"),
    ("slurm-81.out", "slurm-81.err"),
    ("fit.o7714", "fit.e7714"),
    ("stdout", "stderr"),
    ("a_stdout.txt", "a_stderr.txt"),
    ("12_0_log.out", "12_0_log.err"),
    ("metrics.csv", "stderr.txt"),
    ("progress.csv", "error.log"),
    ("metrics.jsonl", "nohup.out"),
    ("metrics.jsonl", "console.log"),
    ("lr3.csv", "lr3.err"),
    ("metrics.jsonl", "slurm-81.out"),
    ("progress.csv", "train.o7714"),
    ("metrics.csv", "stdout-3"),
    ("metrics.jsonl", "7714.out"),
    ("lr3.csv", "lr3.e7714"),
    ("lr3.csv", "lr3-81.err"),
]


@pytest.mark.parametrize(("log", "output"), PAIRS)
def test_the_error_output_of_a_job_counts_as_the_end_of_its_log(tmp_path, log, output):
    path = write_log(tmp_path, log)
    (tmp_path / output).write_text(DIED)
    assert api.diagnose(path).diagnosis.slug == "stall"
    assert api.diagnose(tmp_path).diagnosis.slug == "stall"
    (tmp_path / output).write_text(NOT_FINITE)
    assert api.diagnose(path).diagnosis.slug.startswith("nan")


NEAR_MISSES = [
    ("train.log", "setup.err", DIED),
    ("slurm-81.out", "slurm-82.err", DIED),
    ("lr3.csv", "lr4.err", DIED),
    ("lr3.csv", "lr4-81.err", DIED),
    ("metrics-2.csv", "slurm-81.out", DIED),
    ("lr3.csv", "nohup.out", DIED),
    ("train.log", "install.log", DIED),
    ("train.log", "train.err", "UserWarning: few workers\n  warnings.warn(\n"),
    ("train.log", "train.err", "Gradient overflow. Skipping step, loss scaler 0\n"),
    ("train.log", "train.err", "\r 12%|#   | 12/100 [00:01<00:09, 9.3it/s]" * 50),
    ("train.log", "train.err", "no nan in the loss, 0 errors\n"),
    ("train.log", "train.err", ""),
]


@pytest.mark.parametrize(("log", "output", "content"), NEAR_MISSES)
def test_an_output_without_a_failure_of_this_job_is_ignored(tmp_path, log, output, content):
    path = write_log(tmp_path, log)
    (tmp_path / output).write_text(content)
    assert api.diagnose(path).diagnosis.slug == "healthy"


def test_the_output_of_the_last_job_counts(tmp_path):
    path = write_log(tmp_path, "metrics.csv")
    (tmp_path / "slurm-9.out").write_text(DIED)
    assert api.diagnose(path).diagnosis.slug == "stall"
    (tmp_path / "slurm-10.out").write_text("done\n")
    assert api.diagnose(path).diagnosis.slug == "healthy"


def test_an_output_of_an_earlier_job_is_ignored(tmp_path):
    path, output = write_log(tmp_path, "train.log"), tmp_path / "train.err"
    output.write_text(DIED)
    hour_before = path.stat().st_mtime - 3600
    os.utime(output, (hour_before, hour_before))
    assert api.diagnose(path).diagnosis.slug == "healthy"


def test_a_log_has_no_outputs_among_other_runs():
    names = ["a.out", "a.err", "b.out", "b.err", "b.error.log", "readme.txt", "a.csv"]
    assert find_outputs("b.out", names) == ["b.err", "b.error.log"]
    assert find_outputs("a.csv", names) == ["a.err", "a.out"]
    assert find_outputs("b.err", names) == []


def test_a_check_names_a_rank_that_died_without_a_loss(stabdiag, tmp_path):
    for rank in ("0", "1"):
        (tmp_path / rank).mkdir()
        (tmp_path / rank / "stderr.log").write_text(DIED if rank == "1" else "")
    write_log(tmp_path / "0", "stdout.log")
    result = stabdiag("check", tmp_path)
    assert result.code == 2
    assert "1/stderr.log" in result.err


UNOPENED = {
    ".cache/train.log": text,
    ".aim/runs/metrics.csv": table,
    ".config/x/run.jsonl": jsonl,
    "b.7z": text,
    "runs.RAR": text,
    "run2.jsonl.lzma": text,
    "runs.tar.lz4": text,
    "run2.log.gpg": text,
    "runs.zip.part": text,
}


@pytest.mark.parametrize("name", UNOPENED)
def test_what_cannot_be_opened_is_named(stabdiag, tmp_path, name):
    write_log(tmp_path, "train.log")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(UNOPENED[name]())
    result = stabdiag("check", tmp_path)
    assert result.code == 2
    assert name.partition("/")[0] in result.err
    assert api.diagnose(tmp_path).diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "name",
    [".git/logs/a.log", ".cache/pip/a.csv", ".cache/data.csv", "notes.part", "weights.enc", "a.br"],
)
def test_caches_and_other_packed_files_are_not_named(stabdiag, tmp_path, name):
    write_log(tmp_path, "train.log")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("name,size\na,1\n" * 20)
    assert (stabdiag("check", tmp_path).code, api.diagnose(tmp_path).diagnosis.slug) == (
        0,
        "healthy",
    )
