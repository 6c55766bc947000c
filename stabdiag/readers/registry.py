"""The formats that can be read: one row each, in the order in which they are tried.

A format's module exports two functions, and may export two more:

    recognises(head: bytes, *, whole: bool) -> bool
        whether the first lines of a file (all of it, if ``whole``) are of this format; cheap, and
        never fails
    read(stream: Stream) -> Columns
        the log; what is heavy to import is imported here, inside
    growing() -> Growing
        what reads a log block by block as it grows, and in the end has read what ``read`` reads
    read_run(files: Iterable[tuple[PurePosixPath, Stream]], name: str) -> Columns
        a run that is kept in several files, each with its path in the run's folder

That of a text format may export its GRAMMAR in their place; a part of one may be a grammar.

The quick formats come first, and a module is imported only when its format is tried, so that a
small log of JSON lines does not wait for twenty others.
"""

from __future__ import annotations

from typing import Final

from stabdiag.errors import LogError, did_you_mean
from stabdiag.readers.reader import Reader, TextReader, Turn
from stabdiag.readers.text.asides import ALONE
from stabdiag.readers.text.frameworks import FRAMEWORKS

_PACKAGE: Final = "stabdiag.readers.text"

TEXT_READERS: Final = (
    *FRAMEWORKS,
    TextReader(
        name="hf-trainer-stdout",
        title="what the HF Trainer printed",
        module=f"{_PACKAGE}.trainer",
        recognised="a Python dict on a line, with a loss and an epoch or step",
        loses="the summary at the end",
        grows=False,
        example="{'loss': 2.05, 'grad_norm': 0.5, 'learning_rate': 1.9e-04, 'epoch': 0.28}",
    ),
    TextReader(
        name="coqui",
        title="a log of Coqui's Trainer, of TTS",
        module=f"{_PACKAGE}.records",
        part="COQUI",
        recognised="a line of GLOBAL_STEP: N over lines such as | > loss: N (N)",
        loses="means of an epoch so far, single steps of an evaluation",
        grows=False,
        example="--> STEP: 25/377 -- GLOBAL_STEP: 25  over lines such as  | > loss: 2.5  (2.6)",
    ),
    TextReader(
        name="yolo",
        title="what YOLOv5, YOLOv7 or Ultralytics printed",
        module=f"{_PACKAGE}.records",
        part="YOLO",
        recognised="a heading of Epoch, GPU_mem, losses, instances and size",
        loses="all states of a bar but the last of each epoch, validations",
        grows=False,
        example="22/55  9.02G  0.1157  5.355  2.998  17  640: 100%|█████| 954/954 […]",
    ),
    TextReader(
        name="baselines",
        title="tables of Stable-Baselines or OpenAI's baselines",
        module=f"{_PACKAGE}.records",
        part="BASELINES",
        recognised="rows of a name and a value between lines of dashes, a loss or reward in them",
        loses="what stands between the tables",
        grows=False,
        example="|    ep_rew_mean      | 21.3     |",
        turn=Turn.PATIENT,
    ),
    TextReader(
        name="mllog",
        title="a result of MLPerf",
        module=f"{_PACKAGE}.records",
        part="MLLOG",
        recognised="a line with :::MLLOG, where no framework's own lines are found",
        loses="events without a place in the training, other than the settings",
        example=':::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}',
        turn=Turn.PATIENT,
    ),
    TextReader(
        name="text",
        title="a text log with names and values, as nanoGPT, llm.c, OLMo, big_vision, LeRobot, "
        "Marian, Darknet, YOLACT, Tacotron 2, BasicSR, pix2pix, WeNet and most others print it",
        module=f"{_PACKAGE}.general",
        recognised="a loss (or norm, scale) on many lines, a counter that rises beside or above it",
        loses="lines without a loss, where any has one",
        example="Step 100 | loss: 2.31 | lr: 0.0003",
        turn=Turn.LAST,
    ),
    TextReader(
        name="printed-table",
        title="a table printed for people: in Markdown, or as skorch, fastai or Rich print it",
        module=f"{_PACKAGE}.printed",
        recognised="a heading with a loss, over rows of as many cells, two blanks or bars between",
        loses="all tables but the largest",
        example="| Epoch | Train Loss | Val Loss |",
        turn=Turn.LAST,
    ),
    TextReader(
        name="alarms",
        title="a log that tells only of overflows, or that a loss is not finite",
        recognised="a line of DeepSpeed, Apex, detectron2, DETR, Keras, … that says so",
        loses="all other lines",
        example="OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        turn=Turn.LAST,
        grammar=ALONE,
        # Once losses follow, it is of another format.
        grows=False,
    ),
)


