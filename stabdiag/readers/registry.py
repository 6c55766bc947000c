"""The formats that can be read: one row each, in the order of detection.

A format's module exports two functions, and may export two more:

    sniff(head: bytes, *, is_complete: bool) -> bool
        True if the first lines of a file (``is_complete``: all of it) have this format; cheap,
        and never fails
    read(stream: Stream) -> Columns
        the log; slow imports are inside this function
    growing() -> GrowingLog
        a reader of a growing log, block by block, with the same result as ``read`` in the end
    read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns
        a run in several files, each with its path in the run's folder

The module of a text format may export its GRAMMAR instead, and a part may be a grammar.

Fast formats come first, and a module is imported only when its format is tried, so that a small log
of JSON lines does not wait for twenty other formats.
"""

from __future__ import annotations

from typing import Final

from stabdiag.errors import LogError, did_you_mean
from stabdiag.readers.reader import Reader, SniffPriority, TextReader

_TEXT_PACKAGE: Final = "stabdiag.readers.text"

TEXT_READERS: Final = (
    TextReader(
        name="megatron",
        title="a log of Megatron-LM or Megatron-DeepSpeed",
        module=f"{_TEXT_PACKAGE}.grammars.frameworks",
        part="MEGATRON",
        detected_by="a line with iteration N/ M and fields that end with a bar",
        not_read="timers and memory reports",
        example=" iteration      100/    8000 | lm loss: 7.072597E-01 | loss scale: 65536.0 | …",
    ),
    TextReader(
        name="composer",
        title="a log of Composer",
        module=f"{_TEXT_PACKAGE}.grammars.frameworks",
        part="COMPOSER",
        detected_by="indented lines of Train or Eval with a name and a number",
        not_read="tables and words",
        example="[batch=10/1000]:  over lines such as  Train loss/train/total: 3.2100",
    ),
    TextReader(
        name="deepspeed",
        title="a log of DeepSpeed",
        module=f"{_TEXT_PACKAGE}.grammars.frameworks",
        part="DEEPSPEED",
        detected_by="a line of step=N, skipped=N, lr=[…], if no framework above it matches",
        not_read="timers and memory reports",
        example="[Rank 0] step=510, skipped=8, lr=[9.6e-06, 9.6e-06], mom=[(0.9, 0.95)]",
        priority=SniffPriority.LATE,
    ),
    TextReader(
        name="caffe",
        title="a log of Caffe",
        module=f"{_TEXT_PACKAGE}.grammars.caffe",
        part="CAFFE",
        detected_by="a line of solver.cpp with Iteration N, loss = or lr =",
        not_read="the structure of the net",
        example="I0120 20:08:35.002946 17443 solver.cpp:237] Iteration 20, loss = 6.90814",
    ),
    TextReader(
        name="hf-trainer-stdout",
        title="what the HF Trainer printed",
        module=f"{_TEXT_PACKAGE}.grammars.trainer",
        detected_by="a Python dict on a line, with a loss and an epoch or step",
        not_read="the summary at the end",
        grows=False,
        example="{'loss': 2.05, 'grad_norm': 0.5, 'learning_rate': 1.9e-04, 'epoch': 0.28}",
    ),
    TextReader(
        name="coqui",
        title="a log of Coqui's Trainer, of TTS",
        module=f"{_TEXT_PACKAGE}.grammars.records",
        part="COQUI",
        detected_by="a line of GLOBAL_STEP: N over lines such as | > loss: N (N)",
        not_read="means of an epoch so far, single steps of an evaluation",
        grows=False,
        example="--> STEP: 25/377 -- GLOBAL_STEP: 25  over lines such as  | > loss: 2.5  (2.6)",
    ),
    TextReader(
        name="yolo",
        title="what YOLOv5, YOLOv6, YOLOv7 or Ultralytics printed",
        module=f"{_TEXT_PACKAGE}.grammars.yolo",
        part="YOLO",
        detected_by="Epoch, losses and memory, learning rate or size in a line above progress bars",
        not_read="all states of a bar but the last of each epoch, validations",
        grows=False,
        example="22/55  9.02G  0.1157  5.355  2.998  17  640: 100%|█████| 954/954 […]",
    ),
    TextReader(
        name="baselines",
        title="tables of Stable-Baselines or OpenAI's baselines",
        module=f"{_TEXT_PACKAGE}.grammars.results",
        part="BASELINES",
        detected_by="rows of a name and a value between lines of dashes, a loss or reward in them",
        not_read="lines between the tables",
        grows=False,
        example="|    ep_rew_mean      | 21.3     |",
        priority=SniffPriority.LATE,
    ),
    TextReader(
        name="rllib",
        title="results that RLlib or Ray Tune printed as YAML",
        module=f"{_TEXT_PACKAGE}.grammars.results",
        part="RLLIB",
        detected_by="a line of training_iteration: N among indented names with values",
        not_read="lists, the settings of a trial, NaN for measures without a finished episode",
        grows=False,
        example="Result for PPO_…:  over lines such as  episode_reward_mean: 21.3",
        priority=SniffPriority.LATE,
    ),
    TextReader(
        name="dowel",
        title="tables of garage (dowel) or rlkit",
        module=f"{_TEXT_PACKAGE}.grammars.results",
        part="DOWEL",
        detected_by="two columns between rules of dashes, with a counter and a return or a loss",
        not_read="lines between the tables",
        grows=False,
        example="AverageReturn             81.6906",
        priority=SniffPriority.LATE,
    ),
    TextReader(
        name="mllog",
        title="a result of MLPerf",
        module=f"{_TEXT_PACKAGE}.grammars.records",
        part="MLLOG",
        detected_by="a line with :::MLLOG, if no framework's own lines are found",
        not_read="events without a step or epoch, except the settings",
        example=':::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}',
        priority=SniffPriority.LATE,
    ),
    TextReader(
        name="text",
        title="a text log with names and values, as nanoGPT, llm.c, OLMo, big_vision, LeRobot, "
        "Marian, Darknet, YOLACT, Tacotron 2, BasicSR, pix2pix, WeNet and most others print it",
        module=f"{_TEXT_PACKAGE}.grammars.general",
        detected_by="a loss (or norm, scale) on many lines, next to or below a rising counter",
        not_read="lines without a loss, if other lines have one",
        example="Step 100 | loss: 2.31 | lr: 0.0003",
        priority=SniffPriority.LAST,
    ),
    TextReader(
        name="printed-table",
        title="a table printed for people: in Markdown, or as skorch, fastai or Rich print it",
        module=f"{_TEXT_PACKAGE}.grammars.printed",
        detected_by="a heading with a loss, rows with the same cells, split by bars or two spaces",
        not_read="all tables except the largest",
        example="| Epoch | Train Loss | Val Loss |",
        priority=SniffPriority.LAST,
    ),
    TextReader(
        name="alarms",
        title="a log that only reports overflows, or losses that are not finite",
        module=f"{_TEXT_PACKAGE}.messages.status_lines",
        part="ALONE",
        detected_by="a line of DeepSpeed, Apex, detectron2, DETR, Keras, … that reports it",
        not_read="all other lines",
        example="OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        priority=SniffPriority.LAST,
        # If losses follow, the log has another format.
        grows=False,
    ),
)


