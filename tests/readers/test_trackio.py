"""A project as Trackio keeps it: ``stores/trackio.db.gz``, written by ``write_trackio.py``."""

import gzip
import math
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from tests.readers.conftest import read_columns

PACKED = Path(__file__).parent / "stores" / "trackio.db.gz"
ODD = {7: math.nan, 8: math.inf, 9: -math.inf}


@pytest.fixture
def project(tmp_path):
    file = tmp_path / "test.db"
    file.write_bytes(gzip.decompress(PACKED.read_bytes()))
    return file


def changed(project, statement):
    database = sqlite3.connect(project)
    database.execute(statement)
    database.commit()
    database.close()


def test_the_newest_run_is_read(project):
    columns = read_columns(project)
    assert (columns.format, columns.rows, columns.notes) == ("sqlite", 27, ())
    assert columns.names == ("_step", "train/loss", "train/lr", "eval/loss", "eval/text")
    first = [ODD.get(step, 2 + 1 / (step + 1)) for step in range(20)]
    np.testing.assert_array_equal(columns.load("train/loss").values, [*first, *[2.5] * 7])
    steps = [*range(0, 200, 10), *range(150, 220, 10)]
    assert columns.load("_step").values.tolist() == steps
    assert np.flatnonzero(columns.load("eval/loss").present).tolist() == [4, 9, 14, 19]
    assert columns.config == {"lr": 3e-4, "precision": "bf16"}
    assert columns.events[0].message == "the project has 2 runs; this is the latest, second"


def test_the_step_of_the_trainer_precedes_the_record_number(project):
    assert stabdiag.read(project).series["loss"].steps[-1] == 210
    changed(
        project,
        "UPDATE metrics SET metrics = json_set(metrics, '$.\"train/global_step\"', 7 * step)",
    )
    assert stabdiag.read(project).series["loss"].steps[-1] == 7 * 210


def test_a_packed_project_and_its_configuration():
    manifest = stabdiag.diagnose(PACKED).manifest
    assert (manifest.dtype, manifest.peak_lr) == ("bf16", 3e-4)


def test_reading_writes_no_files(project):
    project.parent.chmod(0o500)
    try:
        assert read_columns(project).rows == 27
    finally:
        project.parent.chmod(0o700)
    assert [path.name for path in project.parent.iterdir()] == ["test.db"]


def test_the_write_ahead_log_is_read(project):
    writer = sqlite3.connect(project)
    writer.execute("UPDATE metrics SET metrics = '{\"train/loss\": 7}'")
    writer.commit()
    assert read_columns(project).load("train/loss").values.tolist() == [7] * 27
    writer.close()


def test_a_database_without_run_ids(project):
    for index in ("step", "timestamp", "record"):
        changed(project, f"DROP INDEX idx_metrics_run_{index}")
    changed(project, "ALTER TABLE metrics DROP COLUMN run_id")
    assert read_columns(project).rows == 27


def test_broken_records_keep_their_step(project):
    changed(project, "UPDATE metrics SET metrics = '{' WHERE step = 10")
    changed(project, "UPDATE metrics SET metrics = '[1]' WHERE step = 20")
    changed(project, "UPDATE metrics SET metrics = 7 WHERE step = 30")
    loss = read_columns(project).load("train/loss")
    assert np.flatnonzero(~loss.present).tolist() == [1, 2, 3]


def test_a_truncated_project_is_read_up_to_the_cut(project):
    size = project.stat().st_size
    for cut in range(1, 1025, 11):
        os.truncate(project, size - cut)
        assert "breaks off" in read_columns(project).notes[0]
    os.truncate(project, 10_000)
    with pytest.raises(LogError, match="cut off or damaged"):
        read_columns(project)


def test_an_empty_project_is_an_error(project):
    changed(project, "DELETE FROM metrics")
    with pytest.raises(NoUsableRecord, match="no run in it logged anything"):
        read_columns(project)
