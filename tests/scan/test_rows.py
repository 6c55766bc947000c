"""What a scan keeps of each run, on this machine's own processes."""

import gzip
import json
import os
import shutil
import tarfile
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import stabdiag
from stabdiag.errors import StabdiagError
from stabdiag.scan.scan import scan
from tests.scan.conftest import THREADS, write_log


def by_run(overview):
    return {row.run: row for row in overview.rows}


def test_rows_agree_with_diagnose(sweep):
    rows = by_run(scan(sweep, executor=THREADS, jobs=2))
    assert sorted(rows) == [f"run{number}.jsonl" for number in range(10)]
    for row in rows.values():
        report = stabdiag.diagnose(row.path)
        assert (row.outcome, row.headline) == (report.diagnosis.slug, report.diagnosis.headline)
        assert row.confidence == report.diagnosis.confidence.value
        assert row.action == report.diagnosis.first_action
        assert row.size == Path(row.path).stat().st_size
    row = rows["run1.jsonl"]
    assert (row.outcome, row.severity, row.step, row.dtype) == ("nan-bf16", "error", 29, "bf16")
    assert (row.loss_first, row.loss_last, row.losses) == (3.000001, 2.720001, 30)
    assert (row.peak_lr, row.settings["dropout"]) == (0.002, "0.1")
    assert len(row.curve) == 29
    assert row.format == "jsonl"
    assert rows["run0.jsonl"].lost_steps is None


def test_lost_steps_count_from_the_last_checkpoint(tmp_path):
    log = write_log(tmp_path / "runs" / "metrics.jsonl", 1, steps=400)
    log.with_suffix(".manifest.json").write_text('{"save_steps": 50, "dtype": "bf16"}')
    (row,) = scan(tmp_path / "runs", executor=THREADS, jobs=1).rows
    assert (row.step, row.last_step, row.lost_steps) == (399, 399, 49)
    assert row.run == "metrics.jsonl"


def test_any_executor_gives_the_same_rows(sweep):
    def facts(executor):
        rows = scan(sweep, executor=executor, jobs=2).rows
        return sorted((row.path, row.outcome, row.headline, row.action) for row in rows)

    own = facts(None)
    with ThreadPoolExecutor(2) as threads:
        assert facts(threads) == own
    assert facts(lambda: ProcessPoolExecutor(1, get_context("spawn"))) == own
    assert facts(THREADS) == own


def test_an_archive_holds_all_its_runs(sweep, tmp_path):
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "old.tar.gz", "w:gz") as archive:
        archive.add(sweep, "sweep")
        archive.add(write_log(tmp_path / "x" / "metrics.jsonl", 1), "deep/er/metrics.jsonl")
    with zipfile.ZipFile(tmp_path / "packed" / "new.zip", "w") as archive:
        for path in sweep.iterdir():
            archive.write(path, path.name)
    rows = by_run(scan(tmp_path / "packed", executor=THREADS, jobs=2))
    assert sorted(rows) == sorted(
        [
            *(f"old.tar.gz/sweep/run{n}.jsonl" for n in range(10)),
            "old.tar.gz/deep/er",
            *(f"new.zip/run{n}.jsonl" for n in range(10)),
        ]
    )
    row = rows["old.tar.gz/sweep/run3.jsonl"]
    assert row.path == f"{tmp_path}/packed/old.tar.gz/sweep/run3.jsonl"
    assert (row.outcome, row.peak_lr) == ("nan-bf16", 0.004)
    assert row.key == f"{tmp_path}/packed/old.tar.gz"
    assert by_run(scan(tmp_path / "packed" / "new.zip", executor=THREADS, jobs=1)).keys()


def test_logs_that_cannot_be_read_are_rows(sweep):
    (sweep / "empty.jsonl").touch()
    (sweep / "torn.jsonl.gz").write_bytes(gzip.compress(b'{"loss": 1}\n' * 99)[:12])
    (sweep / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    overview = scan(sweep, executor=THREADS, jobs=2)
    rows = {run: row.reason for run, row in by_run(overview).items() if row.outcome == "unread"}
    assert sorted(rows) == ["empty.jsonl", "picture.csv", "torn.jsonl.gz"]
    assert rows["empty.jsonl"] == "empty; has the run logged anything yet?"
    assert sum(group.logs for group in overview.unread) == 3


def test_files_without_a_loss_are_skipped(stabdiag, sweep):
    for number in range(3):
        (sweep / f"data{number}.csv").write_text("name,age\na,1\nb,2\nc,3\n")
    (sweep / "notes.txt").write_text("to do: everything\n" * 9)
    done = stabdiag("scan", sweep, "--format", "json", "--executor", THREADS)
    assert done.code == 1
    message = "skipped, no training loss in it: "
    assert done.err.startswith(f"stabdiag: {message}")
    assert done.err.endswith(" and 3 more\n")


def test_views_of_a_run_are_one_row(runs, tmp_path):
    folder = tmp_path / "runs" / "one"
    # Views of one run are written at about the same time.
    shutil.copytree(runs / "spike-lr-jump", folder, copy_function=shutil.copy)
    (folder / "train.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n" * 3)
    (row,) = scan(tmp_path / "runs", executor=THREADS, jobs=1).rows
    assert (row.run, row.outcome, row.format) == ("one", "spike-lr-jump", "jsonl")


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("none", "module:callable"),
        ("none_there:make", "cannot create the executor"),
        ("os:getcwd", "does not return a concurrent.futures.Executor"),
    ],
)
def test_an_invalid_executor_is_refused(sweep, executor, message):
    with pytest.raises(StabdiagError, match=message):
        scan(sweep, executor=executor)


def test_a_scan_of_two_paths_has_each_run_once(sweep):
    assert scan([sweep, sweep, sweep / "run1.jsonl"], executor=THREADS, jobs=1).runs == 10


def test_names_that_are_not_text_and_numbers_that_are_too_large(tmp_path):
    folder = tmp_path / "runs" / os.fsdecode(b"sw\xffeep")
    folder.mkdir(parents=True)
    write_log(tmp_path / "log.jsonl", 1).rename(folder / os.fsdecode(b"a\xe9.jsonl"))
    manifest = {"seed": 1 << 70, "note": "\ud800", "lr": 1e-3, "batch_size": 10**30}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for reused in (0, 1):
        overview = scan(tmp_path / "runs", store=tmp_path / "rows", jobs=1)
        (row,) = overview.rows
        assert (row.run, row.outcome) == ("sw\\udcffeep/a\\udce9.jsonl", "nan-dtype-unknown")
        assert (row.seed, row.peak_lr, row.settings["note"]) == (None, 0.001, "\\ud800")
        assert overview.reused == reused


def test_rows_contain_no_secrets(tmp_path):
    log = write_log(tmp_path / "run.jsonl")
    manifest = {
        "lr": 0.1,
        "wandb_api_key": "KEY",
        "tracking.uri": "https://me:WORD@example.org/x",
        "width": 64,
    }
    log.with_suffix(".manifest.json").write_text(json.dumps(manifest))
    (row,) = scan(log, executor=THREADS, jobs=1).rows
    assert row.settings["width"] == "64"
    assert "KEY" not in str(row)
    assert "WORD" not in str(row)
