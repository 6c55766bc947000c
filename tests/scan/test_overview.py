"""The overview of a scan, in addition to its golden files."""

from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag.formats.scans import kinds, name
from stabdiag.model.scan import ScanChange
from stabdiag.scan.overview import make_overview
from stabdiag.scan.rows import read_rows, row_table
from tests.scan.made import sweep


def test_the_worst_runs_are_those_that_lost_most():
    overview = make_overview(sweep(), top=3)
    assert [row.lost_steps for row in overview.worst] == [500, 490, 480]
    everyone = make_overview(sweep(), top=100).worst
    assert [row.severity for row in everyone] == ["error"] * 12 + ["warning"]


def test_rows_are_sorted_worst_first_on_every_iteration():
    overview = make_overview(sweep())
    first = list(overview.rows)
    assert first == list(overview.rows)
    assert sorted(row.path for row in first) == sorted(row.path for row in sweep())
    assert [row.severity for row in first[-2:]] == [None, None]


def test_a_reason_that_names_its_log_is_the_same_for_others():
    rows = [replace(row, reason=f"{row.path}: empty") for row in sweep() if row.severity is None]
    (group,) = make_overview(rows).unread
    assert (group.reason, group.logs) == ("empty", 2)


def test_kinds_of_failure_with_one_title_differ_in_their_first_action():
    rows = sweep()
    failed = [i for i, row in enumerate(rows) if row.outcome == "spike-persistent"]
    rows[failed[0]] = replace(rows[failed[0]], action_kind="lower-lr")
    rows[failed[1]] = replace(rows[failed[1]], action_kind="a-kind-of-an-old-store")
    titles = [title for _, title in kinds(make_overview(rows))]
    assert sorted(titles) == [
        "Loss became NaN",
        "Loss spiked and recovered",
        "Loss spiked and stayed up: a-kind-of-an-old-store",
        "Loss spiked and stayed up: go back to a checkpoint",
        "Loss spiked and stayed up: lower the learning rate",
    ]


@pytest.mark.parametrize(
    ("format", "run", "settings", "expected"),
    [
        ("mlflow", "4408/97e975294cf946e7", {"run_name": "oak-1"}, "oak-1 (97e97529)"),
        ("wandb", "wandb/offline-run-2026_06-fcf49lzc", {"run_name": "oak-1"}, "oak-1 (fcf49lzc)"),
        ("wandb", "sweep/oak-1", {"run_name": "oak-1"}, "oak-1"),
        ("mlflow", "4408/97e975294cf946e7", {}, "4408/97e975294cf946e7"),
        ("csv", "run3", {"run_name": "all-the-same"}, "run3"),
    ],
)
def test_a_run_under_an_id_has_the_name_that_its_logger_gave_it(format, run, settings, expected):
    row = replace(sweep()[0], format=format, run=run, settings=settings)
    assert name(row) == expected


def test_one_long_run_does_not_bring_the_failures_of_others_together():
    (failed, *_) = make_overview(sweep()).worst
    steps = [100, 105, 109, 300, 500]
    lasts = [1_000, 1_000, 1_000, 1_000, 100_000]
    rows = [
        replace(failed, path=f"{step}.jsonl", step=step, last_step=last)
        for step, last in zip(steps, lasts, strict=True)
    ]
    (group,) = make_overview(rows).groups
    assert (group.steps, group.near) == ((100, 109, 500), (100, 109, 3))


def test_changes_since_the_last_scan_are_reported():
    before = sweep()
    rows = before[1:]
    rows[0] = replace(rows[0], outcome="nan-bf16", severity="error")
    at = next(i for i, row in enumerate(rows) if row.outcome == "spike-recovered")
    rows[at] = replace(rows[at], outcome="healthy", severity="ok")
    rows[-1] = replace(rows[-1], outcome="healthy", severity="ok")
    rows.append(replace(rows[3], run="another in the same file"))
    overview = make_overview(rows, before=row_table(before)).changes
    assert (overview.new, overview.gone) == (1, 1)
    path, run = rows[0].path, rows[0].run
    assert overview.worse == (ScanChange(path=path, run=run, before="healthy", after="nan-bf16"),)
    assert [change.before for change in overview.better] == ["spike-recovered"]
    assert [(change.before, change.after) for change in overview.other] == [("unread", "healthy")]
    assert make_overview(before).changes is None


def test_an_overview_of_no_rows_is_empty():
    overview = make_overview([])
    assert (overview.runs, overview.counts, overview.worst, list(overview.rows)) == (0, (), (), [])


def test_rows_from_disk_say_the_same(tmp_path):
    table = row_table(sweep(3))
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    read = parquet.read_table(tmp_path / "rows.parquet")
    parts = pa.concat_tables([read.slice(0, 11), read.slice(11)])
    assert list(read_rows(parts)) == sweep(3)
    now, combined = make_overview(parts), make_overview(table)
    for field in ("counts", "worst", "groups", "common", "compared", "unread"):
        assert getattr(now, field) == getattr(combined, field)


def test_rows_become_objects_in_small_batches():
    import gc

    from stabdiag.model.scan import Row

    def alive():
        return sum(type(item) is Row for item in gc.get_objects())

    # Other tests of this process may keep rows; collect garbage before counting.
    gc.collect()
    peak, others = 0, alive()
    for number, _ in enumerate(make_overview(row_table(sweep(200))).rows):
        if number % 1000 == 0:
            peak = max(peak, alive() - others)
    assert number > 4000
    assert 0 < peak < 200
