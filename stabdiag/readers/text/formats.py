"""The formats of text logs that can be read: one row each.

A row holds the grammar of its lines, or names the module that has the code for what no row says.
"""

from __future__ import annotations

from typing import Final

from stabdiag.readers.reader import Turn
from stabdiag.readers.text.asides import ALONE
from stabdiag.readers.text.language import LANGUAGE
from stabdiag.readers.text.row import TextReader
from stabdiag.readers.text.vision import VISION

_PACKAGE: Final = "stabdiag.readers.text"

TEXT_READERS: Final = (
    *LANGUAGE,
    *VISION,
    TextReader(
        name="hf-trainer-stdout",
        title="what the HF Trainer printed",
        module=f"{_PACKAGE}.trainer",
        recognised="a Python dict on a line, with a loss and an epoch or step",
        loses="the summary at the end",
        example="{'loss': 2.05, 'grad_norm': 0.5, 'learning_rate': 1.9e-04, 'epoch': 0.28}",
    ),
    TextReader(
        name="coqui",
        title="a log of Coqui's Trainer, of TTS",
        module=f"{_PACKAGE}.coqui",
        recognised="a line of GLOBAL_STEP: N over lines such as | > loss: N (N)",
        loses="means of an epoch so far, single steps of an evaluation",
        example="--> STEP: 25/377 -- GLOBAL_STEP: 25  over lines such as  | > loss: 2.5  (2.6)",
    ),
    TextReader(
        name="yolo",
        title="what YOLOv5, YOLOv7 or Ultralytics printed",
        module=f"{_PACKAGE}.yolo",
        recognised="a heading of Epoch, GPU_mem, losses, instances and size",
        loses="all states of a bar but the last of each epoch, validations",
        example="22/55  9.02G  0.1157  5.355  2.998  17  640: 100%|█████| 954/954 […]",
    ),
    TextReader(
        name="baselines",
        title="tables of Stable-Baselines or OpenAI's baselines",
        module=f"{_PACKAGE}.baselines",
        recognised="rows of a name and a value between lines of dashes, a loss or reward in them",
        loses="what stands between the tables",
        example="|    ep_rew_mean      | 21.3     |",
        turn=Turn.PATIENT,
    ),
    TextReader(
        name="mllog",
        title="a result of MLPerf",
        module=f"{_PACKAGE}.mllog",
        recognised="a line with :::MLLOG, where no framework's own lines are found",
        loses="events without a place in the training, other than the settings",
        example=':::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}',
        turn=Turn.PATIENT,
    ),
    TextReader(
        name="text",
        title="a text log with names and values",
        module=f"{_PACKAGE}.general",
        recognised="a loss (or norm, scale) on many lines, a counter that rises beside or above it",
        loses="lines without a loss, where any has one",
        example="Step 100 | loss: 2.31 | lr: 0.0003",
        turn=Turn.LAST,
    ),
    TextReader(
        name="markdown",
        title="a table in a page of Markdown",
        module=f"{_PACKAGE}.markdown",
        recognised="a heading with a loss, a line of bars and dashes below it, and rows as long",
        loses="all tables but the largest, and the prose around them",
        example="| Epoch | Train Loss | Val Loss |",
        turn=Turn.LAST,
    ),
    TextReader(
        name="printed-table",
        title="a table printed row by row, as skorch, fastai, scikit-learn or Rich print it",
        module=f"{_PACKAGE}.printed",
        recognised="a heading with a loss, over rows of cells as it has names, a count the first",
        loses="all tables but the largest, and what stands between the rows",
        example="  epoch    train_loss    valid_loss     dur",
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
