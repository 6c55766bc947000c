"""Stores that the installed MLflow wrote: a database, a folder, a file of it, and all damaged."""

import io
import json
import math
import os
import shutil
import sqlite3
import struct
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.source import Stream
from stabdiag.readers.stores import mlflow
from stabdiag.readers.stores.sqlite import damaged
from tests.conftest import python
from tests.readers.conftest import read_columns

WRITER = Path(__file__).parent / "stores" / "write_mlflow.py"


@dataclass(frozen=True, kw_only=True)
class Store:
    """A store, the run that was logged last, and how MLflow itself reads it."""

    path: Path
    run: str
    metrics: dict[str, list[tuple[int, float]]]


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    """A database and a folder; MLflow writes them in a process of its own."""
    root = tmp_path_factory.mktemp("mlflow")
    environment = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "DO_NOT_TRACK": "true"}
    environment.pop("PYTHONPATH", None)
    stores = (f"sqlite:///{root}/mlflow.db", f"{root}/mlruns")
    done = python(WRITER, *stores, check=True, cwd=root, env=environment)
    stores_read = []
    for run in json.loads(done.stdout):
        metrics = {
            name: [(step, number(value)) for step, value in logged]
            for name, logged in run["metrics"].items()
        }
        (path,) = [
            *root.glob(f"mlruns/*/{run['run']}"),
            *([] if stores_read else [root / "mlflow.db"]),
        ]
        stores_read.append(Store(path=path, run=run["run"], metrics=metrics))
    return stores_read


def number(text):
    """A database has no infinity; MLflow gives the largest number in its place."""
    value = float(text)
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


@pytest.fixture
def database(stores):
    return stores[0]


@pytest.fixture
def folder(stores):
    return stores[1]


def points(columns, name):
    column, steps = columns.load(name), columns.load("step").values
    return [(s, v) for s, v, p in zip(steps, column.values, column.present, strict=True) if p]


def run_columns(root, **changed):
    """Read a run's folder; ``changed`` are contents of files, by name."""
    files = (
        (
            PurePosixPath(file.relative_to(root)),
            Stream(file.name, io.BytesIO(changed.get(file.name, file.read_bytes()))),
        )
        for file in sorted(root.rglob("*"))
        if file.is_file()
    )
    return mlflow.read_run(files, "run")


def check(columns, store):
    assert set(columns.names) == {"step", "wall_time", *store.metrics}
    for name, expected in store.metrics.items():
        np.testing.assert_array_equal(points(columns, name), expected)
    assert not np.isfinite(columns.load("train/loss").values[7:10]).any()


def test_a_database_is_what_mlflow_reads(database):
    columns = read_columns(database.path)
    check(columns, database)
    assert (columns.format, columns.rows, columns.notes) == ("sqlite", 27, ())
    assert columns.config["learning_rate"] == "0.0003"
    assert columns.config["model.precision"] == "bf16"
    (event,) = columns.events
    assert f"has 2 runs; this is the latest with metrics, second ({database.run})" in event.message


def test_a_run_folder_is_what_mlflow_reads(folder):
    columns = run_columns(folder.path)
    check(columns, folder)
    assert (columns.format, columns.rows, columns.notes) == ("mlflow", 27, ())
    assert columns.config == {
        "learning_rate": "0.0003",
        "model.precision": "bf16",
        "note": "a, b",
        "run_name": "second",
    }


def test_the_rest_of_a_truncated_database_is_read(database, tmp_path):
    """If pages of the metrics are missing, the others are read."""
    path = tmp_path / "many.db"
    shutil.copy(database.path, path)
    writer = sqlite3.connect(path)
    rows = [("train/loss", 2.0, 1_800_000_000_000 + s, database.run, s, 0) for s in range(10_000)]
    writer.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    writer.commit()
    writer.close()
    count = read_columns(path).load("train/loss").present.sum()
    os.truncate(path, path.stat().st_size - 200_000)
    columns = read_columns(path)
    assert 1000 < columns.load("train/loss").present.sum() < count
    assert "breaks off" in columns.notes[0]
    assert "metrics are damaged" in columns.notes[1]
    os.truncate(path, 50_000)
    with pytest.raises(LogError, match=r"cut off or damaged .*; recover it first"):
        read_columns(path)