__all__ = ["READERS", "Reader", "reader"]

READERS: Final = (
    Reader(
        name="parquet",
        title="Parquet",
        module="stabdiag.readers.parquet",
        recognised="begins with the bytes PAR1",
        loses="columns that are no numbers, words or times",
        binary=True,
    ),
    Reader(
        name="jsonl",
        title="JSON lines, as mmdetection, detectron2, MAE, BEiT or W&B write them",
        module="stabdiag.readers.json.lines",
        suffixes=(".jsonl", ".ndjson", ".json"),
        recognised="one of the first lines, or most of them, a JSON object",
        loses="lists of numbers, but for their first; not those of the losses of an epoch's steps",
        example='{"step": 100, "loss": 2.31, "grad_norm": 0.84, "lr": 0.0003}',
    ),
    Reader(
        name="csv",
        title="CSV, as Lightning, Keras, YOLO, Stable-Baselines, W&B or Excel write it",
        module="stabdiag.readers.csv.log",
        suffixes=(".csv", ".tsv"),
        recognised="a line of names over lines of as many cells, most of them numbers; or no names",
        loses="comments",
        example="step,loss,grad_norm,lr",
    ),
    Reader(
        name="tensorboard",
        title="a TensorBoard event file",
        module="stabdiag.readers.tensorboard",
        recognised="a first record that tells brain.Event and its version",
        extra="tensorboard",
        packages=("tensorboard",),
        loses="histograms, pictures, graphs, times; of texts all but settings",
        binary=True,
    ),
    Reader(
        name="wandb",
        title="a run file of W&B",
        module="stabdiag.readers.wandb",
        recognised="begins with the bytes :W&B",
        extra="wandb",
        packages=("google.protobuf",),
        loses="lists, pictures and tables, system metrics, the summary",
        binary=True,
    ),
    Reader(
        name="sqlite",
        title="a database of MLflow or Trackio",
        module="stabdiag.readers.sqlite",
        recognised="begins with the bytes SQLite format 3; its tables tell whose it is",
        loses="all runs but the newest; tags, traces, system metrics of Trackio",
        binary=True,
    ),
    Reader(
        name="trainer-state",
        title="the state of the HF Trainer, trainer_state.json",
        module="stabdiag.readers.json.document",
        part="State",
        recognised="one JSON object with a list called log_history",
        loses="what callbacks keep; the mean loss of the summary at the end is not a training loss",
        document=True,
        example='"log_history": [{"epoch": 0.1, "loss": 2.31, "grad_norm": 0.84, "step": 10}, …]',
    ),
    Reader(
        name="json",
        title="a JSON document, as Chainer, pandas, TensorBoard or Megatron-LM's tests write it",
        module="stabdiag.readers.json.document",
        recognised="a JSON list of objects, lists or numbers; an object of lists or on many lines",
        loses="all tables but the largest; lists of another length than the longest",
        document=True,
        example='[{"iteration": 100, "main/loss": 2.31}, {"iteration": 200, "main/loss": 2.25}]',
    ),
    Reader(
        name="mlflow-metric",
        title="a metric file of MLflow",
        module="stabdiag.readers.mlflow",
        recognised="lines of a time in milliseconds, a value and a step",
        loses="nothing; it is one metric, and has the name of the file",
        example="1767225600000 2.31 100",
    ),
    *TEXT_READERS,
)


def reader(name: str) -> Reader:
    """Return the reader of a format."""
    for one in READERS:
        if one.name == name:
            return one
    names = [one.name for one in READERS]
    raise LogError(
        f"unknown format {name!r}{did_you_mean(name, names)} (there are: {', '.join(names)})"
    )
