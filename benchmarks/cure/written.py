"""A run's log in the form that its author wishes, and in those that people have."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, float]

STRIDE = 5  # people log every few steps


def wished(rows: Sequence[Row], folder: Path, manifest: dict[str, object]) -> Path:
    """Write every column, and the manifest next to it."""
    (folder / "manifest.json").write_text(json.dumps(manifest))
    path = folder / "log.jsonl"
    path.write_text("".join(f"{json.dumps(known(row))}\n" for row in rows))
    return path


def trainer_state(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write the state of the HF Trainer: means over an interval, two digits of an epoch."""
    history: list[Row] = []
    for part in intervals(rows):
        last = part[-1]
        loss = sum(row["loss"] for row in part) / len(part)
        history.append(
            {"epoch": round(last["epoch"], 2), "grad_norm": last["grad_norm"]}
            | {"learning_rate": last["lr"], "loss": round(loss, 4), "step": last["step"]}
        )
        history += [
            {"epoch": round(row["epoch"], 2), "eval_loss": row["eval_loss"], "step": row["step"]}
            for row in part
            if "eval_loss" in row
        ]
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, "max_steps": steps}))
    return path


def lightning(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write the metrics.csv of Lightning: a row of its own for each evaluation."""
    lines = ["epoch,step,train_loss,val_loss"]
    for part in intervals(rows):
        last = part[-1]
        lines.append(f"{int(last['epoch'])},{last['step']:.0f},{last['loss']},")
        lines += [
            f"{int(row['epoch'])},{row['step']:.0f},,{row['eval_loss']}"
            for row in part
            if "eval_loss" in row
        ]
    path = folder / "metrics.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def printed(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write what a loop prints: the epoch, the step and a rounded loss."""
    path = folder / "train.log"
    path.write_text(
        "".join(
            f"epoch {int(part[-1]['epoch'])} step {part[-1]['step']:.0f}/{steps} "
            f"loss {part[-1]['loss']:.4f} lr {part[-1]['lr']:.2e}\n"
            for part in intervals(rows)
        )
    )
    return path


def bare(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write only the loss and the rate."""
    path = folder / "log.csv"
    lines = [f"{row['step']:.0f},{row['loss']},{row['lr']}\n" for row in rows]
    path.write_text("step,loss,lr\n" + "".join(lines))
    return path


def tensorboard(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write an event file with loss, rate and evaluation loss."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    names = {"loss": "train/loss", "lr": "train/lr", "eval_loss": "val/loss"}
    for part in intervals(rows):
        for row in part:
            tags = names if row is part[-1] else {"eval_loss": "val/loss"}
            values = [
                Summary.Value(tag=t, simple_value=row[n]) for n, t in tags.items() if n in row
            ]
            writer.add_event(Event(step=int(row["step"]), summary=Summary(value=values)))
    writer.close()
    return next(folder.glob("*tfevents*"))


def wandb(rows: Sequence[Row], folder: Path, steps: int) -> Path:
    """Write the history of a W&B run as its API exports it, and the summary of its settings."""
    lines = []
    for part in intervals(rows):
        last = part[-1]
        line = {"_step": last["step"], "train/loss": last["loss"], "train/lr": last["lr"]}
        line |= {"train/epoch": last["epoch"]}
        for row in part:
            line |= {"eval/loss": row["eval_loss"]} if "eval_loss" in row else {}
        lines.append(json.dumps({name: exported(value) for name, value in line.items()}))
    path = folder / "wandb-history.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def exported(value: float) -> float | str:
    """Return a value as W&B stores it: a value that is not finite is a word."""
    return (
        value
        if math.isfinite(value)
        else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    )


WAYS = ("as wished", "as people do")

AS_PEOPLE_DO: tuple[Callable[[Sequence[Row], Path, int], Path], ...] = (
    *(trainer_state, lightning, printed, bare, tensorboard, wandb),
)


# The columns of each common form: the loss, its evaluation, the gradient norm and the rate.
LOGGED_SERIES: dict[Callable[[Sequence[Row], Path, int], Path], tuple[str, ...]] = {
    trainer_state: ("loss", "eval_loss", "grad_norm", "lr"),
    lightning: ("loss", "eval_loss"),
    printed: ("loss", "lr"),
    bare: ("loss", "lr"),
    tensorboard: ("loss", "eval_loss", "lr"),
    wandb: ("loss", "eval_loss", "lr"),
}


def every_column(rows: Sequence[Row], folder: Path) -> Path:
    """Write all that was logged as a table."""
    path = folder / "log.csv"
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write(rows: Sequence[Row], folder: Path, about: dict[str, Any], way: str, number: int) -> Path:
    """Write a log in one of the two ways; people's forms come in turn."""
    if about["run"].startswith("trap/"):
        return every_column(rows, folder)
    if way == WAYS[0]:
        return wished(rows, folder, about["manifest"])
    return AS_PEOPLE_DO[number % len(AS_PEOPLE_DO)](rows, folder, about["steps"])


def intervals(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Return the rows between two lines of a log."""
    return [rows[at : at + STRIDE] for at in range(0, len(rows), STRIDE)]


def known(row: Row) -> Row:
    """Return a row without what was not measured."""
    return {
        k: v
        for k, v in row.items()
        if not (k == "grad_norm" and math.isnan(v) and math.isfinite(row["loss"]))
    }
