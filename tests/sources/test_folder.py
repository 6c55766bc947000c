"""Folders: the best log in them, and its sidecar files."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.sources import ReadRequest, read_source
from stabdiag.sources.logs import find_logs

HOUR = 3600.0


def taken(folder):
    return read_source([folder]).columns.source.removeprefix(f"{folder}/")


def event_messages(folder):
    return [event.message for event in read_source([folder]).columns.events]


def test_one_log_among_other_files(put, lines, tmp_path):
    put("run/metrics.jsonl", lines(0, 50))
    put("run/model.safetensors", b"\x10" * 100)
    put("run/all_results.json", '{"train_loss": 2.0, "step": 50}')
    put("run/notes.md", "step,loss\n1,2\n2,3\n")
    put("run/empty.csv", "")
    assert taken(tmp_path / "run") == "metrics.jsonl"
    assert event_messages(tmp_path / "run") == []


def test_a_log_without_names_follows_one_with_names(put, cells, tmp_path):
    put("metrics.csv", cells(0, 50), HOUR)
    put("values.txt", "2.5\n2.25\n2.0\n" * 300)
    assert taken(tmp_path) == "metrics.csv"
    (tmp_path / "metrics.csv").unlink()
    assert taken(tmp_path) == "values.txt"


# Files with their number of losses and age; the file to read comes first.
CHOICES = {
    "the newest run": {
        "version_2/metrics.csv": (52, HOUR),
        "version_0/metrics.csv": (50, 9 * HOUR),
        "version_10/metrics.csv": (60, 5 * HOUR),
    },
    "the last number among runs of one age": {
        "version_10/log.csv": (50, 10),
        "version_9/log.csv": (50, 9),
        "version_8/log.csv": (50, 8),
    },
    "the log before rotated ones": {
        "log.jsonl": (50, 0),
        "log.jsonl.1": (50, 0),
        "log.jsonl.2": (50, 0),
    },
    "the last rotated one": {"log.jsonl.2": (50, 0), "log.jsonl.1": (50, 0)},
    "the first rank": {
        "rank_0.jsonl": (50, 0),
        "rank_1.jsonl": (50, 1),
        "rank_10.jsonl": (50, 10),
        "rank_2.jsonl": (50, 2),
    },
    "the rank with most losses": {"rank_10.jsonl": (60, 0), "rank_0.jsonl": (50, 0)},
    "the view with most losses": {
        "logs/metrics.jsonl": (50, 600),
        "train.csv": (40, 60),
        "old/logs/metrics.jsonl": (90, 9 * HOUR),
    },
    "training before evaluation": {
        "train/log.csv": (30, 5 * HOUR),
        "validation/log.csv": (60, 0),
        "eval.csv": (70, 0),
    },
}


@pytest.mark.parametrize("files", CHOICES.values(), ids=CHOICES.keys())
def test_the_best_log_is_chosen(put, lines, cells, tmp_path, files):
    for name, (count, ago) in files.items():
        put(f"logs/{name}", (cells if name.endswith("csv") else lines)(0, count), ago)
    first, *others = files
    assert taken(tmp_path / "logs") == first
    (event,) = event_messages(tmp_path / "logs")
    assert event.startswith(f"chose {first} of {len(files)} logs; not read: ")
    assert all(other in event for other in others)


def test_structured_logs_precede_printed_logs(put, lines, tmp_path):
    printed = "".join(f"Epoch [1][{n}/200] loss: 2.5 lr: 0.1\n" for n in range(200))
    put("run/20260102.log", printed)
    put("run/vis_data/scalars.json", lines(0, 198))
    assert taken(tmp_path) == "run/vis_data/scalars.json"
    put("run/vis_data/scalars.json", lines(0, 20))
    assert taken(tmp_path) == "run/20260102.log"


def test_a_log_without_losses_only_where_there_is_no_other(put, cells, tmp_path):
    put("speed.csv", "step,tokens\n" + "".join(f"{n},{n}\n" for n in range(99)))
    assert taken(tmp_path) == "speed.csv"
    put("run.csv", cells(0, 30), 5 * HOUR)
    assert taken(tmp_path) == "run.csv"
    assert event_messages(tmp_path) == []


def test_a_log_that_cannot_be_read_says_why_where_it_is_the_only_one(put, cells, tmp_path):
    put("run.parquet", b"PAR1 and no more")
    with pytest.raises(LogError, match=r"run\.parquet: a Parquet file that is cut off or damaged"):
        read_source([tmp_path])
    put("run.csv", cells(0, 30))
    assert taken(tmp_path) == "run.csv"


def test_a_large_log_is_measured_by_its_head(put, lines, tmp_path):
    put("short.jsonl", lines(0, 2000, note="x" * 300))
    put("below/long.jsonl", lines(0, 20_000))
    assert taken(tmp_path) == "below/long.jsonl"


def test_folders_too_deep_hidden_or_of_programs_are_not_looked_into(put, cells, tmp_path):
    put("1/2/3/4/5/6/run.csv", cells(0, 50))
    put(".git/run.csv", cells(0, 50))
    put("__pycache__/run.csv", cells(0, 50))
    put("env/pyvenv.cfg", "home = /usr/bin")
    put("env/share/run.csv", cells(0, 50))
    with pytest.raises(NoUsableRecord, match=r"no file in it is a log \(looked at 0 files\)"):
        read_source([tmp_path])


def test_loops_of_links_end_and_broken_links_are_left_out(put, cells, tmp_path):
    put("runs/a/run.csv", cells(0, 50))
    (tmp_path / "runs" / "0-latest").symlink_to("a")
    (tmp_path / "runs" / "a" / "loop").symlink_to("..")
    (tmp_path / "runs" / "gone.csv").symlink_to("nowhere")
    assert taken(tmp_path / "runs") == "a/run.csv"
    assert event_messages(tmp_path / "runs") == []
    (left_out,) = read_source([tmp_path / "runs"]).columns.left_out
    assert left_out.message.endswith("runs/gone.csv (a broken link)")
    assert taken(tmp_path / "runs" / "0-latest") == "run.csv"


def test_links_out_of_the_folder_are_reported(put, cells, tmp_path):
    """Caches of datasets and models consist of links, so links are followed."""
    put("blobs/1.csv", cells(0, 50))
    put("blobs/2.json", '{"lr": 0.5}')
    for name, blob in (("metrics.csv", "1.csv"), ("manifest.json", "2.json")):
        link = tmp_path / "snapshot" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(f"../blobs/{blob}")
    assert read_source([tmp_path / "snapshot"]).manifest.peak_lr == 0.5
    (tmp_path / "run").symlink_to("snapshot")
    where = f"metrics.csv to {tmp_path}/blobs/1.csv and 1 more"
    for folder in ("snapshot", "run"):
        assert event_messages(tmp_path / folder) == [f"followed links out of the folder: {where}"]
    assert event_messages(tmp_path) == []


def test_links_that_lead_to_themselves(put, cells, tmp_path):
    put("run/metrics.csv", cells(0, 50))
    for name in ("loop", "manifest.json", "log.csv"):
        (tmp_path / "run" / name).symlink_to(name)
    (tmp_path / "run" / "again").symlink_to(".")
    assert taken(tmp_path / "run") == "metrics.csv"
    assert event_messages(tmp_path / "run") == []
    (left_out,) = read_source([tmp_path / "run"]).columns.left_out
    assert left_out.message.endswith("run/log.csv (a broken link)")
    with pytest.raises(LogError, match=r"cannot be opened \(Too many levels of symbolic links\)"):
        read_source([tmp_path / "run" / "loop"])


def test_only_the_first_files_of_a_folder_are_inspected(put, lines, tmp_path, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.folder.MAX_FILES", 31)
    monkeypatch.setattr("stabdiag.sources.logs._MAX_FILES", 5)
    for number in range(30):
        put(f"sample_{number:02}.txt", "nothing")
    put("sample_00.jsonl", lines(0, 50))
    assert taken(tmp_path) == "sample_00.jsonl"
    assert event_messages(tmp_path) == [
        "looked at the first 31 files and folders only",
        "inspected 5 of 31 files",
    ]


def test_archives_in_a_folder_are_not_looked_into(put, cells, tmp_path):
    put("a.tar.gz", b"\x1f\x8b")
    put("b.zip", b"PK\x03\x04")
    with pytest.raises(NoUsableRecord) as caught:
        read_source([tmp_path])
    assert str(caught.value) == (
        f"{tmp_path}: no file in it is a log (looked at 2 files); did not search archives:"
        " a.tar.gz and 1 more; `stabdiag formats` lists what can be read"
    )
    put("run.csv", cells(0, 50))
    assert event_messages(tmp_path) == ["did not search archives: a.tar.gz and 1 more"]


def test_a_requested_format_selects_the_log(put, lines, cells, tmp_path):
    put("run.csv", cells(0, 50))
    put("run.jsonl", lines(0, 40))
    assert read_source([tmp_path], ReadRequest(format="jsonl")).columns.format == "jsonl"
    with pytest.raises(NoUsableRecord, match="is a log in the format parquet"):
        read_source([tmp_path], ReadRequest(format="parquet"))


@pytest.fixture
def lock(monkeypatch):
    """Return a function that keeps a path from being listed or read."""

    def refusing(call, locked):
        def refuse(path, *args, **kwargs):
            if Path(os.fsdecode(path)) == locked:
                raise PermissionError(13, "Permission denied")
            return call(path, *args, **kwargs)

        return refuse

    def lock(locked):
        for owner, name in ((os, "scandir"), (os, "open"), (Path, "open"), (Path, "read_bytes")):
            monkeypatch.setattr(owner, name, refusing(getattr(owner, name), locked))

    return lock


def test_a_folder_that_may_not_be_listed(put, cells, tmp_path, lock):
    put("run.csv", cells(0, 50))
    put("locked/run.csv", cells(0, 90))
    lock(tmp_path / "locked")
    assert taken(tmp_path) == "run.csv"
    assert event_messages(tmp_path) == [
        f"{tmp_path}/locked could not be opened (Permission denied)"
    ]
    with pytest.raises(LogError, match="may not be read by you; change its permissions"):
        read_source([tmp_path / "locked"])


def test_a_file_that_may_not_be_read(put, cells, tmp_path, lock):
    put("run.csv", cells(0, 50))
    locked = put("logs/run.csv", cells(0, 90))
    lock(locked)
    assert taken(tmp_path) == "run.csv"
    assert event_messages(tmp_path) == [f"{locked}: may not be read by you; change its permissions"]
    with pytest.raises(NoUsableRecord, match="change its permissions"):
        read_source([tmp_path / "logs"])


def test_an_unreadable_manifest_is_reported(put, cells, lock):
    log, locked = put("run.csv", cells(0, 50)), put("run.manifest.json", "{}")
    lock(locked)
    assert event_messages(log) == [
        f"not used as manifest: {locked}: cannot be read (Permission denied)"
    ]


def test_a_file_that_is_gone_when_it_is_read(put, cells, tmp_path, monkeypatch):
    log = put("run.csv", cells(0, 50))
    look = find_logs

    def then_gone(place, entries):
        logs = look(place, entries)
        log.unlink()
        return logs

    monkeypatch.setattr("stabdiag.sources.best.find_logs", then_gone)
    with pytest.raises(NoUsableRecord, match=r"cannot be read; .*run\.csv: no such file"):
        read_source([tmp_path])


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(LogError, match=r"cannot be opened \(File name too long\)"):
        read_source([tmp_path / ("x" * 5000)])


def test_a_format_that_shows_nothing_before_its_end(put, cells, tmp_path):
    noise = np.random.default_rng(1).random(50_000)
    table = pa.table({"step": np.arange(50_000), "loss": noise})
    parquet.write_table(table, put("run.parquet", ""))
    put("a/run.csv", cells(0, 90))
    assert taken(tmp_path) == "run.parquet"


def test_a_job_that_prints_its_source_code_first(put, tmp_path):
    source = "    return np.sum(weights[index] for index in range(count))\n" * 9000
    steps = "".join(f"step:{n}/99 train_loss:{4 - n / 100:.4f} train_time:9ms\n" for n in range(99))
    put("job.out", source + steps)
    assert read_source([tmp_path]).columns.rows == 99


# Sidecar files of a log.


def manifest(path):
    return read_source([path]).manifest


def test_a_manifest_with_only_settings_without_a_field_is_used(put, lines):
    log = put("run/log.jsonl", lines(0, 50))
    put("run/manifest.json", '{"overfit_batches": 1}')
    assert manifest(log).also == {"overfit_batches": 1}
    put("run/manifest.json", '{"short_name": "app", "icons": []}')
    assert manifest(log).path is None


def test_a_manifest_precedes_arguments_and_these_fill_its_gaps(put, lines, tmp_path):
    log = put("run/log.jsonl", lines(0, 50))
    put("run/manifest.json", '{"dtype": "fp16"}')
    put("run/training_args.json", '{"bf16": true, "max_grad_norm": 2.0}')
    put("run/config.json", '{"model_type": "llama", "torch_dtype": "float32", "vocab_size": 99}')
    put("run/hparams.yaml", "weight_decay: 0.3\n")
    put("run/ds_config.json", '{"gradient_clipping": "auto", "other": 1}')
    for place in (log, tmp_path / "run"):
        manifest_read = manifest(place)
        assert (manifest_read.dtype, manifest_read.grad_clip, manifest_read.vocab_size) == (
            "fp16",
            2.0,
            99,
        )
        assert manifest_read.weight_decay == 0.3
        names = ("manifest.json", "training_args.json", "hparams.yaml", "config.json")
        assert manifest_read.path == ", ".join(str(tmp_path / "run" / name) for name in names)


def test_the_dtype_of_a_models_weights_is_not_that_of_the_training(put, lines):
    log = put("run/log.jsonl", lines(0, 50))
    put("run/config.json", '{"model_type": "llama", "torch_dtype": "float16", "vocab_size": 99}')
    manifest_read = manifest(log)
    assert (manifest_read.dtype, manifest_read.vocab_size) == (None, 99)
    saved = {"architectures": ["Llama"], "vocab_size": 99, "weight_decay": 0.1, "dtype": "bf16"}
    put("run/config.json", json.dumps(saved))
    manifest_read = manifest(log)
    assert (manifest_read.dtype, manifest_read.vocab_size, manifest_read.weight_decay) == (
        None,
        99,
        None,
    )


def test_pickled_trainer_arguments_are_reported_but_not_loaded(put, lines, tmp_path):
    log = put("run/checkpoint-5/log.jsonl", lines(0, 50))
    for folder in ("run", "run/checkpoint-5"):
        put(f"{folder}/training_args.bin", pickle.dumps({"bf16": True}))
    for place in (log, tmp_path / "run"):
        result = read_source([place])
        warnings = [
            event.message for event in result.columns.events if "training_args.bin" in event.message
        ]
        assert len(warnings) == 1
        assert "to_json_string" in warnings[0]
        assert result.manifest.dtype is None
    put("run/training_args.json", '{"bf16": true}')
    put("run/checkpoint-5/training_args.json", '{"bf16": true}')
    result = read_source([log])
    assert result.manifest.dtype == "bf16"
    assert not any("training_args.bin" in event.message for event in result.columns.events)


@pytest.mark.parametrize(
    ("log", "remote", "result"),
    [
        ("run.jsonl", ["manifest.json", "run.manifest.json"], "run.manifest.json"),
        ("run.jsonl.gz", ["run.manifest.json"], "run.manifest.json"),
        ("run.v2.jsonl", ["run.manifest.json", "run.v2.manifest.json"], "run.v2.manifest.json"),
        ("run.jsonl", ["other.manifest.json"], None),
        ("run.json", ["run.json"], None),
        ("config.json", ["config.json"], None),
        ("logs/run.jsonl", ["config.yaml"], "config.yaml"),
        ("version_3/metrics.jsonl", ["hparams.yaml"], "hparams.yaml"),
        ("checkpoint-500/log.jsonl", ["training_args.json"], "training_args.json"),
        ("else/run.jsonl", ["config.yaml"], None),
        ("run.jsonl", [".hydra/config.yaml"], ".hydra/config.yaml"),
    ],
)
def test_manifests_are_found_near_the_log(put, lines, tmp_path, log, remote, result):
    import gzip

    for name in remote:
        put(name, '{"dtype": "bf16"}')
    text = lines(0, 50).encode()
    path = put(log, gzip.compress(text) if log.endswith("gz") else text)
    manifest_read = manifest(path)
    assert manifest_read.path == (str(tmp_path / result) if result else None)
    assert manifest_read.dtype == ("bf16" if result else None)


def test_invalid_manifests_are_reported_and_ignored(put, lines):
    log = put("run/log.jsonl", lines(0, 50))
    put("run/manifest.json", "[1]")
    put("run/config.yaml", "a: [")
    put("run/args.json", '{"name": "nothing that is known"}')
    put("run/config.toml", b"\xff" * 2_000_000)
    result = read_source([log])
    assert result.manifest.path is None
    messages = [event.message for event in result.columns.events]
    assert len(messages) == 2
    assert all(message.startswith("not used as manifest: ") for message in messages)
    assert "manifest.json: a manifest is one JSON object" in messages[0]
    assert "config.yaml: not valid YAML" in messages[1]
    assert stabdiag.diagnose(log).diagnosis.slug == "healthy"


def test_a_manifest_named_like_its_log_needs_no_known_field(put, lines):
    log = put("run.jsonl", lines(0, 50))
    put("run.manifest.json", '{"overfit_batches": 1}')
    manifest = stabdiag.diagnose(log).manifest
    assert manifest.path is not None
    assert manifest.others({})["overfit_batches"] == 1


@pytest.mark.parametrize("name", ["config.yaml", "hparams.yaml", "manifest.json", "config.toml"])
def test_manifests_that_break_a_parser_are_reported_and_ignored(put, lines, name):
    log = put("run/log.jsonl", lines(0, 50))
    put("run/args.json", '{"lr": 0.5}')
    deep = {"json": '{"a": ' * 5000, "toml": "a = " + "[" * 5000}
    put(f"run/{name}", deep.get(name.rpartition(".")[2], 'lr: 0.1\na: !!bool "abc"\n'))
    result = read_source([log])
    assert result.manifest.peak_lr == 0.5
    (event,) = result.columns.events
    assert event.message.startswith(f"not used as manifest: {log.parent / name}: not valid ")


def test_settings_go_before_the_manifest(put, lines):
    log = put("log.jsonl", lines(0, 50))
    put("manifest.json", json.dumps({"dtype": "fp16", "lr": 0.5}))
    manifest_read = stabdiag.diagnose(log, settings={"dtype": "bf16"}).manifest
    assert (manifest_read.dtype, manifest_read.peak_lr, manifest_read.overridden) == (
        "bf16",
        0.5,
        ("dtype",),
    )