@pytest.mark.parametrize("metric", ["loss", "lr"])
def test_a_metric_cut_anywhere(folder, metric):
    (file,) = folder.path.rglob(f"metrics/**/{metric}")
    data = file.read_bytes()
    name = file.relative_to(folder.path / "metrics").as_posix()
    for cut in range(max(1, len(data) - 1024), len(data), 5):
        columns = run_columns(folder.path, **{metric: data[:cut]})
        count = data[:cut].count(b"\n")
        values = points(columns, name) if name in columns.names else []
        np.testing.assert_array_equal(values, folder.metrics[name][:count])
        assert bool(columns.notes) == (data[cut - 1 : cut] != b"\n")


def test_lines_that_are_not_points(folder):
    columns = run_columns(folder.path, lr=b"1700000000000 0.5 3\nhello\n1700000000001 x 4\n\n")
    assert points(columns, "lr") == [(3, 0.5)]
    assert columns.notes == ("2 lines were not readable in the metric lr",)


def test_lines_of_other_versions(folder):
    lines = b"1700000000000 0.5\n1700000000001 0.25 7 corpus 1f2e\n"
    assert points(run_columns(folder.path, lr=lines), "lr") == [(0, 0.5), (7, 0.25)]


def test_a_folder_without_metrics_is_an_error():
    with pytest.raises(NoUsableRecord, match="no record could be read; it holds no scalars"):
        mlflow.read_run(
            [(PurePosixPath("meta.yaml"), Stream("meta.yaml", io.BytesIO(b"a: 1")))], "run"
        )


def test_a_run_by_its_id(database, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database.path}")
    columns = mlflow.read_url(f"mlflow://{database.run}")
    check(columns, database)
    assert columns.source == f"mlflow://{database.run}"
    with pytest.raises(
        LogError, match=r"^mlflow://abc: cannot be read \(.*\); check the id and ML"
    ):
        mlflow.read_url("mlflow://abc")


def test_a_run_by_its_id_in_a_folder(folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", folder.path.parents[1].as_uri())
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    with pytest.raises(LogError, match=r"does not read the folder .* give the folder of the run"):
        mlflow.read_url(f"mlflow://{folder.run}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    check(mlflow.read_url(f"mlflow://{folder.run}"), folder)


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("", "set MLFLOW_TRACKING_URI to the store"),
        ("sqlite:////nowhere/mlflow.db", "/nowhere/mlflow.db: no such file; check MLFLOW_TRACKING"),
        ("http://127.0.0.1:9", r"cannot be read \(API request .*\); check the id and MLFLOW_"),
    ],
)
def test_a_store_that_cannot_be_reached(monkeypatch, store, message):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(LogError, match=message) as refused:
        mlflow.read_url("mlflow://abc")
    assert len(str(refused.value).splitlines()) == 1


def test_without_mlflow_the_error_has_the_install_command(monkeypatch):
    monkeypatch.setattr(mlflow, "find_spec", lambda name: None)
    with pytest.raises(LogError, match=r"install mlflow: pip install 'stabdiag\[mlflow\]'"):
        mlflow.read_url("mlflow://abc")


@pytest.mark.parametrize("size", [16, 99, 100, 4096])
def test_damaged_databases_give_one_line(tmp_path, size):
    file = tmp_path / "mlflow.db"
    random = np.random.default_rng(size)
    for _ in range(20):
        file.write_bytes(b"SQLite format 3\0" + random.bytes(size))
        with pytest.raises(LogError) as refused:
            read_columns(file)
        assert len(str(refused.value).splitlines()) == 1


def test_damage_to_any_page_gives_records_or_one_line(tmp_path):
    """Wrong types and lengths in a damaged page are treated as damage."""
    intact = (Path(__file__).parent / "samples" / "sqlite" / "mlflow.db").read_bytes()
    random = np.random.default_rng(7)
    file = tmp_path / "mlflow.db"
    read = 0
    for _ in range(100):
        data = bytearray(intact)
        for place in random.integers(100, len(data), 3):
            data[place : place + 4] = random.bytes(4)
        file.write_bytes(data)
        try:
            read += read_columns(file).rows > 0
        except LogError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either is right
    assert read > 10


SAMPLE = Path(__file__).parent / "samples" / "sqlite" / "mlflow.db"
COLUMNS = "key, value, timestamp, run_uuid, step, is_nan"


@pytest.fixture
def sample(tmp_path):
    return Path(shutil.copy(SAMPLE, tmp_path / "mlflow.db"))


def change(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "statements",
    [
        f"CREATE VIEW metrics AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
        f" SELECT {COLUMNS} FROM old, n",
        f"CREATE VIEW metrics AS SELECT {COLUMNS} FROM old",
    ],
)
def test_computed_views_are_not_read(sample, statements):
    change(sample, "ALTER TABLE metrics RENAME TO old", statements)
    with pytest.raises(LogError, match="a SQLite database, but not from MLflow, Trackio or Optuna"):
        read_columns(sample)


