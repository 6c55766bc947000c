"""``stabdiag scan``, and what other commands say of it."""

import json
from functools import partial

import pytest
from pyarrow import parquet

from tests.conftest import python
from tests.scan.conftest import THREADS, write_log


def test_the_overview_and_the_exit_codes(stabdiag, sweep, tmp_path):
    done = stabdiag("scan", sweep)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("ERROR  5 of 10 runs failed")
    threads = partial(stabdiag, "scan", "--executor", THREADS)
    assert threads(sweep, "--fail-on", "never").code == 0
    assert threads(*sorted(sweep.glob("run[02468].jsonl"))).code == 0
    write_log(tmp_path / "other" / "run0.jsonl")
    (tmp_path / "other" / "empty.jsonl").touch()
    assert threads(tmp_path / "other").code == 2
    assert threads(tmp_path / "other", sweep).code == 1


def test_other_formats_and_conditions(stabdiag, sweep, tmp_path):
    page, table, rows = tmp_path / "page.json", tmp_path / "rows.md", tmp_path / "rows.parquet"
    done = stabdiag(
        *("scan", sweep, "--where", "severity=error", "--top", 2, "-o", tmp_path / "rows"),
        *("--executor", THREADS),
        *("--write", f"json={page}", "--write", f"markdown={table}", "--write", f"parquet={rows}"),
    )
    assert done.code == 1
    report = json.loads(page.read_text())
    assert len(report["rows"]) == 5
    assert "run1" in table.read_text(encoding="utf-8")
    assert parquet.read_table(rows)["run"].to_pylist() == [row["run"] for row in report["rows"]]


def test_the_name_of_the_output_chooses_a_report_a_table_or_a_store(stabdiag, sweep, tmp_path):
    scan = partial(stabdiag, "scan", sweep, "--executor", THREADS, "-o")
    done = scan("page.html")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("stabdiag: wrote page.html; 10 runs: 5 failed")
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert "wrote rows.parquet" in scan("rows.parquet").err
    assert parquet.read_table(tmp_path / "rows.parquet").num_rows == 10
    assert "cannot write .svg files" in scan("page.svg").err
    for folder in ("rows", "rows.v2", "kept.html"):
        (tmp_path / "kept.html").mkdir(exist_ok=True)
        assert scan(folder).out.startswith("ERROR  5 of 10 runs failed")
        assert list((tmp_path / folder).glob("*.parquet"))


def test_many_places_are_counted(stabdiag, sweep):
    shown = stabdiag("scan", *sorted(sweep.glob("*.jsonl")), "--executor", THREADS).out
    assert "and 7 more" in shown
    assert f"{sweep}/run3.jsonl" not in shown.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none"], "none: no such file or folder; check the path"),
        (["-"], "a scan takes folders, logs, archives and URLs, not standard input"),
        ([""], "a scan takes folders, logs, archives and URLs, not standard input"),
        (["none/*.csv"], "none/*.csv: no file or folder matches this pattern"),
        (["."], ".: no log of a run found; stabdiag formats lists what can be read"),
        ([".", "--limit", "spike.sigma=x"], "spike.sigma"),
        ([".", "--write", "sarif=a"], "unknown format 'sarif'"),
        ([".", "-f", "parquet"], "'parquet' is not one of 'terminal', 'json'"),
        ([".", "--scheduler", "tcp://x:1"], "--scheduler goes with --executor dask"),
        ([".", "--executor", "dask"], "--executor dask needs --scheduler ADDRESS"),
        ([".", "--executor", "mine"], "--executor mine: use dask, or module:callable for"),
        ([".", "--timeout", "nan"], "the time limit of a log must be positive, not nan"),
    ],
)
def test_an_error_is_one_line(stabdiag, arguments, expected):
    done = stabdiag("scan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert expected in done.err


def test_a_store_that_cannot_be_written_is_unchanged(stabdiag, sweep):
    done = stabdiag("scan", sweep, "-o", "/proc/rows")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("stabdiag: /proc/rows: cannot be opened")


def test_a_folder_of_several_runs_leads_to_it(stabdiag, sweep):
    done = stabdiag("diagnose", sweep)
    assert done.err.count("\n") == 1
    assert f"stabdiag scan {sweep}" in done.err
    assert stabdiag("diagnose", sweep / "run1.jsonl").err == ""


def test_views_of_one_run_do_not(stabdiag, tmp_path):
    for name in ("metrics.jsonl", "checkpoint-5/log.jsonl", "checkpoint-10/log.jsonl"):
        write_log(tmp_path / "run" / name, 1)
    assert stabdiag("diagnose", tmp_path / "run").err == ""


def test_a_script_needs_no_guard(sweep, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import stabdiag\noverview = stabdiag.scan({str(sweep)!r}, jobs=1)\nprint(overview.runs)\n"
    )
    done = python(script, timeout=300)
    assert (done.stdout, done.stderr) == ("10\n", "")
