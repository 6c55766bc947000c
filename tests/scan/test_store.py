"""The store: parts that are written whole, read by others, and gone on with."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag.errors import StabdiagError
from stabdiag.scan.scan import scan
from tests.scan.conftest import THREADS, write_log


def parts(store):
    return sorted(store.glob("*.parquet"))


def keys(store):
    return [key for part in parts(store) for key in parquet.read_table(part)["key"].to_pylist()]


def test_other_programs_read_the_store_directly(sweep, tmp_path):
    import duckdb
    import polars as pl

    store = tmp_path / "rows"
    scan(sweep, store=store, executor=THREADS, jobs=2)
    assert all(path.suffix == ".parquet" for path in store.iterdir() if path.name[0] != "_")
    failed = f"SELECT count(*) FROM '{store}/*.parquet' WHERE severity = 'error'"
    assert duckdb.sql(failed).fetchall() == [(5,)]
    setting = f"SELECT DISTINCT settings['dropout'] FROM read_parquet('{store}/*.parquet')"
    assert "0.1" in str(duckdb.sql(setting).fetchall())
    assert (pd.read_parquet(store)["severity"] == "error").sum() == 5
    assert pl.read_parquet(store / "*.parquet").filter(pl.col("severity") == "error").height == 5


def test_unchanged_logs_are_not_read_again(sweep, tmp_path):
    store = tmp_path / "rows"
    first = scan(sweep, store=store, executor=THREADS, jobs=2)
    assert (first.runs, first.reused, first.changes) == (10, 0, None)
    before = keys(store)
    rescan = scan(sweep, store=store, executor=THREADS, jobs=2)
    assert (rescan.runs, rescan.reused) == (10, 10)
    assert keys(store) == before
    write_log(sweep / "run1.jsonl", 2)
    os.utime(sweep / "run1.jsonl", (1e9, 1e9))
    write_log(sweep / "run2.jsonl", 3)
    write_log(sweep / "run10.jsonl", 4)
    (sweep / "run9.jsonl").unlink()
    third = scan(sweep, store=store, executor=THREADS, jobs=2)
    assert (third.runs, third.reused) == (10, 7)
    changes = third.changes
    assert (changes.new, changes.gone) == (1, 1)
    assert [change.run for change in changes.better] == ["run1.jsonl"]
    assert [change.run for change in changes.worse] == ["run2.jsonl"]


def test_a_log_with_the_same_size_and_time_is_read_again_if_it_changed(tmp_path):
    store, log = tmp_path / "rows", tmp_path / "runs" / "run.jsonl"
    log.parent.mkdir()
    rows = [f'{{"step": {step}, "loss": {4 - step / 100:.3f}}}' for step in range(200)]
    log.write_text("\n".join(rows))
    before, outcomes = log.stat(), []
    for text in (
        "\n".join(rows),
        "\n".join([*rows[:150], *(f"{row[:-6]}  NaN}}" for row in rows[150:])]),
    ):
        log.write_text(text)
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (log.stat().st_size, log.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        (row,) = scan(log.parent, store=store, executor=THREADS, jobs=1).rows
        outcomes.append(row.severity)
    assert outcomes == ["ok", "error"]


def test_changed_limits_or_settings_reread_all_logs(sweep, tmp_path):
    rescan = partial(scan, sweep, store=tmp_path / "rows", executor=THREADS, jobs=2)
    changed = {"limits": {"spike.sigma": 4}}, {"settings": {"dtype": "fp32"}}
    assert [rescan(**options).reused for options in ({}, *changed, changed[1])] == [0, 0, 0, 10]


def test_a_manifest_that_changed_counts(tmp_path):
    store, log = tmp_path / "rows", write_log(tmp_path / "runs" / "metrics.jsonl", 1)
    (tmp_path / "runs" / "config.yaml").write_text("dropout: 0.2\n")
    scan(tmp_path / "runs", store=store, executor=THREADS, jobs=1)
    log.with_suffix(".manifest.json").write_text('{"dtype": "fp32"}')
    os.utime(log.with_suffix(".manifest.json"), (2e9, 2e9))
    (row,) = scan(tmp_path / "runs", store=store, executor=THREADS, jobs=1).rows
    assert row.outcome == "nan-fp32"


def test_unreadable_logs_are_retried_and_reported_once(sweep, tmp_path):
    store = tmp_path / "rows"
    (sweep / "empty.jsonl").touch()
    for _ in range(3):
        overview = scan(sweep, store=store, executor=THREADS, jobs=2)
        assert overview.of(None) == 1
    assert overview.reused == 10
    assert len(keys(store)) == 11


def test_a_store_below_the_scanned_folder_is_not_a_log(sweep):
    for _ in range(2):
        assert scan(sweep, store=sweep / "rows", executor=THREADS, jobs=2).runs == 10


def test_two_simultaneous_scans_lose_nothing(sweep, tmp_path):
    store = tmp_path / "rows"
    for number in range(10, 20):
        write_log(tmp_path / "other" / f"run{number}.jsonl", number)
    with ThreadPoolExecutor(3) as threads:
        paths = [[sweep], [tmp_path / "other"], [sweep, tmp_path / "other"]]
        stores = list(
            threads.map(lambda path: scan(path, store=store, executor=THREADS, jobs=1), paths)
        )
    assert [overview.runs for overview in stores] == [10, 10, 20]
    rescan = scan([sweep, tmp_path / "other"], store=store, executor=THREADS, jobs=1)
    assert (rescan.runs, rescan.reused) == (20, 20)
    assert not list(store.glob(".*"))


def test_one_of_two_scans_at_the_same_time_counts(sweep, tmp_path):
    store = tmp_path / "rows"
    scan(sweep, store=store, executor=THREADS, jobs=1)
    for part in list(parts(store)):
        table = parquet.read_table(part)
        other = table.set_column(
            table.schema.get_field_index("scan"), "scan", pa.array(["z"] * table.num_rows)
        )
        parquet.write_table(other, part.with_name(part.name[:-9] + "f.parquet"))
    assert scan(sweep, store=store, executor=THREADS, jobs=1).runs == 10


def test_rows_of_an_older_version_lack_columns(sweep, tmp_path):
    store = tmp_path / "rows"
    scan(sweep, store=store, executor=THREADS, jobs=1)
    for part in parts(store):
        table = parquet.read_table(part)
        parquet.write_table(table.drop_columns(["curve", "reason", "eval_loss"]), part)
    overview = scan(sweep, store=store, executor=THREADS, jobs=1)
    assert (overview.runs, overview.reused) == (10, 10)
    assert next(iter(overview.rows)).reason == ""


def _newer(store):
    table = pa.table({"key": ["a"]}).replace_schema_metadata({"stabdiag-scan": '{"version": 2}'})
    parquet.write_table(table, store / f"stabdiag-{1:020d}-00000000.parquet")


def _foreign(store):
    parquet.write_table(pa.table({"a": [1]}), store / "mine.parquet")


def _torn(store):
    (store / f"stabdiag-{1:020d}-00000000.parquet").write_bytes(b"PAR1 and no more")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_newer, "another version"),
        (_foreign, "not part of a store"),
        (_torn, "cannot be read"),
    ],
)
def test_an_invalid_store_is_refused(sweep, tmp_path, make, message):
    store = tmp_path / "rows"
    store.mkdir()
    make(store)
    before = list(store.iterdir())
    with pytest.raises(StabdiagError, match=message):
        scan(sweep, store=store, executor=THREADS, jobs=1)
    assert list(store.iterdir()) == before


def test_a_killed_scan_can_resume_from_any_moment(tmp_path, started):
    for number in range(30):
        write_log(tmp_path / "sweep" / f"run{number}.jsonl", number)
    store = tmp_path / "rows"
    rescan = partial(scan, tmp_path / "sweep", executor=THREADS, jobs=2)
    command = ("-m", "stabdiag", "scan", tmp_path / "sweep", "--jobs", 2, "-o", store)
    # Parts are written more often than by default, so that there is more to interrupt.
    often = tmp_path / "often"
    often.mkdir()
    (often / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'scan' in sys.argv or '-c' not in sys.argv:\n"
        "    from stabdiag.scan import store\n"
        "    store._FLUSH_ROWS = 3\n"
    )
    paths = os.pathsep.join(filter(None, (str(often), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    codes = []
    for _ in range(2):
        before = parts(store)
        process = started(*command, env=environment)
        while parts(store) == before and process.poll() is None:
            time.sleep(0.002 * random.random())
        process.kill()
        process.communicate()
        codes.append(process.returncode)
    assert -signal.SIGKILL in codes

    def facts(overview):
        return sorted((row.path, row.outcome, row.action) for row in overview.rows)

    assert facts(rescan(store=store)) == facts(rescan())
    stored_keys = keys(store)
    assert len(stored_keys) == len(set(stored_keys)) == 30


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_scan_can_be_resumed(sweep, tmp_path, started, number, code):
    os.mkfifo(tmp_path / "waits.jsonl")
    store = tmp_path / "rows"
    process = started(
        *("-m", "stabdiag", "scan", sweep, tmp_path / "waits.jsonl", "-o", store, "--jobs", 1)
    )
    # The pipe is smallest and read last: once it is opened, all other files have been read.
    with (tmp_path / "waits.jsonl").open("wb"):
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (
        code,
        "stabdiag: stopped; run the same command to continue\n",
    )
    overview = scan(sweep, store=store, executor=THREADS, jobs=1)
    assert overview.runs == 10
    assert overview.changes is None
