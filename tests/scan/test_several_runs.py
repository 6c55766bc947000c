"""Databases, journals and tables that hold several runs: each of them is judged."""

import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import stabdiag
from stabdiag.errors import LogError

JOURNAL = Path(__file__).parents[1] / "readers" / "samples" / "optuna-journal" / "study.log"


def losses(number, steps=120):
    """Return the losses of a run; the second run goes NaN."""
    values = [2 + 2 * math.exp(-step / 40) + 0.01 * (step * 7 % 5) for step in range(steps)]
    return values[:-20] + [math.nan] * 20 if number == 1 else values


def outcomes(path, **options):
    return {row.run: row.outcome for row in stabdiag.scan(path, jobs=1, **options).rows}


@pytest.fixture
def mlflow_database(tmp_path):
    """A database with the tables that are read; the newest run has no loss."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER);"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, lifecycle_stage TEXT, start_time INT);"
            "CREATE TABLE metrics (key TEXT, step INT, value REAL, is_nan INT, timestamp INT,"
            " run_uuid TEXT);"
            "CREATE INDEX metrics_of_run ON metrics (run_uuid);"
        )
        for number, name in enumerate(["first", "second", "twin", "twin"]):
            run = f"{number}" * 32
            database.execute("INSERT INTO runs VALUES (?, ?, 'active', ?)", [run, name, number])
            database.execute("INSERT INTO params VALUES ('dtype', 'bf16', ?)", [run])
            rows = [
                (
                    "train_loss",
                    step,
                    0.0 if math.isnan(value) else value,
                    math.isnan(value),
                    step,
                    run,
                )
                for step, value in enumerate(losses(number))
            ]
            database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO runs VALUES ('f', 'system', 'active', 9)")
        database.execute("INSERT INTO metrics VALUES ('disk_free', 1, 0.5, 0, 9, 'f')")
        database.execute("INSERT INTO runs VALUES ('g', 'deleted', 'deleted', 10)")
        database.execute("INSERT INTO metrics VALUES ('loss', 1, 0.5, 0, 9, 'g')")
        database.commit()
    return path


TWINS = {"twin (22222222)": "healthy", "twin (33333333)": "healthy"}
OF_MLFLOW = {"first": "healthy", "second": "nan-bf16", **TWINS}


def test_every_run_of_an_mlflow_database(mlflow_database):
    rows = outcomes(mlflow_database)
    assert rows == {
        f"{mlflow_database}/{name}": outcome
        for name, outcome in {**OF_MLFLOW, "system": "unread"}.items()
    }


def test_a_database_in_a_folder(mlflow_database, tmp_path):
    rows = outcomes(tmp_path, store=tmp_path.parent / "rows")
    assert rows == {f"mlflow.db/{name}": outcome for name, outcome in OF_MLFLOW.items()}
    # The next scan reads only what has changed.
    second = stabdiag.scan(tmp_path, jobs=1, store=tmp_path.parent / "rows")
    assert {row.run for row in second.rows} == rows.keys()
    assert second.reused > 0


def test_a_database_has_the_settings_of_each_run(mlflow_database):
    rows = stabdiag.scan(mlflow_database, jobs=1).rows
    assert {row.dtype for row in rows if row.outcome != "unread"} == {"bf16"}


def test_a_database_with_one_run_has_the_name_of_the_file(mlflow_database, tmp_path):
    with closing(sqlite3.connect(mlflow_database)) as database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name != 'first'")
        database.commit()
    assert outcomes(tmp_path) == {"mlflow.db": "healthy"}


@pytest.fixture
def optuna_database(tmp_path):
    """A database with the tables of Optuna that are read."""
    path = tmp_path / "study.db"
    choices = json.dumps(
        {"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adamw"]}}
    )
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE studies (study_id INTEGER, study_name TEXT);"
            "CREATE TABLE study_directions (study_id INTEGER, direction TEXT, objective INTEGER);"
            "CREATE TABLE trials (trial_id INTEGER, number INTEGER, study_id INTEGER, state TEXT);"
            "CREATE TABLE trial_params (trial_id INTEGER, param_name TEXT, param_value REAL,"
            " distribution_json TEXT);"
            "CREATE TABLE trial_intermediate_values (trial_id INTEGER, step INTEGER,"
            " intermediate_value REAL, intermediate_value_type TEXT);"
            "INSERT INTO studies VALUES (1, 'tune'), (2, 'score');"
            "INSERT INTO study_directions VALUES (1, 'MINIMIZE', 0), (2, 'MAXIMIZE', 0);"
        )
        for number in range(3):
            trial = number + 1
            database.execute("INSERT INTO trials VALUES (?, ?, 1, 'COMPLETE')", [trial, number])
            database.execute(
                "INSERT INTO trial_params VALUES (?, 'optimizer', 1.0, ?)", [trial, choices]
            )
            database.execute(
                "INSERT INTO trial_params VALUES (?, 'learning_rate', 0.001, '{}')", [trial]
            )
            rows = [
                (trial, step, None, "NAN") if math.isnan(value) else (trial, step, value, "FINITE")
                for step, value in enumerate(losses(number))
            ]
            database.executemany("INSERT INTO trial_intermediate_values VALUES (?, ?, ?, ?)", rows)
        database.execute("INSERT INTO trials VALUES (8, 0, 2, 'COMPLETE'), (9, 1, 2, 'FAIL')")
        database.execute("INSERT INTO trial_intermediate_values VALUES (8, 0, 0.5, 'FINITE')")
        database.commit()
    return path


def test_every_trial_of_an_optuna_database(optuna_database):
    overview = stabdiag.scan(optuna_database, jobs=1)
    rows = {row.run.removeprefix(f"{optuna_database}/"): row for row in overview.rows}
    assert {name: row.outcome for name, row in rows.items()} == {
        "tune/trial-0": "healthy",
        "tune/trial-1": "nan-dtype-unknown",
        "tune/trial-2": "healthy",
        "score/trial-0": "insufficient-data",
    }
    assert rows["tune/trial-1"].step == 100
    assert rows["tune/trial-1"].optimizer == "adamw"
    assert rows["tune/trial-1"].peak_lr == 0.001


def test_a_run_with_a_loss_is_read_first(mlflow_database, optuna_database):
    history = stabdiag.read(mlflow_database)
    assert history.last_step == 119
    assert "5 runs; this is the latest with metrics, twin" in history.events[0].message
    assert stabdiag.read(optuna_database).last_step == 119


def test_values_to_maximize_are_a_reward(optuna_database):
    """Trial 8 rises and collapses, trial 9 only rises."""
    rising = [0.9 - 0.8 * math.exp(-step / 10) + 0.01 * (step * 7 % 5) for step in range(60)]
    with closing(sqlite3.connect(optuna_database)) as database:
        database.execute("DELETE FROM trial_intermediate_values")
        for trial, values in ((8, [*rising[:40], *[0.1] * 20]), (9, rising)):
            database.executemany(
                "INSERT INTO trial_intermediate_values VALUES (?, ?, ?, 'FINITE')",
                [(trial, step, value) for step, value in enumerate(values)],
            )
        database.commit()
    assert stabdiag.read(optuna_database).series["reward"].values.tolist() == rising
    rows = stabdiag.scan(optuna_database, jobs=1).rows
    assert {row.run.rpartition("/")[2]: row.outcome for row in rows} == {
        "trial-0": "reward-not-rising",
        "trial-1": "insufficient-data",
    }


def test_a_database_without_intermediate_values(optuna_database):
    with closing(sqlite3.connect(optuna_database)) as database:
        database.execute("DELETE FROM trial_intermediate_values")
        database.commit()
    with pytest.raises(LogError, match="no trial in it has intermediate values"):
        stabdiag.read(optuna_database)


def test_every_trial_of_an_optuna_journal(tmp_path):
    shutil.copy(JOURNAL, tmp_path / "study.log")
    overview = stabdiag.scan(tmp_path / "study.log", jobs=1)
    rows = {row.run.rpartition("study.log/")[2]: row for row in overview.rows}
    assert {name: row.outcome for name, row in rows.items()} == {
        "tune/trial-0": rows["tune/trial-0"].outcome,
        "tune/trial-1": "nan-dtype-unknown",
        "tune/trial-2": rows["tune/trial-2"].outcome,
        "accuracy/trial-0": "insufficient-data",
    }
    assert rows["tune/trial-1"].step == 9
    assert rows["tune/trial-0"].losses == 12
    assert rows["tune/trial-0"].optimizer in ("adamw", "sgd")
    assert rows["tune/trial-0"].peak_lr is not None


@pytest.fixture
def chart(tmp_path):
    """A chart of three runs, as W&B exports it: the first one ended early."""
    names = ["oak-1", "elm-2", "fir-3"]
    header = ["Step", *(f'"{name} - train/loss{end}"' for name in names for end in ("", "__MIN"))]
    lines = [",".join(header)]
    for step in range(120):
        cells = [str(step)]
        for number in range(3):
            value = losses(number)[step]
            text = "NaN" if math.isnan(value) else str(value)
            cells += ["", ""] if number == 0 and step >= 90 else [text, text]
        lines.append(",".join(cells))
    path = tmp_path / "chart.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_every_run_of_a_chart(chart, tmp_path):
    assert outcomes(tmp_path) == {
        "chart.csv/oak-1": "healthy",
        "chart.csv/elm-2": "nan-dtype-unknown",
        "chart.csv/fir-3": "healthy",
    }


def test_a_run_of_a_chart_ends_with_its_last_value(chart):
    assert stabdiag.read(chart).last_step == 89
    own = stabdiag.read(chart, columns={"loss": "elm-2 - train/loss"})
    assert own.last_step == 119
    assert stabdiag.diagnose(own).diagnosis.step == 100


def test_a_table_of_one_run_stays_as_it_is(tmp_path):
    path = tmp_path / "one.csv"
    lines = [f"{step},{2 - step / 100}" for step in range(50)]
    path.write_text("\n".join(["Step,oak-1 - train/loss", *lines]), encoding="utf-8")
    assert outcomes(path) == {str(path): "healthy"}
