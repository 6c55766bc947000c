"""Runs that are kept in several files of one folder."""

import io
import os
import sys
import tarfile

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import stabdiag
from stabdiag.errors import LogError
from stabdiag.readers.registry import Reader
from stabdiag.sources import read_source

NOW = 1_760_000_000


def events(folder, begun, tag, values):
    """Write a file with TensorBoard's writer, as if it had been begun at some time."""
    writer = EventFileWriter(str(folder), filename_suffix=f".{begun}")
    for step, value in values.items():
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=NOW + begun, step=step, summary=summary))
    writer.close()
    (path,) = folder.glob(f"*.{begun}")
    os.utime(path, (NOW + begun, NOW + begun))
    return path


def falling(first, last, add=0.0):
    return {n: 4 - n / 128 + add for n in range(first, last)}


def test_attempts_in_a_folder_of_tensorboard(tmp_path):
    events(tmp_path, 10, "loss", falling(0, 50))
    events(tmp_path, 20, "loss", falling(40, 90, 1.0))
    events(tmp_path, 15, "lr", falling(0, 50))
    report = stabdiag.diagnose(tmp_path)
    assert report.history.source.name == str(tmp_path)
    loss = report.history.series["loss"]
    assert loss.steps.tolist() == list(range(90))
    assert loss.values[39:41].tolist() == [4 - 39 / 128, 5 - 40 / 128]
    assert report.history.series["lr"].steps.tolist() == list(range(40))  # the first attempt's
    assert not [e for e in report.history.events if e.kind is e.kind.SOURCE]


def test_keras_keeps_training_and_evaluation_in_folders_of_their_own(tmp_path):
    events(tmp_path / "logs" / "train", 10, "epoch_loss", falling(0, 50))
    events(tmp_path / "logs" / "validation", 20, "epoch_loss", falling(0, 50, 2.0))
    result = read_source([tmp_path])
    assert result.columns.source == f"{tmp_path}/logs"
    assert result.columns.names == (
        "step",
        "train/epoch_loss",
        "validation/epoch_loss",
        "wall_time",
    )
    assert result.columns.events == ()


def with_curves(folder, *, process=12345):
    """Write what add_scalars writes: an event file of the run, and a folder for each curve."""
    for name, tag, add in (
        ("", "lr", 0.0),
        ("loss_train", "loss", 0.0),
        ("loss_val", "loss", 1.0),
        ("Score_epoch_val", "Score/epoch", 0.0),
    ):
        path = events(folder / name, 10, tag, falling(0, 50, add))
        path.rename(path.with_name(f"events.out.tfevents.{NOW}.host.{process}.{len(name)}"))


def test_folders_of_add_scalars_are_curves_of_one_run(tmp_path):
    with_curves(tmp_path / "a")
    with_curves(tmp_path / "b")
    columns = read_source([tmp_path / "a"]).columns
    assert columns.source == str(tmp_path / "a")
    curves = {"lr", "loss/train", "loss/val", "Score/epoch/val"}
    assert set(columns.names) == {"step", *curves, "wall_time"}
    history = stabdiag.diagnose(tmp_path / "a").history
    assert history.series["eval_loss"].values[0] == history.series["loss"].values[0] + 1
    assert [row.run for row in stabdiag.scan([tmp_path]).rows] == ["a", "b"]


def test_a_folder_that_another_process_wrote_is_a_run(tmp_path):
    events(tmp_path, 10, "loss", falling(0, 50)).rename(
        tmp_path / f"events.out.tfevents.{NOW}.host.7.0"
    )
    for name, process in (("loss_mse", 8), ("lr_0.1", 7)):
        path = events(tmp_path / name, 10, "loss", falling(0, 50))
        path.rename(path.with_name(f"events.out.tfevents.{NOW}.host.{process}.1"))
    assert len(stabdiag.scan([tmp_path]).rows) == 3


def test_the_newest_of_several_runs_of_tensorboard(tmp_path):
    events(tmp_path / "a", 500, "loss", falling(0, 50))
    events(tmp_path / "b", 10, "loss", falling(0, 90))
    columns = read_source([tmp_path]).columns
    assert (columns.source, columns.rows) == (f"{tmp_path}/a", 50)
    (event,) = columns.events
    assert event.message == "chose a of 2 logs; not read: b"


def test_a_folder_of_tensorboard_in_an_archive(tmp_path):
    events(tmp_path / "run", 10, "loss", falling(0, 50))
    events(tmp_path / "run", 20, "loss", falling(50, 90))
    packed = tmp_path / "run.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "run", "run")
    columns = read_source([packed]).columns
    assert (columns.source, columns.rows) == (f"{packed}/run", 90)


def test_several_event_files_that_are_named(tmp_path):
    writer = events(tmp_path, 10, "loss", falling(0, 50))
    two = events(tmp_path, 20, "loss", falling(40, 90))
    columns = read_source([two, writer]).columns
    assert columns.load("step").values.tolist() == [*range(50), *range(40, 90)]