__all__ = ["READERS", "Reader", "reader"]

READERS: Final = (
    Reader(
        name="parquet",
        title="Parquet",
        module="stabdiag.readers.stores.parquet",
        starts=(b"PAR1",),
        detected_by="begins with the bytes PAR1",
        not_read="columns without numbers, words or times",
        binary=True,
    ),
    Reader(
        name="jsonl",
        title="JSON lines, as mmdetection, detectron2, MAE, BEiT or W&B write them",
        module="stabdiag.readers.json.lines",
        suffixes=(".jsonl", ".ndjson", ".json"),
        detected_by="a JSON object on one of the first lines, or on most of them",
        not_read="lists of numbers except the first item; losses of an epoch's steps are read",
        example='{"step": 100, "loss": 2.31, "grad_norm": 0.84, "lr": 0.0003}',
    ),
    Reader(
        name="csv",
        title="CSV, as Lightning, Keras, YOLO, Stable-Baselines, W&B or Excel write it",
        module="stabdiag.readers.csv.log",
        suffixes=(".csv", ".tsv"),
        detected_by="lines with the same number of cells, mostly numbers; usually a line of names",
        not_read="comments",
        example="step,loss,grad_norm,lr",
    ),
    Reader(
        name="tensorboard",
        title="a TensorBoard event file",
        module="stabdiag.readers.stores.tensorboard",
        detected_by="a first record with brain.Event and its version",
        extra="tensorboard",
        packages=("tensorboard",),
        not_read="histograms, pictures, graphs, times; texts except settings",
        binary=True,
    ),
    Reader(
        name="wandb",
        title="a run file of W&B",
        module="stabdiag.readers.stores.wandb",
        starts=(b":W&B",),
        detected_by="begins with the bytes :W&B",
        extra="wandb",
        packages=("google.protobuf",),
        not_read="lists, pictures and tables, system metrics, the summary",
        binary=True,
    ),
    Reader(
        name="sqlite",
        title="a database of MLflow, Trackio or Optuna",
        module="stabdiag.readers.stores.sqlite",
        starts=(b"SQLite format 3",),
        detected_by="begins with the bytes SQLite format 3; its tables identify the program",
        not_read="all runs except the newest (scan reads all); tags, traces, Trackio's system "
        "metrics",
        binary=True,
    ),
    Reader(
        name="optuna-journal",
        title="the journal of an Optuna study",
        module="stabdiag.readers.stores.optuna",
        starts=(b"{",),
        detected_by="a first JSON line with op_code and worker_id",
        not_read="all trials except the newest (scan reads all); final values, attributes",
        example='{"op_code": 7, "worker_id": "1-2", "trial_id": 0, "step": 3, '
        '"intermediate_value": 0.41}',
        document=True,
    ),
    Reader(
        name="trainer-state",
        title="the state of the HF Trainer, trainer_state.json",
        module="stabdiag.readers.json.document",
        part="TrainerState",
        starts=(b"{",),
        detected_by="one JSON object with a list called log_history",
        not_read="the state of callbacks; the mean loss of the summary is not a training loss",
        document=True,
        example='"log_history": [{"epoch": 0.1, "loss": 2.31, "grad_norm": 0.84, "step": 10}, …]',
    ),
    Reader(
        name="json",
        title="a JSON document, as Chainer, pandas, TensorBoard or Megatron-LM's tests write it",
        module="stabdiag.readers.json.document",
        starts=(b"[", b"{"),
        detected_by="a JSON list of objects, lists or numbers; an object of lists or on many lines",
        not_read="lists that do not belong to the training, or are shorter than the longest list",
        document=True,
        example='[{"iteration": 100, "main/loss": 2.31}, {"iteration": 200, "main/loss": 2.25}]',
    ),
    Reader(
        name="mlflow-metric",
        title="a metric file of MLflow",
        module="stabdiag.readers.stores.mlflow",
        detected_by="lines of a time in milliseconds, a value and a step",
        not_read="everything is read: one metric, named after the file",
        example="1767225600000 2.31 100",
    ),
    *TEXT_READERS,
)


def reader(name: str) -> Reader:
    """Return the reader of a format."""
    for candidate in READERS:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in READERS]
    raise LogError(
        f"unknown format {name!r}{did_you_mean(name, names)} (known formats: {', '.join(names)})"
    )
