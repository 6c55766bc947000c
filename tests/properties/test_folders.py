"""Untouched output folders of training libraries, in every document."""

import csv
import json
import pickle
import struct
import zipfile

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import stabdiag
from stabdiag.formats import names
from tests.conftest import program
from tests.properties.made import falling, strict_json, write_all, write_every_document

COUNT = 60


def curve(seed):
    """Return a training loss with a spike near its end."""
    loss = falling(COUNT, seed=seed)
    loss[50] += 4.0
    return loss.tolist()


def write_safetensors(path):
    """Write an empty weights file as safetensors does."""
    header = json.dumps({"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def write_torch(path, content):
    """Write a zip with a pickle, as ``torch.save`` does."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content))
        archive.writestr("archive/version", "3\n")


def write_events(folder, columns):
    """Write TensorBoard events, one summary for each tag and step."""
    folder.mkdir(parents=True)
    writer = EventFileWriter(str(folder))
    for tag, points in columns.items():
        for step, value in points:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=1e9 + step, step=step, summary=summary))
    writer.close()


def write_hf_trainer(folder, seed):
    """Write the output folder of the Hugging Face Trainer."""
    history = []
    for i, loss in enumerate(curve(seed), 1):
        step = 10 * i
        history.append(
            {
                "epoch": step / 200,
                "grad_norm": 1.0 + 0.01 * i,
                "learning_rate": 5e-5 * (1 - step / 700),
                "loss": round(loss, 4),
                "step": step,
            }
        )
        if step % 200 == 0:
            history.append(
                {
                    "epoch": step / 200,
                    "eval_loss": loss + 0.1,
                    "eval_runtime": 3.2,
                    "eval_samples_per_second": 312.5,
                    "eval_steps_per_second": 39.1,
                    "step": step,
                }
            )
    state = {
        "best_metric": None,
        "best_model_checkpoint": None,
        "epoch": 3.0,
        "eval_steps": 500,
        "global_step": 600,
        "is_hyper_param_search": False,
        "is_local_process_zero": True,
        "is_world_process_zero": True,
        "log_history": history,
        "logging_steps": 10,
        "max_steps": 600,
        "num_input_tokens_seen": 0,
        "num_train_epochs": 3,
        "save_steps": 200,
        "stateful_callbacks": {"TrainerControl": {"args": {}, "attributes": {}}},
        "total_flos": 1.2e15,
        "train_batch_size": 8,
        "trial_name": None,
        "trial_params": None,
    }
    folder.mkdir()
    for part in (*(folder / f"checkpoint-{step}" for step in (200, 400, 600)), folder):
        part.mkdir(exist_ok=True)
        (part / "config.json").write_text(
            json.dumps({"architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_layer": 12})
        )
        write_safetensors(part / "model.safetensors")
        write_torch(part / "training_args.bin", {"learning_rate": 5e-5})
        step = int(part.name.rpartition("-")[2]) if part != folder else 600
        kept = [row for row in history if row["step"] <= step]
        (part / "trainer_state.json").write_text(
            json.dumps({**state, "global_step": step, "log_history": kept}, indent=2)
        )
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            if part != folder:
                write_torch(part / name, {})
    results = {"epoch": 3.0, "train_loss": 1.5, "train_runtime": 61.0, "total_flos": 1.2e15}
    for name in ("all_results.json", "train_results.json"):
        (folder / name).write_text(json.dumps(results, indent=4))
    (folder / "README.md").write_text("---\nlibrary_name: transformers\n---\n\n# run\n")
    points = [(row["step"], row["loss"]) for row in history if "loss" in row]
    write_events(folder / "runs" / "Nov28_10-00-00_host", {"train/loss": points})


def write_lightning(folder, seed):
    """Write the default root folder of Lightning: CSV logger, hyperparameters, checkpoints."""
    version = folder / "lightning_logs" / "version_0"
    (version / "checkpoints").mkdir(parents=True)
    write_torch(version / "checkpoints" / "epoch=0-step=200.ckpt", {})
    write_torch(version / "checkpoints" / "epoch=1-step=400.ckpt", {})
    (version / "hparams.yaml").write_text(
        "lr: 0.001\nbatch_size: 32\noptimizer: !!python/name:torch.optim.adam.Adam ''\n"
        "betas: !!python/tuple\n- 0.9\n- 0.999\n"
    )
    rows = []
    for i, loss in enumerate(curve(seed)):
        step = 10 * i + 9
        rows.append({"epoch": step // 200, "lr-Adam": 1e-3, "step": step})
        rows.append({"epoch": step // 200, "step": step, "train_loss": loss})
        if step % 200 == 199:
            rows.append({"epoch": step // 200, "step": step, "val_loss": loss + 0.1})
    with (version / "metrics.csv").open("w", newline="") as file:
        fields = ["epoch", "lr-Adam", "step", "train_loss", "val_loss"]
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def write_keras(folder, seed):
    """Write what Keras callbacks leave: CSVLogger, ModelCheckpoint, TensorBoard."""
    folder.mkdir()
    loss = curve(seed)
    with (folder / "training.log").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "accuracy", "learning_rate", "loss", "val_accuracy", "val_loss"])
        for epoch, value in enumerate(loss):
            score = 1 - value / 5
            writer.writerow([epoch, score, 0.001, value, score - 0.05, value + 0.2])
    (folder / "checkpoints").mkdir()
    for epoch in (10, 20):
        (folder / "checkpoints" / f"weights.{epoch:02d}-{loss[epoch]:.2f}.weights.h5").write_bytes(
            b"\x89HDF\r\n\x1a\n"
        )
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({"class_name": "Sequential", "config": {}}))
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.3.3"}))
    for split, shift in (("train", 0.0), ("validation", 0.2)):
        points = [(epoch, value + shift) for epoch, value in enumerate(loss)]
        write_events(folder / "logs" / split, {"epoch_loss": points})


def write_wandb(folder, seed):
    """Write the run folder that W&B keeps next to a training script."""
    run = folder / "wandb" / "run-20261128_100000-abcd1234"
    (run / "files").mkdir(parents=True)
    (run / "logs").mkdir()
    (run / "files" / "config.yaml").write_text(
        "_wandb:\n  desc: null\n  value:\n    cli_version: 0.16.0\n"
        "learning_rate:\n  desc: null\n  value: 0.0003\n"
        "checkpoints:\n  desc: null\n  value:\n  - 100\n  - 200\n"
        "fp16:\n  desc: null\n  value: true\n"
    )
    loss = curve(seed)
    lines = [f"step {10 * i} loss {value:.4f} lr 0.0003" for i, value in enumerate(loss)]
    (run / "files" / "output.log").write_text("\n".join(lines) + "\n")
    (run / "files" / "requirements.txt").write_text("torch==2.3.0\nwandb==0.16.0\n")
    summary = {"_step": 590, "_runtime": 61.2, "train/loss": loss[-1], "_timestamp": 1.7e9}
    (run / "files" / "wandb-summary.json").write_text(json.dumps(summary))
    (run / "files" / "wandb-metadata.json").write_text(
        json.dumps({"program": "train.py", "gpu": "A100", "args": ["--lr", "3e-4"]})
    )
    (run / "logs" / "debug.log").write_text("2026-11-28 10:00:00,000 INFO MainThread:1 setup\n")


LAYOUTS = {
    "hf-trainer": write_hf_trainer,
    "lightning": write_lightning,
    "keras": write_keras,
    "wandb": write_wandb,
}


@pytest.fixture(params=LAYOUTS)
def folders(request, tmp_path):
    """Two runs of one library."""
    paths = [tmp_path / "first run", tmp_path / "second run"]
    for seed, path in enumerate(paths):
        LAYOUTS[request.param](path, seed)
    return paths


def test_every_document_about_an_untouched_folder(folders):
    report = stabdiag.diagnose(folders[0])
    assert report.history.source.records >= COUNT
    write_every_document(report)
    write_all(stabdiag.compare(folders), "comparison")


def test_every_file_that_the_command_line_writes(folders, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    extra_outputs = [f"--write={name}={out / name}" for name in names()]
    done = program(
        "diagnose", folders[0], *extra_outputs, "--fail-on", "never", "-o", out / "report.html"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {path.name for path in out.iterdir()} == {*names(), "report.html"}
    strict_json((out / "json").read_text(encoding="utf-8"))