def test_pages_of_a_table_that_all_lead_to_one(sample):
    """Each of eight pages leads 80 times to the next, and the last to the page of the table."""
    database = sqlite3.connect(sample)
    (size,) = database.execute("PRAGMA page_size").fetchone()
    (count,) = database.execute("PRAGMA page_count").fetchone()
    where = "SELECT rootpage FROM sqlite_schema WHERE name = 'metrics'"
    (root,) = database.execute(where).fetchone()
    database.close()
    data = bytearray(sample.read_bytes())
    top = (root - 1) * size
    levels = 8
    added = bytearray(data[top : top + size])  # the table's own page, or its uppermost
    for level in range(levels):
        below = count + 1 + level
        cell = below.to_bytes(4, "big") + b"\x01"
        at = size - len(cell)
        head = struct.pack(">BHHHBI", 5, 0, 80, at, 0, below)
        page = (head + struct.pack(">H", at) * 80).ljust(at, b"\0") + cell
        if level == levels - 1:
            data[top : top + size] = page
        else:
            added += page
    data[28:32] = (count + levels).to_bytes(4, "big")
    sample.write_bytes(data + added)
    with pytest.raises(LogError, match="takes too much work to read for its size"):
        read_columns(sample)


def test_many_runs_without_metrics_cost_no_search_each(sample):
    change(
        sample,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " INSERT INTO runs (run_uuid, start_time, lifecycle_stage)"
        " SELECT 'empty' || i, 9e12 + i, 'active' FROM n",
        f"INSERT INTO metrics ({COLUMNS}) SELECT {COLUMNS} FROM metrics",
    )
    assert read_columns(sample).rows > 0


def test_a_database_that_is_locked_is_called_so(sample, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.stores.sqlite._LOCK_TIMEOUT", 0.01)
    writer = sqlite3.connect(sample)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LogError, match="another program has locked; try again"):
        read_columns(sample)
    reader = sqlite3.connect(sample, timeout=0)
    with pytest.raises(sqlite3.OperationalError) as locked:
        reader.execute("SELECT * FROM metrics")
    with pytest.raises(sqlite3.OperationalError, match="is locked"):
        damaged(locked.value)  # as it may be on the way
    reader.close()
    writer.close()
    assert read_columns(sample).rows > 0


def test_values_of_other_types_than_those_of_the_columns(sample):
    rows = read_columns(sample).rows
    change(sample, "UPDATE metrics SET timestamp = 'then'", "INSERT INTO params (key) VALUES (7)")
    change(sample, "UPDATE params SET key = x'00', run_uuid = (SELECT run_uuid FROM metrics)")
    assert read_columns(sample).rows == rows


# One metric file alone, which has the name of its metric.
NAME = "train_loss"


def test_a_metric_alone_is_named_after_its_file(log):
    columns = log(b"1628697792090 332.6 0\n1628697795789 NaN 1\n1628697795790 -Infinity 2\n")
    assert columns.format == "mlflow-metric"
    assert columns.names == ("step", "train_loss", "wall_time")
    np.testing.assert_array_equal(columns.load("train_loss").values, [332.6, np.nan, -np.inf])
    assert columns.load("step").values.tolist() == [0, 1, 2]


def test_windows_line_ends_and_lines_that_break_off(log):
    columns = log(b"1628697792090 2.5 0\r\n1628697795789 2.4 1\r\n16286977")
    assert columns.load("train_loss").values.tolist() == [2.5, 2.4]
    assert columns.notes == (
        "the metric train_loss breaks off inside a line; all before that is read",
    )


def test_invalid_utf8_gives_bad_lines(log):
    text = b"1628697792090 2.5 0\n1628697792091 2\xc9 1\n"
    (note,) = log(text, format="mlflow-metric").notes
    assert note == "1 line was not readable in the metric train_loss"


def test_values_that_are_no_numbers_are_left_out(log):
    text = "".join(f"16286977920{n} {3 - n / 60:.3f} {n}\n" for n in range(10, 60))
    columns = log(f"{text}1628697792060 see below 60\n1628697792061 nil 61\n")
    (entry,) = columns.left_out
    assert (entry.count, entry.message) == (
        2,
        "2 values of 'train_loss' cannot be read as a number",
    )


def test_unreadable_metrics_are_an_error(log):
    with pytest.raises(LogError, match="expected time, value, step"):
        log("hello\n", format="mlflow-metric")