def test_tensorboard_that_is_not_installed(tmp_path, monkeypatch, cells, put):
    events(tmp_path / "run", 10, "loss", falling(0, 50))
    monkeypatch.setattr(sys.modules[Reader.__module__], "find_spec", lambda _name: None)
    with pytest.raises(LogError, match=r"install tensorboard: pip install 'stabdiag\[tensorboard"):
        read_source([tmp_path])
    put("old.csv", cells(0, 50), 1e6)
    assert read_source([tmp_path]).columns.format == "csv"


def test_a_run_that_cannot_be_read_precedes_other_files_without_losses(tmp_path, monkeypatch, put):
    put("run-1/run-1.wandb", b":W&B\xe1\xbe\x00" + bytes(50), 90)
    put("run-1/logs/debug-core.log", '{"time": 1, "level": "INFO", "pid": 3}\n' * 9, 10)
    monkeypatch.setattr(sys.modules[Reader.__module__], "find_spec", lambda _name: None)
    with pytest.raises(LogError, match=r"install google.protobuf: pip install 'stabdiag\[wandb\]'"):
        read_source([tmp_path])


def test_hyper_parameters_in_a_folder_below(tmp_path):
    events(tmp_path, 10, "loss", falling(0, 50))
    below = tmp_path / "1760000000.1234"
    writer = EventFileWriter(str(below))
    writer.add_event(Event(wall_time=NOW + 50, summary=hparams_pb({"optimizer": "adamw"})))
    writer.close()
    columns = read_source([tmp_path]).columns
    assert (columns.names, columns.rows) == (("step", "loss", "wall_time"), 50)
    assert columns.config == {"optimizer": "adamw"}


@pytest.fixture
def mlruns(put, tmp_path):
    """A file store of MLflow with two runs, the second one the newer."""
    for run, ago in (("aaa", 900), ("bbb", 90)):
        for metric, add in (("loss", 0.0), ("val/loss", 1.0), ("lr", 2.0)):
            points = (f"{NOW * 1000 + n} {4 - n / 128 + add} {n}\n" for n in range(40))
            put(f"mlruns/1/{run}/metrics/{metric}", "".join(points), ago)
        put(f"mlruns/1/{run}/params/precision", "bf16-mixed", ago)
        put(f"mlruns/1/{run}/meta.yaml", "name: run\n", ago)
        put(f"mlruns/1/{run}/artifacts/model/data.bin", bytes(99), ago)
    return tmp_path / "mlruns"


def test_the_file_store_of_mlflow(mlruns):
    for place in (mlruns, mlruns / "1", mlruns / "1" / "bbb"):
        report = stabdiag.diagnose(place)
        assert report.history.source.name == str(mlruns / "1" / "bbb")
        assert set(report.history.series) >= {"loss", "eval_loss", "lr"}
        assert report.history.source.records == 40
        assert report.manifest.dtype == "bf16"
    (event,) = read_source([mlruns]).columns.events
    assert event.message == "chose 1/bbb of 2 logs; not read: 1/aaa"


def test_the_metrics_of_mlflow_by_their_folder(mlruns):
    columns = read_source([mlruns / "1" / "aaa" / "metrics"]).columns
    assert columns.load("loss").present.sum() == 40


def test_a_metric_of_mlflow_in_an_archive(mlruns):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(mlruns, "mlruns")
    packed = mlruns.parent / "mlruns.tar"
    packed.write_bytes(made.getvalue())
    columns = read_source([packed]).columns
    assert columns.source == f"{packed}/mlruns/1/bbb"
    assert columns.config == {"precision": "bf16-mixed"}


def test_a_run_of_mlflow_by_its_id(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(LogError, match=r"mlflow://abc: "):
        read_source(["mlflow://abc"])


@pytest.fixture
def dvclive(put, tmp_path):
    """A folder of DVCLive whose loss becomes NaN at step 30."""
    for metric, add in (("train/loss", 0.0), ("eval/loss", 1.0), ("lr", 2.0)):
        values = (f"{n}\t{4 - n / 128 + add if n < 30 or add else 'nan'}" for n in range(40))
        name = metric.rpartition("/")[2]
        lines = "\n".join([f"step\t{name}", *values])
        put(f"dvclive/plots/metrics/{metric}.tsv", f"{lines}\n", 90)
    put("dvclive/plots/images/grid.png", b"\x89PNG", 90)
    put("dvclive/metrics.json", '{"train": {"loss": 2.5}, "step": 39}', 10)
    put("dvclive/params.yaml", "precision: bf16-mixed\n", 100)
    return tmp_path


def test_the_folder_of_dvclive(dvclive):
    for place in (dvclive, dvclive / "dvclive"):
        report = stabdiag.diagnose(place)
        assert report.history.source.name == str(dvclive / "dvclive")
        assert set(report.history.series) == {"loss", "eval_loss", "lr"}
        assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-bf16", 30)


def test_a_damaged_metric_of_dvclive_is_reported(dvclive, put):
    put("dvclive/plots/metrics/words.tsv", "step\twords\n1\ta b\n2\tc d\n", 90)
    put("dvclive/plots/metrics/odd.tsv", "step\todd\n1\t2\ninf\t3\nnan\t4\n1e300\t5\n", 90)
    columns = read_source([dvclive]).columns
    assert columns.rows == 40
    assert columns.load("odd").present.sum() == 1
    assert any("words.tsv" in note for note in columns.notes)
