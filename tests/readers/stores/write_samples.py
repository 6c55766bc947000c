"""Write small stores of other programs for the samples: python write_samples.py FOLDER.

They contain the names that callbacks of PyTorch and Keras, Lightning and the HF Trainer log.
W&B and MLflow stores are left out: they contain the name of the machine or hundreds of tables.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import sys
import zlib
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from wandb.proto.wandb_internal_pb2 import Record

STEPS = 8


def simple(tag: str, value: float) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def events(file: Path, make, **tags: float) -> None:
    with file.open("wb") as out:
        writer = RecordWriter(out)
        writer.write(Event(wall_time=1, file_version="brain.Event:2").SerializeToString())
        for step in range(STEPS):
            for tag, value in tags.items():
                summary = make(tag, value / (1 + step / 10))
                event = Event(wall_time=2 + step, step=10 * step, summary=summary)
                writer.write(event.SerializeToString())


def wandb_run(file: Path, clock: str, config: dict[str, object], **columns: float) -> None:
    records = [Record()]
    for key, value in config.items():
        records[0].config.update.add(key=key, value_json=json.dumps(value))
    for step in range(STEPS):
        record = Record()
        for key, value in {**columns, clock: 10 * step, "_step": step}.items():
            text = json.dumps(value if key.endswith("step") else value / (1 + step / 10))
            record.history.item.add(nested_key=[key], value_json=text)
        records.append(record)
    records.append(Record(exit={"exit_code": 0}))
    out = b":W&B\xe1\xbe\x00"
    for record in records:
        content = record.SerializeToString()
        out += struct.pack("<IHB", zlib.crc32(b"\1" + content), len(content), 1) + content
    file.write_bytes(out)


def mlflow_database(file: Path, parameters: dict[str, str], **metrics: float) -> None:
    file.unlink(missing_ok=True)
    database = sqlite3.connect(file)
    database.executescript(
        """
        PRAGMA page_size = 512;
        CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name VARCHAR(256));
        CREATE TABLE runs (
            run_uuid VARCHAR(32) PRIMARY KEY, name VARCHAR(250), status VARCHAR(9),
            start_time BIGINT, lifecycle_stage VARCHAR(20), experiment_id INTEGER
        );
        CREATE TABLE metrics (
            key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT,
            is_nan BOOLEAN
        );
        CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32));
        INSERT INTO runs VALUES ('4f2a', 'calm-owl-12', 'FINISHED', 1, 'active', 0);
        """
    )
    database.executemany("INSERT INTO params VALUES (?, ?, '4f2a')", parameters.items())
    database.executemany(
        "INSERT INTO metrics VALUES (?, ?, ?, '4f2a', ?, 0)",
        [
            (metric, value / (1 + step / 10), 1_767_225_600_000 + step, 10 * step)
            for step in range(STEPS)
            for metric, value in metrics.items()
        ],
    )
    database.commit()
    database.close()


root = Path(sys.argv[1])
for folder in ("tensorboard", "wandb", "sqlite"):
    (root / folder).mkdir(exist_ok=True)
hf = {"train/loss": 2.5, "train/grad_norm": 1.5, "train/learning_rate": 3e-4, "eval/loss": 2.6}
lightning = {"train_loss_step": 2.5, "lr-AdamW": 3e-4, "val_loss": 2.6, "grad_2.0_norm_total": 1.5}
events(root / "tensorboard/hf-trainer.tfevents", simple, **hf)
events(root / "tensorboard/torch.tfevents", simple, **{"Loss/train": 2.5, "Loss/val": 2.6, "lr": 1})
events(root / "tensorboard/lightning.tfevents", simple, **lightning)
events(root / "tensorboard/keras.tfevents", scalar_pb, epoch_loss=2.5, epoch_learning_rate=3e-4)
args = {"learning_rate": 3e-4, "bf16": True}
wandb_run(root / "wandb/hf-trainer.wandb", "train/global_step", args, **hf)
wandb_run(root / "wandb/lightning.wandb", "trainer/global_step", {"lr": 3e-4}, **lightning)
keras = {"loss": 2.5, "val_loss": 2.6, "learning_rate": 3e-4}
mlflow_database(root / "sqlite/mlflow.db", {"optimizer": "adamw"}, **keras)
